// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"minne/internal/model/config"
)

// Port is a link of a machine, and the interface that it is or was.
type Port struct {
	Interface string   `json:"interface,omitempty"` // of the configuration; "" for one that has none
	Name      string   `json:"name"`                // the kernel's, before Minne gave it another
	Former    []string `json:"former,omitempty"`    // other names that it goes by
	MAC       string   `json:"mac"`
	Driver    string   `json:"driver,omitempty"`
	Path      string   `json:"path,omitempty"`       // bus address
	Speed     uint32   `json:"speed_mbit,omitempty"` // 0 when unknown
}

func (p Port) String() string {
	words := []string{p.Name}
	if p.Speed > 0 {
		words = append(words, fmt.Sprintf("%d Mbit/s", p.Speed))
	}
	for _, w := range []string{p.Driver, p.Path, p.MAC} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", ")
}

// Mapping is a port of the backup and the one that takes its place here.
type Mapping struct {
	From Port
	To   Port
	Same bool // the configuration finds it by itself
}

// matches says whether the configuration's interface finds this link.
func (p Port) matches(name string, m *config.Match) bool {
	switch {
	case m == nil:
		return p.named(name)
	case m.MAC != config.MAC{}:
		return p.MAC == m.MAC.String()
	case m.Path != "":
		return p.Path == m.Path
	}
	return p.named(m.Name)
}

func (p Port) named(name string) bool { return p.Name == name || slices.Contains(p.Former, name) }

// Physical returns the names of the interfaces that need a port, in order.
func Physical(cfg *config.Config) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		if cfg.Kind(name).Port {
			names = append(names, name)
		}
	}
	return names
}

// Propose finds a port of this machine for every interface that needs one: the one
// that the configuration finds by itself, else the likeliest that is left: of the same
// driver and speed, of the same speed, of the same driver, then the first in order.
// A mapping without a port here has none left.
func Propose(cfg *config.Config, from, here []Port) []Mapping {
	var all []Mapping
	taken := make(map[string]bool)
	for _, name := range Physical(cfg) {
		m := Mapping{From: Port{Interface: name, Name: name}}
		if n := slices.IndexFunc(from, func(p Port) bool { return p.Interface == name }); n >= 0 {
			m.From = from[n]
		}
		for _, p := range here {
			if p.matches(name, matchOf(cfg, name)) && !taken[p.Name] {
				m.To, m.Same = p, true
				taken[p.Name] = true
				break
			}
		}
		all = append(all, m)
	}
	here = slices.SortedFunc(slices.Values(here), func(a, b Port) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Name, b.Name)) })
	for _, alike := range []func(a, b Port) bool{
		func(a, b Port) bool { return a.Driver == b.Driver && a.Speed == b.Speed },
		func(a, b Port) bool { return a.Speed == b.Speed && a.Speed > 0 },
		func(a, b Port) bool { return a.Driver == b.Driver && a.Driver != "" },
		func(a, b Port) bool { return true },
	} {
		for n := range all {
			for _, p := range here {
				if all[n].To.Name == "" && !taken[p.Name] && alike(all[n].From, p) {
					all[n].To = p
					taken[p.Name] = true
				}
			}
		}
	}
	return all
}

func matchOf(cfg *config.Config, name string) *config.Match {
	if i := cfg.Interfaces[name]; i != nil {
		return i.Match
	}
	return nil
}

// Choose puts the operator's word "interface=port" into a proposal. Who had that port
// before is left without one.
func Choose(all []Mapping, here []Port, word string) error {
	name, port, ok := strings.Cut(word, "=")
	if !ok || name == "" || port == "" {
		return fmt.Errorf("%q: expected an interface of the backup and a port of this machine, such as wan=enp1s0", word)
	}
	n := slices.IndexFunc(all, func(m Mapping) bool { return m.From.Interface == name })
	if n < 0 {
		return fmt.Errorf("%q: the backup has no interface %s with a port; it has %s", word, name, interfaces(all))
	}
	p := slices.IndexFunc(here, func(p Port) bool { return p.named(port) || p.MAC == port || p.Path == port })
	if p < 0 {
		return fmt.Errorf("%q: this machine has no port %s; it has %s", word, port, names(here))
	}
	for other := range all {
		if other != n && all[other].To.Name == here[p].Name {
			all[other].To, all[other].Same = Port{}, false
		}
	}
	all[n].Same = all[n].Same && all[n].To.Name == here[p].Name
	all[n].To = here[p]
	return nil
}

func interfaces(all []Mapping) string {
	var list []string
	for _, m := range all {
		list = append(list, m.From.Interface)
	}
	return strings.Join(list, ", ")
}

func names(ports []Port) string {
	var list []string
	for _, p := range ports {
		list = append(list, p.Name)
	}
	return strings.Join(list, ", ")
}

// Remap returns the configuration's text for the ports of this machine, and whether it
// is written anew because no small edit does it: comments are lost then. Interfaces
// are found by what they were found by: address of the port, place on the bus or name.
func Remap(source, text string, all []Mapping) (remapped string, anew bool, err error) {
	wanted, err := config.Parse(source, []byte(text))
	if err != nil {
		return "", false, err
	}
	edits := make(map[string]string) // words of the text to replace, and by what
	for _, m := range all {
		if m.Same {
			continue
		}
		i := wanted.Interfaces[m.From.Interface]
		if i == nil {
			i = &config.Interface{}
			wanted.Interfaces[m.From.Interface] = i
		}
		before := matchOf(wanted, m.From.Interface)
		if i.Match, err = newMatch(before, m.To); err != nil {
			return "", false, fmt.Errorf("interface %s: %w", m.From.Interface, err)
		}
		if before != nil {
			edits[word(before)] = word(i.Match)
		}
	}
	// A word may stand elsewhere, too: an edit counts only if it makes the router that is wanted.
	if edited := edit(text, edits); sameRouter(source, edited, wanted) {
		return edited, false, nil
	}
	return string(config.Marshal(wanted)), true, nil
}

// newMatch finds a port by the same property as before.
func newMatch(before *config.Match, p Port) (*config.Match, error) {
	switch {
	case before != nil && before.MAC != config.MAC{}:
		var mac config.MAC
		if err := mac.UnmarshalText([]byte(p.MAC)); err != nil {
			return nil, fmt.Errorf("port %s: %w", p.Name, err)
		}
		return &config.Match{MAC: mac}, nil
	case before != nil && before.Path != "" && p.Path != "":
		return &config.Match{Path: p.Path}, nil
	}
	return &config.Match{Name: p.Name}, nil
}

// word is a match as it stands in a file.
func word(m *config.Match) string {
	switch {
	case m.MAC != config.MAC{}:
		return m.MAC.String()
	case m.Path != "":
		return m.Path
	}
	return m.Name
}

// edit replaces words, all at once, so that ports can change places.
func edit(text string, words map[string]string) string {
	var pairs []string
	for _, old := range slices.SortedFunc(maps.Keys(words), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }) {
		for _, frame := range []string{" %s}", " %s,", " %s\n", "%q", "'%s'"} {
			pairs = append(pairs, fmt.Sprintf(frame, old), fmt.Sprintf(frame, words[old]))
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func sameRouter(source, text string, wanted *config.Config) bool {
	got, err := config.Parse(source, []byte(text))
	return err == nil && config.Equal(got, wanted)
}
