// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"minne/internal/base/ipnet"
)

// This file and its neighbours check what the parts of a configuration mean for
// each other: names that must exist, networks that must not overlap, next hops
// that must be reachable. They refuse what the kernel or the routing protocols
// would refuse half-way through an apply, and what can only be a mistake. What
// is odd but may be meant is left to Warnings.

// Check looks at a whole configuration. The error is an *Error with every
// problem found; places are known when the configuration came from Parse.
func Check(cfg *Config, secrets Secrets) error { return check(cfg, secrets).err() }

func check(cfg *Config, secrets Secrets) *problems {
	c := newChecker(cfg)
	c.secrets = secrets
	for _, use := range SecretUses(cfg) {
		c.secretExists(use.Path, use.Name)
	}
	for _, use := range InterfaceUses(cfg) {
		c.interfaceExists(use.Path, use.Name)
	}
	c.system()
	c.radios()
	c.interfaces()
	c.leasing()
	c.delegation()
	c.staticRoutes()
	c.uplinks()
	c.plans()
	c.policyRouting()
	c.services()
	c.protocols()
	c.connections()
	c.flowLog()
	c.babel("routing.babel", cfg.Routing.Babel)
	return c.problems
}

// checker holds what the checks of all sections share.
type checker struct {
	cfg      *Config
	secrets  Secrets
	problems *problems
	source   *source
	networks []network          // in the order of the file's names
	owners   map[place]string   // own address → interface
	masters  map[string]Master  // member → what it belongs to
	tables   []string           // the VRFs, and in front "" for the main table
	taken    map[any]string     // what a kind of interface can be but once → interface
	byPrefix map[placed]network // the first of each network
	lengths  []int              // prefix lengths that occur, the longest first
}

// place is an address in the table of a VRF, placed a prefix; "" is the main table.
type (
	place struct {
		vrf     string
		address netip.Addr
	}
	placed struct {
		vrf    string
		prefix netip.Prefix
	}
)

// network is a connected network: one address of one interface.
type network struct {
	iface   string
	vrf     string // in whose table it is
	path    string // of the address
	order   int    // place among all addresses, in the order of the file
	address netip.Prefix
}

func newChecker(cfg *Config) *checker {
	src := cfg.source
	if src == nil {
		src = &source{}
	}
	c := &checker{cfg: cfg, problems: &problems{source: src}, source: src, masters: cfg.Masters(),
		owners: map[place]string{}, taken: map[any]string{}, byPrefix: map[placed]network{}}
	c.tables = []string{""}
	lengths := map[int]bool{}
	for _, name := range sortedKeys(cfg.Interfaces) {
		if cfg.Kind(name).Name == "vrf" {
			c.tables = append(c.tables, name)
		}
		for i, a := range cfg.Interfaces[name].Addresses {
			path := indexPath(joinPath("interfaces", name)+".addresses", i)
			vrf := c.tableOf(name)
			c.networks = append(c.networks, network{iface: name, vrf: vrf, path: path, address: a.Prefix})
			c.owners[place{vrf, a.Addr()}] = name
			lengths[a.Bits()] = true
		}
	}
	slices.SortStableFunc(c.networks, func(a, b network) int {
		p, q := c.source.at[a.path], c.source.at[b.path]
		return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
	})
	for i := range c.networks {
		n := &c.networks[i]
		n.order = i
		if at := (placed{n.vrf, n.address.Masked()}); c.byPrefix[at].iface == "" {
			c.byPrefix[at] = *n
		}
	}
	c.lengths = slices.SortedFunc(maps.Keys(lengths), func(a, b int) int { return b - a })
	return c
}

// sortedKeys gives messages the same order on every run.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// refuse notes a problem at a path; a path that stands nowhere in the file, such
// as a missing key, is placed at the section around it.
func (c *checker) refuse(path, message, expected, nearest string) {
	c.problems.add(c.place(path), Problem{Path: path, Message: message, Expected: expected, Nearest: nearest})
}

func (c *checker) place(path string) position { return c.source.place(path) }

// labels of a host name, RFC 1123 section 2.1
var hostname = regexp.MustCompile(`^([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9])(\.([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9]))*$`)

// maxHostname is the kernel's limit (__NEW_UTS_LEN), in bytes.
const maxHostname = 64

func (c *checker) system() {
	s := c.cfg.System
	if s.Hostname != "" && (len(s.Hostname) > maxHostname || !hostname.MatchString(s.Hostname)) {
		c.refuse("system.hostname", fmt.Sprintf("%q is not a valid host name", abridge(s.Hostname)),
			fmt.Sprintf("labels of letters, digits and dashes, at most 63 each and %d in all (RFC 1123)", maxHostname), nearestHostname(s.Hostname))
	}
	if slices.ContainsFunc(c.cfg.Protocols(), func(p Protocols) bool { return p.NeedRouterID() && !p.RouterID.IsValid() }) {
		c.refuse("system.router-id", "system lacks router-id, which BGP and OSPF need", "an IPv4 address, preferably one of this router's", c.ownIPv4())
	}
	c.routerID("system.router-id", s.RouterID)
}

