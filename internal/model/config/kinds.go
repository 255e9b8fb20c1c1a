// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
)

// Kinds of interfaces. A section of an interface says what its link is made of: `vlan:` makes it a
// VLAN. Such a section has a file kind_NAME.go here, with its keys, what it means to the rest of the
// router (a Kind) and its checks. How the kernel makes such links is in the file of that name in
// subsystem/kernel. An interface without such a section is a port of the machine.

// Kind is what an interface is made of, as all parts of the router have to know it.
type Kind struct {
	Name     string   // key of the section, and the kernel's name for such links; "" for a port and the loopback
	Port     bool     // its link is a port of the machine, found by match; links of the other kinds are made
	Routed   bool     // it carries IP packets without Ethernet: nothing sits on it, and hosts do not share it
	Alone    bool     // nobody else is on it: its addresses are the router's alone
	Parents  []Parent // interfaces that it sits on: their links are there before
	Members  []Parent // interfaces that belong to it: they have its link as their master
	Bundles  bool     // its members are parts of it and have no packets of their own; else they stay interfaces of the router
	Brought  bool     // a service makes its link, which goes and comes
	Dialed   bool     // the same by a program that dials: both ends agree on address and size of the session
	FastPath Program  //
	Kernel   string   // why only the kernel carries its packets, where its link alone does not tell; "" for no reason
}

// Parent is an interface that another one sits on, or that belongs to another one.
type Parent struct {
	Key  string // that names it, in the section: "parent", "ports[0]"
	Name string
}

// Program says which program takes packets of an interface to the fast path.
type Program int

// The programs.
const (
	NoProgram     Program = iota // the kernel alone has its packets
	OwnProgram                   // one on the link
	ParentProgram                // the one on the link that it sits on, which tells its packets by their tags
)

// kindSection is a section of Interface that says what its link is made of.
type kindSection interface {
	kind() Kind
	check(c *checker, path, name string) // refuses what can't be; the parents are there
	odd(c *checker, path, name string)   // warns
}

// Kinds are the names of the kinds that have a section.
func Kinds() (names []string) {
	for _, f := range fieldsOf(reflect.TypeFor[Interface]()) {
		if f.typ.Implements(reflect.TypeFor[kindSection]()) {
			names = append(names, f.name)
		}
	}
	return names
}

// sectionsOf returns the sections that say what an interface is made of: one at most, when it is right.
func sectionsOf(i *Interface) (list []kindSection) {
	v := reflect.ValueOf(i).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if f.typ.Kind() != reflect.Pointer || v.Field(f.index).IsNil() {
			continue
		}
		if s, ok := v.Field(f.index).Interface().(kindSection); ok {
			list = append(list, s)
		}
	}
	return list
}

// Kind says what the interface of that name is made of.
func (cfg *Config) Kind(name string) Kind {
	if name == loopback {
		return Kind{Alone: true}
	}
	if i := cfg.Interfaces[name]; i != nil {
		for _, s := range sectionsOf(i) {
			return s.kind()
		}
	}
	return Kind{Port: true, FastPath: OwnProgram}
}

// kind checks what an interface is made of.
func (c *checker) kind(path, name string, i *Interface) {
	for n, s := range sectionsOf(i) {
		k := s.kind()
		path := joinPath(path, k.Name)
		switch {
		case name == loopback:
			c.refuse(path, "lo is the loopback interface and of no other kind", "another name", "")
		case n > 0:
			c.refuse(path, fmt.Sprintf("%s is already of another kind (%s)", name, c.cfg.Kind(name).Name), "one kind for an interface", "")
		case c.parents(path, name, k) && c.members(path, name, k):
			s.check(c, path, name)
		}
	}
}

// parents checks the interfaces that another one sits on.
func (c *checker) parents(path, name string, k Kind) bool {
	for _, p := range k.Parents {
		at := joinPath(path, p.Key)
		switch {
		case c.cfg.Interfaces[p.Name] == nil: // the walk of names says so
			return false
		case c.cfg.Kind(p.Name).Alone:
			c.refuse(at, fmt.Sprintf("%s has no hosts and cannot be a parent", p.Name), "a port as parent", "")
			return false
		case c.masters[p.Name].Kind.Bundles:
			c.refuse(at, fmt.Sprintf("%s is a port of %s and has no packets of its own", p.Name, c.masters[p.Name].Name), "an interface that is no port of another one", c.masters[p.Name].Name)
			return false
		case c.cfg.Kind(p.Name).Routed:
			c.refuse(at, fmt.Sprintf("%s carries no Ethernet frames and cannot be a parent", p.Name), "a port as parent", "")
			return false
		case c.cfg.sitsOn(p.Name, name, map[string]bool{}):
			c.refuse(at, fmt.Sprintf("%s is its own parent, directly or through others", name), "a parent that does not sit on "+name, "")
			return false
		}
	}
	return true
}

// sitsOn says whether an interface is another one, or sits on it, maybe with others between.
func (cfg *Config) sitsOn(name, other string, seen map[string]bool) bool {
	if name == other {
		return true
	}
	if seen[name] {
		return false
	}
	seen[name] = true
	k := cfg.Kind(name)
	return slices.ContainsFunc(append(k.Members, k.Parents...), func(p Parent) bool { return cfg.sitsOn(p.Name, other, seen) })
}

// carries is the packet size of an interface, as far as the configuration says; else Ethernet's.
func (c *checker) carries(name string) int {
	return cmp.Or(c.cfg.mtuOf(name, map[string]bool{}), ethernetMTU)
}

// mtuBelow refuses a packet size that is more than what an interface sits on can carry: the nearest below
// for which one is written.
func (c *checker) mtuBelow(path, name string, mtu int, seen map[string]bool) {
	k := c.cfg.Kind(name)
	below := k.Parents
	if k.Bundles {
		below = append(below, k.Members...)
	}
	for _, p := range below {
		switch below := c.cfg.Interfaces[p.Name]; {
		case below == nil || seen[p.Name]:
		case below.MTU == 0:
			seen[p.Name] = true
			c.mtuBelow(path, p.Name, mtu, seen)
		case mtu > below.MTU:
			c.refuse(path, fmt.Sprintf("mtu %d is more than the %d of %s below", mtu, below.MTU, p.Name), fmt.Sprintf("at most %d", below.MTU), "")
		}
	}
}

// oddKind warns of an interface that can't come up, and of what is odd in its kind's section.
func (c *checker) oddKind(name string, i *Interface) {
	k := c.cfg.Kind(name)
	for _, s := range sectionsOf(i) {
		path := joinPath(joinPath("interfaces", name), k.Name)
		for _, p := range k.Parents {
			if below := c.cfg.Interfaces[p.Name]; below != nil && below.Disabled && !i.Disabled {
				c.refuse(joinPath(path, p.Key), fmt.Sprintf("%s is disabled, so %s stays down", p.Name, name), "", "")
			}
		}
		for _, p := range k.Members {
			if below := c.cfg.Interfaces[p.Name]; below != nil && below.Disabled && !i.Disabled {
				c.refuse(joinPath(path, p.Key), fmt.Sprintf("%s is disabled, so %s has nothing of it", p.Name, name), "", "")
			}
		}
		if !i.Disabled {
			s.odd(c, path, name)
		}
	}
}
