// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/subsystem/fastpath/fib"
)

// Kind is what forwards.
type Kind string

// The kinds of devices.
const (
	Kernel Kind = "kernel"
	Minne  Kind = "minne"
	Bridge Kind = "bridge"
	None   Kind = "none"
)

// Spec says which device.
type Spec struct {
	Kind        Kind
	FastPathOff bool
	Structure   string // of the IPv4 table; empty is the release's default
	Binary      string // path of another minne command; empty is the one that measures
	Config      string // file; empty is made for the rig
}

// Grammar is the list of devices for help texts.
const Grammar = `kernel, minne (or fastpath), bridge, none (a cable); minne takes options:
minne,fast-path=off  minne,structure=range16  minne,binary=PATH  minne,config=FILE`

// Parse reads a device's text. Files that it names must exist.
func Parse(text string) (Spec, error) {
	words := strings.Split(text, ",")
	s := Spec{Kind: Kind(words[0])}
	if s.Kind == "fastpath" {
		s.Kind = Minne
	}
	switch s.Kind {
	case Kernel, Bridge, None:
		if len(words) > 1 {
			return Spec{}, fmt.Errorf("device %q: %s takes no options, minne does", text, s.Kind)
		}
		return s, nil
	case Minne:
	default:
		return Spec{}, fmt.Errorf("device %q: unknown; expected one of\n%s", text, Grammar)
	}
	for _, word := range words[1:] {
		if err := s.option(word); err != nil {
			return Spec{}, fmt.Errorf("device %q: %w", text, err)
		}
	}
	if s.Config != "" && (s.FastPathOff || s.Structure != "") {
		return Spec{}, fmt.Errorf("device %q: fast-path and structure belong to the configuration itself: change them in %s, or leave out config", text, s.Config)
	}
	return s, nil
}

// option takes in one KEY=VALUE of a Minne.
func (s *Spec) option(word string) error {
	key, value, _ := strings.Cut(word, "=")
	if value == "" {
		return fmt.Errorf("%q: expected fast-path=off, structure=NAME, binary=PATH or config=FILE", word)
	}
	switch key {
	case "fast-path":
		if value != "on" && value != "off" {
			return fmt.Errorf("fast-path=%s: expected on or off", value)
		}
		s.FastPathOff = value == "off"
	case "structure":
		if _, err := fib.ParseStructure(value); err != nil {
			return fmt.Errorf("structure=%s: expected auto or one of %v", value, fib.Structures)
		}
		s.Structure = value
	case "binary":
		s.Binary = value
		f, err := os.Stat(value)
		if err != nil {
			return fmt.Errorf("binary: %w", err)
		}
		if f.IsDir() || f.Mode()&0o111 == 0 {
			return fmt.Errorf("binary %s is not an executable file", value)
		}
	case "config":
		s.Config = value
		if _, _, err := config.Load(value); err != nil {
			return err
		}
	default:
		return fmt.Errorf("option %q: expected fast-path, structure, binary or config", key)
	}
	return nil
}

// String is the device's text, in the one form that all writings of it come to.
func (s Spec) String() string {
	words := []string{string(s.Kind)}
	if s.FastPathOff {
		words = append(words, "fast-path=off")
	}
	for _, option := range []struct{ key, value string }{{"structure", s.Structure}, {"binary", s.Binary}, {"config", s.Config}} {
		if option.value != "" {
			words = append(words, option.key+"="+option.value)
		}
	}
	return strings.Join(words, ",")
}

// Hops is by how much the device lowers the TTL.
func (s Spec) Hops() int {
	if s.Kind == Bridge || s.Kind == None {
		return 0
	}
	return 1
}

// Forwarder says who in the device handles a packet of a trial.
type Forwarder string

// The forwarders.
const (
	ByKernel   Forwarder = "kernel"
	ByFastPath Forwarder = "fast path"
	ByAny      Forwarder = "" // not known in advance
)

// Forwarder says who has to forward what arrives at a port that is left to the
// kernel, or isn't: measuring the other one is a mistake that no figure shows.
func (s Spec) Forwarder(kernelPort bool) Forwarder {
	switch {
	case s.Kind == Bridge || s.Kind == None || s.Config != "":
		return ByAny
	case s.Kind == Kernel || s.FastPathOff || kernelPort:
		return ByKernel
	}
	return ByFastPath
}

// checkConfig returns the text of the user's configuration if it can serve the wiring.
func (s Spec) checkConfig(w Wiring) (string, error) {
	cfg, text, err := config.Load(s.Config)
	if err != nil {
		return "", err
	}
	var missing []error
	for _, p := range w.Ports {
		have := cfg.Interfaces[p.Name]
		if have == nil {
			missing = append(missing, fmt.Errorf("no interface %s", p.Name))
			continue
		}
		for _, a := range p.Addresses {
			if !hasAddress(have, a.String()) {
				missing = append(missing, fmt.Errorf("interface %s has no address %s", p.Name, a))
			}
		}
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("%s does not fit the lab's router: %w\nThe lab sends through these interfaces; the file must hold at least:\n%s",
			s.Config, errors.Join(missing...), interfaces(w))
	}
	return string(text), nil
}

func hasAddress(i *config.Interface, want string) bool {
	return slices.ContainsFunc(i.Addresses, func(a config.Address) bool { return a.String() == want })
}

// config is the router's file for the wiring.
func (s Spec) config(w Wiring) (string, error) {
	if s.Config != "" {
		return s.checkConfig(w)
	}
	var fast string
	switch {
	case s.FastPathOff:
		fast = "fast-path: {mode: off}\n"
	case s.Structure != "":
		fast = "fast-path: {structure: " + s.Structure + "}\n"
	}
	return "version: 1\nsystem: {hostname: device}\n" + fast + interfaces(w), nil
}

// interfaces is the wiring as a section of a configuration.
func interfaces(w Wiring) string {
	var b strings.Builder
	b.WriteString("interfaces:\n")
	for _, p := range w.Ports {
		texts := make([]string, len(p.Addresses))
		for i, a := range p.Addresses {
			texts[i] = `"` + a.String() + `"`
		}
		kernel := ""
		if p.KernelOnly {
			kernel = ", fast-path: off"
		}
		if p.Bridge != "" {
			fmt.Fprintf(&b, "  %s: {%s}\n", p.Name, strings.TrimPrefix(kernel, ", "))
			fmt.Fprintf(&b, "  %s: {bridge: {ports: [%s]}, addresses: [%s]}\n", p.Bridge, p.Name, strings.Join(texts, ", "))
			continue
		}
		fmt.Fprintf(&b, "  %s: {addresses: [%s]%s}\n", p.Name, strings.Join(texts, ", "), kernel)
	}
	return b.String()
}
