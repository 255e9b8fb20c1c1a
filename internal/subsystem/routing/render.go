// SPDX-License-Identifier: Apache-2.0

// From the router's configuration to FRR's. Everything here is a pure function; the
// text is what FRR 8.4 to 10.3 print for it, line by line, with defaults left out
// (the order of lines may differ between versions and does not matter).
package routing

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"minne/internal/model/config"
)

// The FRR daemons, in the order in which they start.
const (
	mgmtd  = "mgmtd"
	zebra  = "zebra"
	bgpd   = "bgpd"
	ospfd  = "ospfd"
	ospf6d = "ospf6d"
	babeld = "babeld"
	bfdd   = "bfdd"
)

// mgmtd came with FRR 9; without it zebra keeps asking for it and never sleeps. It runs where it is installed.
var startOrder = []string{mgmtd, zebra, bfdd, bgpd, ospfd, ospf6d, babeld}

// bgpDefaultTag marks a default route that BGP has taken. It travels with the route through zebra
// to OSPF, which tells its default route only while one with this tag is in use.
const bgpDefaultTag = 179

// Secrets finds a secret by name; config.Secrets is one.
type Secrets interface {
	Get(name string) (string, bool)
}

// Desired is the state that routing should have: which daemons run and with what
// configuration. The zero value runs nothing.
type Desired struct {
	text  map[string]string // configuration by daemon; a daemon without an entry does not run
	peers map[string]string // name of the BGP peer by address, for messages
}

// Empty says whether no routing protocol is configured, so that no daemon runs.
func (d Desired) Empty() bool { return len(d.text) == 0 }

// Daemons returns the daemons that run, in the order in which they start.
func (d Desired) Daemons() []string {
	var names []string
	for _, name := range startOrder {
		if _, ok := d.text[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

// Text returns the integrated configuration. It contains passwords.
func (d Desired) Text() string {
	var b strings.Builder
	for _, name := range d.Daemons() {
		b.WriteString(d.text[name])
	}
	return b.String()
}

// Render returns the routing state that cfg asks for. secrets holds the passwords that cfg
// refers to by name. Errors name the key of the configuration that can't be rendered, never a secret's value.
func Render(cfg *config.Config, secrets Secrets) (Desired, error) {
	d := Desired{text: map[string]string{}, peers: map[string]string{}}
	r := &cfg.Routing
	named := r.BGP != nil || r.OSPF != nil || r.OSPF3 != nil // by a router id
	if !named && r.Babel == nil {
		return Desired{}, nil
	}
	if named && !cfg.System.RouterID.Is4() {
		return Desired{}, fmt.Errorf("system.router-id: BGP and OSPF need a router id, written as an IPv4 address")
	}
	d.text[zebra] = ""
	if r.BGP != nil {
		text, err := renderBGP(cfg, secrets, d.peers)
		if err != nil {
			return Desired{}, fmt.Errorf("routing.bgp.%w", err)
		}
		d.text[bgpd] = text
	}
	if r.OSPF != nil {
		text, err := renderOSPF(ospfv2, cfg, r.OSPF, secrets)
		if err != nil {
			return Desired{}, fmt.Errorf("routing.ospf.%w", err)
		}
		d.text[ospfd] = text
	}
	if r.OSPF3 != nil {
		text, err := renderOSPF(ospfv3, cfg, r.OSPF3, secrets)
		if err != nil {
			return Desired{}, fmt.Errorf("routing.ospf3.%w", err)
		}
		d.text[ospf6d] = text
	}
	if r.Babel != nil {
		text, err := renderBabel(r.Babel)
		if err != nil {
			return Desired{}, fmt.Errorf("routing.babel.%w", err)
		}
		d.text[babeld] = text
	}
	if usesBFD(r) {
		d.text[bfdd] = ""
	}
	return d, nil
}

func usesBFD(r *config.Routing) bool {
	if r.BGP != nil {
		for _, p := range r.BGP.Peers {
			if p.BFD.On() {
				return true
			}
		}
	}
	for _, o := range []*config.OSPF{r.OSPF, r.OSPF3} {
		if o == nil {
			continue
		}
		for _, a := range o.Areas {
			for _, i := range a.Interfaces {
				if i.BFD.On() {
					return true
				}
			}
		}
	}
	return false
}

// lines collects configuration text.
type lines struct{ strings.Builder }

func (l *lines) add(format string, args ...any) {
	fmt.Fprintf(l, format, args...)
	l.WriteByte('\n')
}

// prefixList is an FRR prefix-list; entries are numbered in steps of 5.
type prefixList struct {
	name    string
	v6      bool
	entries []string // "permit 192.0.2.0/24 le 32"
}

func (p *prefixList) add(action string, prefix netip.Prefix, ge, le int) {
	if prefix.Bits() == 0 && ge == 0 && le == prefix.Addr().BitLen() {
		p.entries = append(p.entries, action+" any") // as FRR prints it
		return
	}
	e := action + " " + prefix.String()
	if ge > prefix.Bits() {
		e += fmt.Sprintf(" ge %d", ge)
	}
	if le > prefix.Bits() && !(ge > prefix.Bits() && le == prefix.Addr().BitLen()) {
		e += fmt.Sprintf(" le %d", le)
	}
	p.entries = append(p.entries, e)
}

func (p *prefixList) write(l *lines) {
	for i, e := range p.entries {
		l.add("%s prefix-list %s seq %d %s", ipWord(p.v6), p.name, 5*(i+1), e)
	}
	if len(p.entries) == 0 { // a list without entries does not exist, and a missing list permits nothing only in a match
		l.add("%s prefix-list %s seq 5 deny %s", ipWord(p.v6), p.name, "any")
	}
}

func ipWord(v6 bool) string {
	if v6 {
		return "ipv6"
	}
	return "ip"
}

var plainToken = regexp.MustCompile(`^[A-Za-z0-9.-]$`)

// token turns a name of the operator's choice into one FRR word; different names give different words.
func token(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if plainToken.MatchString(string(rune(c))) && c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// freeText makes operator's text fit a line of FRR: no control characters, words one space apart,
// and no "|", at which FRR's command parser cuts.
func freeText(s string) string {
	s = strings.ToValidUTF8(s, " ")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '|':
			return '/'
		case unicode.IsControl(r), unicode.IsSpace(r), unicode.Is(unicode.Cf, r):
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// key fetches a secret that FRR takes as one word of at most max bytes.
func key(secrets Secrets, path, name string, max int) (string, error) {
	v, ok := "", false
	if secrets != nil {
		v, ok = secrets.Get(name)
	}
	if !ok {
		return "", fmt.Errorf("%s: no secret is named %q", path, name)
	}
	if v == "" || len(v) > max {
		return "", fmt.Errorf("%s: the secret %q has %d bytes, expected 1 to %d", path, name, len(v), max)
	}
	for _, c := range []byte(v) {
		if c <= ' ' || c > '~' || c == '|' {
			return "", fmt.Errorf("%s: the secret %q has a space, a | or a character that is not printable ASCII: FRR does not accept these", path, name)
		}
	}
	if v[0] == '!' || v[0] == '#' {
		return "", fmt.Errorf("%s: the secret %q begins with ! or #, which FRR reads as a comment: choose another", path, name)
	}
	return v, nil
}

// ifname checks that an interface's name is one word.
func ifname(path, name string) error {
	if name == "" || len(name) > 15 || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '|'
	}) || name[0] == '!' || name[0] == '#' {
		return fmt.Errorf("%s: %q is not an interface name: expected 1 to 15 printable characters without spaces", path, name)
	}
	return nil
}

func sortedKeys[K ~string | ~uint32, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
