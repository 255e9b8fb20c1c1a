// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"minne/internal/base/ipnet"
	"minne/internal/model/config"
)

// ParseElement reads an element of a set of addresses or prefixes, as it is
// written in a list file or in minne set add.
func ParseElement(text string) (netip.Prefix, error) {
	p, err := ipnet.Parse(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("%q is neither an address nor a prefix", abridge(text))
	case p.Masked() != p:
		return p, fmt.Errorf("%s has host bits; did you mean %s?", text, p.Masked())
	}
	return p, nil
}

// ElementText is the shortest form of a prefix: an address where it is one.
func ElementText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// setName keeps the names of sets readable in rules and in nftables.
var setName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,30}$`)

const setNameForm = "a letter, then letters, digits and dashes, at most 31 in all"

func (c *compiler) sets() {
	for _, name := range words(c.cfg.Firewall.Sets) {
		path := "firewall.sets." + name
		s := c.cfg.Firewall.Sets[name]
		if !setName.MatchString(name) {
			c.report.Refuse(path, fmt.Sprintf("%q can't name a set", abridge(name)), setNameForm, "")
		}
		c.setIndex[name] = len(c.p.Sets)
		c.p.Sets = append(c.p.Sets, c.set(path, name, s))
	}
}

func (c *compiler) set(path, name string, s *config.FirewallSet) Set {
	set := Set{Name: name, Kind: AddressSet, Timeout: s.Timeout.Std()}
	if len(s.Prefixes) > 0 || s.File != "" {
		set.Kind = PrefixSet
	}
	if len(s.Ports) > 0 {
		set.Kind = PortSet
		if len(s.Addresses)+len(s.Prefixes) > 0 || s.File != "" {
			c.report.Refuse(path, fmt.Sprintf("set %s has ports and addresses", name), "one set of ports and one of addresses", "")
		}
	}
	if set.Timeout < 0 {
		c.report.Refuse(path+".timeout", "a timeout can't be negative", "a time as 1h", "")
	}
	for i, text := range s.Ports {
		r, err := parsePort(word{text: text})
		if err != nil {
			c.report.RefuseWord(fmt.Sprintf("%s.ports[%d]", path, i), err.word.at, err.message, err.expected, err.nearest)
			continue
		}
		set.Ports = append(set.Ports, r)
	}
	set.Ports = mergePorts(set.Ports)
	for _, a := range s.Addresses {
		set.Prefixes = append(set.Prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, p := range s.Prefixes {
		set.Prefixes = append(set.Prefixes, p.Prefix)
	}
	if s.File != "" {
		set.Prefixes = append(set.Prefixes, c.listFile(path+".file", s.File)...)
	}
	set.Prefixes = mergePrefixes(set.Prefixes)
	return set
}

// listFile reads a file with an address or prefix a line.
func (c *compiler) listFile(path, name string) []netip.Prefix {
	file, text, err := c.file(name)
	if err != nil {
		c.report.Refuse(path, err.Error(), "a text file with an address or a prefix a line", "")
		return nil
	}
	return ReadList(c.report, file, text)
}

// ReadList reads a text with an address or prefix a line; # begins a comment. Lines that are wrong
// are noted in the report, with file as the name of the text.
func ReadList(report *config.Report, file, text string) (list []netip.Prefix) {
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		bare, _, _ := strings.Cut(line, "#")
		bare = strings.TrimSpace(bare)
		if bare == "" {
			continue
		}
		p, err := ParseElement(bare)
		if err != nil {
			report.RefuseLine(file, text, number, strings.Index(line, bare)+1, err.Error(), "an address as 192.0.2.1 or a prefix as 192.0.2.0/24", "")
			continue
		}
		list = append(list, p)
	}
	return list
}

// findSet resolves a word as "@web".
func (c *compiler) findSet(w word) (int, SetKind, *wordError) {
	name := strings.TrimPrefix(w.text, "@")
	if i, ok := c.setIndex[name]; ok {
		return i, c.p.Sets[i].Kind, nil
	}
	all := words(c.setIndex)
	near := config.Nearest(name, all)
	expected := "a set under firewall.sets"
	switch {
	case near != "":
		near, expected = "@"+near, ""
	case len(all) > 0 && len(all) <= 20:
		expected = "one of @" + strings.Join(all, ", @")
	}
	return 0, 0, wrong(w, expected, near, "there is no set %q", abridge(name))
}
