// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"slices"
	"strings"
)

// Cause is the kind of a thing, for counters and names.
type Cause int

// Causes. Each is a reason of the fast path of its own.
const (
	IPsec   Cause = iota + 1
	Filter        // packet filters and load balancers that are not Minne's
	Control       // traffic control: filters, queueing disciplines, tcx programs
	Shape         // the same, as Minne's configuration asks for it
	Other
)

// Thing is something that the kernel would do to packets.
type Thing struct {
	Cause Cause
	Text  string // for operators: what it is and where
}

// Words are things in one line.
func Words(things []Thing) string {
	const most = 3 // a firewall of somebody else's may have twenty chains
	var words []string
	for i, t := range things {
		if i == most {
			words = append(words, "and more")
			break
		}
		words = append(words, t.Text)
	}
	return strings.Join(words, "; ")
}

// Families, as indexes.
const (
	IPv4 = 0
	IPv6 = 1
)

// Hash is what the kernel hashes to choose among several next hops.
type Hash struct {
	Addresses bool   // addresses alone (IPv4, policy 0), instead of addresses, ports and protocol (policy 1)
	Kernel    string // why only the kernel knows; "" when it is one of the two
}

// State is all that was found. Its zero value is a kernel that does nothing else.
type State struct {
	Families [2][]Thing      // of all packets of a family
	Ingress  map[int][]Thing // of all that come in by a link, by ifindex; of a VLAN's packets its port's too
	Egress   map[int][]Thing // of all that leave by a link, likewise
	Bridges  []Thing         // of all that passes bridges
	Hash     [2]Hash
	Settings uint64 // changes whenever a setting of the namespace or of a link has changed
}

// family notes a thing of one family.
func (s *State) family(which int, cause Cause, text string) {
	s.Families[which] = append(s.Families[which], Thing{cause, text})
}

// both notes a thing of both families.
func (s *State) both(cause Cause, text string) {
	s.family(IPv4, cause, text)
	s.family(IPv6, cause, text)
}

// bridges notes a thing of what passes bridges.
func (s *State) bridges(cause Cause, text string) {
	s.Bridges = append(s.Bridges, Thing{cause, text})
}

// ingress notes a thing of what comes in by a link.
func (s *State) ingress(ifindex int, cause Cause, text string) {
	if s.Ingress == nil {
		s.Ingress = map[int][]Thing{}
	}
	s.Ingress[ifindex] = append(s.Ingress[ifindex], Thing{cause, text})
}

// egress notes a thing of what leaves by a link.
func (s *State) egress(ifindex int, cause Cause, text string) {
	if s.Egress == nil {
		s.Egress = map[int][]Thing{}
	}
	s.Egress[ifindex] = append(s.Egress[ifindex], Thing{cause, text})
}

// add puts what another look has found to it.
func (s *State) add(o *State) {
	for which, things := range o.Families {
		s.Families[which] = append(s.Families[which], things...)
		if h := o.Hash[which]; h != (Hash{}) {
			s.Hash[which] = h
		}
	}
	s.Bridges = append(s.Bridges, o.Bridges...)
	for ifindex, things := range o.Ingress {
		for _, t := range things {
			s.ingress(ifindex, t.Cause, t.Text)
		}
	}
	for ifindex, things := range o.Egress {
		for _, t := range things {
			s.egress(ifindex, t.Cause, t.Text)
		}
	}
	s.Settings += o.Settings
}

// Lifts says whether something that is in s is no more in o.
func (s *State) Lifts(o *State) bool {
	gone := func(was, now []Thing) bool { return len(was) > 0 && len(now) == 0 }
	for which := range s.Families {
		if gone(s.Families[which], o.Families[which]) {
			return true
		}
	}
	if gone(s.Bridges, o.Bridges) {
		return true
	}
	for _, both := range [][2]map[int][]Thing{{s.Ingress, o.Ingress}, {s.Egress, o.Egress}} {
		for ifindex, was := range both[0] {
			if gone(was, both[1][ifindex]) {
				return true
			}
		}
	}
	return false
}

// sorted puts things into an order that does not hang on the kernel's.
func (s *State) sorted() {
	order := func(things []Thing) {
		slices.SortFunc(things, func(a, b Thing) int {
			if a.Cause != b.Cause {
				return int(a.Cause - b.Cause)
			}
			return strings.Compare(a.Text, b.Text)
		})
	}
	for _, things := range s.Families {
		order(things)
	}
	order(s.Bridges)
	for _, m := range []map[int][]Thing{s.Ingress, s.Egress} {
		for _, things := range m {
			order(things)
		}
	}
}