// routerID refuses what can't name a router.
func (c *checker) routerID(path string, id netip.Addr) {
	if id.IsValid() && (!id.Is4() || id.IsUnspecified() || id.IsMulticast() || id == broadcast) {
		c.refuse(path, fmt.Sprintf("router id %s is not a unicast IPv4 address", id), "an IPv4 address, preferably one of this router's", c.ownIPv4())
	}
}

// nearestHostname makes a host name of what is nearly one.
func nearestHostname(typed string) string {
	name := strings.Trim(strings.NewReplacer("_", "-", " ", "-").Replace(typed), "-.")
	if len(name) > maxHostname || !hostname.MatchString(name) {
		return ""
	}
	return name
}

// ownIPv4 returns an address of the router to suggest as its id: loopback first.
func (c *checker) ownIPv4() string {
	best := ""
	for _, n := range c.networks {
		if a := n.address.Addr(); a.Is4() && !a.IsLoopback() && (best == "" || n.iface == loopback) {
			best = a.String()
		}
	}
	return best
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// notUnicast says why an address can't belong to one host on a network, or "".
func notUnicast(a netip.Addr) string {
	switch {
	case a.IsUnspecified():
		return "is the unspecified address"
	case a.IsLoopback():
		return "is a loopback address"
	case a.IsMulticast():
		return "is a multicast address"
	case a == broadcast:
		return "is the broadcast address"
	case a.Is4() && a.As4()[0] == 0:
		return "lies in 0.0.0.0/8, which means this host"
	}
	return ""
}

// connectedIn returns the longest connected network of a table that contains an address.
func (c *checker) connectedIn(vrf string, a netip.Addr) (network, bool) {
	for _, bits := range c.lengths {
		if p, err := a.Prefix(bits); err == nil {
			if n, ok := c.byPrefix[placed{vrf, p}]; ok {
				return n, true
			}
		}
	}
	return network{}, false
}

// connected returns the same of the main table, or else of the first VRF that has one.
func (c *checker) connected(a netip.Addr) (network, bool) {
	for _, vrf := range c.tables {
		if n, ok := c.connectedIn(vrf, a); ok {
			return n, true
		}
	}
	return network{}, false
}

// edge says whether an address is the first or the last of its network, which
// no host of an IPv4 network shorter than /31 may have (RFC 3021), or "".
func edge(p netip.Prefix) string {
	if p.Bits() >= p.Addr().BitLen()-1 {
		return ""
	}
	switch {
	case p.Addr() == p.Masked().Addr():
		return "the network address"
	case p.Addr().Is4() && p.Addr() == ipnet.Last(p):
		return "the broadcast address"
	}
	return ""
}

// interfaceExists refuses a name that is no interface of this configuration. It is asked once for every
// place that names one; checks of a section just end where their interface is not there.
func (c *checker) interfaceExists(path, name string) {
	if c.cfg.Interfaces[name] != nil {
		return
	}
	if c.problems.full() {
		c.problems.more++
		return
	}
	all := sortedKeys(c.cfg.Interfaces)
	hint := nearest(name, all)
	for _, other := range all {
		if m := c.cfg.Interfaces[other].Match; m != nil && m.Name == name {
			hint = other // the kernel's name instead of the operator's
		}
	}
	expected := "one of the interfaces " + strings.Join(all, ", ")
	if len(all) == 0 {
		expected = "an interface under interfaces"
	} else if hint != "" || len(all) > 20 {
		expected = ""
	}
	c.refuse(path, fmt.Sprintf("there is no interface %q", abridge(name)), expected, hint)
}

// secretExists refuses the name of a secret that is not in the secrets file. The
// name is not repeated: it may be a password written in the wrong place.
func (c *checker) secretExists(path, name string) {
	if c.secrets.has(name) {
		return
	}
	expected := "the name of a secret, not the password itself, and in " + c.secrets.place() + " a line name: value"
	if all := c.secrets.Names(); len(all) > 0 && len(all) <= 20 {
		expected = "one of the secrets " + strings.Join(all, ", ") + " of " + c.secrets.place()
	}
	c.refuse(path, "there is no secret of this name", expected, nearest(name, c.secrets.Names()))
}

// maxDescription is in characters.
const maxDescription = 200

func (c *checker) description(path, text string) {
	if n := utf8.RuneCountInString(text); n > maxDescription {
		c.refuse(path, fmt.Sprintf("the description has %d characters", n), fmt.Sprintf("at most %d", maxDescription), "")
	}
}

// seconds refuses a time that is not whole seconds within bounds.
func (c *checker) seconds(path string, d Duration, least, most int) bool {
	span := d.Std()
	if span%time.Second == 0 && span >= time.Duration(least)*time.Second && span <= time.Duration(most)*time.Second {
		return true
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	c.refuse(path, fmt.Sprintf("%s %s is out of range", name, d), fmt.Sprintf("whole seconds from %ds to %ds", least, most), "")
	return false
}

// once refuses the second of two equal items of a list.
func once[T comparable](c *checker, path string, items []T, text func(T) string) {
	seen := map[T]bool{}
	for i, item := range items {
		if seen[item] {
			c.refuse(indexPath(path, i), fmt.Sprintf("%s is in the list twice", text(item)), "each once", "")
		}
		seen[item] = true
	}
}
