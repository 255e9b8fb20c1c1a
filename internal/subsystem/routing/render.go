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
	text   map[string]string // configuration by daemon; a daemon without an entry does not run
	peers  map[peerAt]string // names of the BGP peers, for messages
	tables map[string]string // VRF of each interface that is in one, for messages
}

// peerAt is where a BGP peer is: two VRFs may have peers with the same address.
type peerAt struct{ vrf, address string } // vrf is "" in the main table

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
	d := Desired{text: map[string]string{}, peers: map[peerAt]string{}, tables: map[string]string{}}
	all := cfg.Protocols()
	all = slices.DeleteFunc(all, func(in config.Protocols) bool { return !in.NeedRouterID() })
	if len(all) == 0 && cfg.Routing.Babel == nil {
		return Desired{}, nil
	}
	d.text[zebra] = ""
	texts := texts{}
	for _, in := range all {
		if !in.RouterID.Is4() {
			return Desired{}, fmt.Errorf("system.router-id: BGP and OSPF need a router id, written as an IPv4 address")
		}
		if in.VRF != "" {
			if err := ifname(in.Path, in.VRF); err != nil {
				return Desired{}, err
			}
		}
		if in.BGP != nil {
			if err := renderBGP(texts.of(bgpd), in, secrets, d.peers); err != nil {
				return Desired{}, fmt.Errorf("%s.bgp.%w", in.Path, err)
			}
		}
		if in.OSPF != nil {
			if err := renderOSPF(texts.of(ospfd), ospfv2, cfg, in, in.OSPF, secrets); err != nil {
				return Desired{}, fmt.Errorf("%s.ospf.%w", in.Path, err)
			}
		}
		if in.OSPF3 != nil {
			if err := renderOSPF(texts.of(ospf6d), ospfv3, cfg, in, in.OSPF3, secrets); err != nil {
				return Desired{}, fmt.Errorf("%s.ospf3.%w", in.Path, err)
			}
		}
		if usesBFD(in) {
			d.text[bfdd] = ""
		}
	}
	for daemon, text := range texts {
		d.text[daemon] = text.String()
	}
	if cfg.Routing.Babel != nil {
		text, err := renderBabel(cfg.Routing.Babel)
		if err != nil {
			return Desired{}, fmt.Errorf("routing.babel.%w", err)
		}
		d.text[babeld] = text
	}
	for name, master := range cfg.Masters() {
		if master.Kind.Name == "vrf" {
			d.tables[name] = master.Name
		}
	}
	for name := range cfg.Routing.VRFs {
		d.tables[name] = name // its own addresses are in its table
	}
	return d, nil
}

func usesBFD(in config.Protocols) bool {
	if in.BGP != nil {
		for _, p := range in.BGP.Peers {
			if p.BFD.On() {
				return true
			}
		}
	}
	for _, o := range []*config.OSPF{in.OSPF, in.OSPF3} {
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

// lines collects configuration text of one daemon.
type lines struct {
	strings.Builder
	once map[string]bool // lists and route maps that all tables share, which stand there already
}

// texts are those of the daemons that have any.
type texts map[string]*lines

func (t texts) of(daemon string) *lines {
	if t[daemon] == nil {
		t[daemon] = &lines{once: map[string]bool{}}
	}
	return t[daemon]
}

// first says whether something that is the same in all tables has to be written now.
func (l *lines) first(name string) bool {
	is := !l.once[name]
	l.once[name] = true
	return is
}

// behind is what stands behind the name of a process in a VRF.
func behind(vrf string) string {
	if vrf == "" {
		return ""
	}
	return " vrf " + vrf
}

// prefixed puts the VRF in front of the name of a list or a route map: FRR has one space of names for all tables. No
// token has a colon.
func prefixed(vrf, name string) string {
	if vrf == "" {
		return name
	}
	return token(vrf) + ":" + name
}

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
