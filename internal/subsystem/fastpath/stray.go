// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"minne/internal/base/dump"
	"minne/internal/subsystem/fastpath/filter"
)

// Programs of an earlier daemon, as the kernel has them, pinned or not. They go on by that daemon's tables, and
// evaluate by its firewall. That is right while the firewall is the same; where it is another, or where they can't be
// taken over, they are told to leave everything to the kernel, or taken off.

// stray is a program of an earlier daemon on a port of this network namespace.
type stray struct {
	ifindex int
	name    string
	program *ebpf.Program
	control *ebpf.Map
}

func (s *stray) close() {
	s.program.Close()
	s.control.Close()
}

// strays finds them. own says of a program's number whether it is this daemon's.
func strays(own func(ebpf.ProgramID) bool) ([]*stray, error) {
	all, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("asking which links have a program: %w", err)
	}
	var found []*stray
	for _, l := range all {
		x := l.Attrs().Xdp
		if x == nil || !x.Attached || own(ebpf.ProgramID(x.ProgId)) {
			continue
		}
		s, err := strayOf(ebpf.ProgramID(x.ProgId))
		if err != nil {
			return found, fmt.Errorf("looking at the program on %s: %w", l.Attrs().Name, err)
		}
		if s != nil {
			s.ifindex, s.name = l.Attrs().Index, l.Attrs().Name
			found = append(found, s)
		}
	}
	return found, nil
}

// strayOf is a program as a stray, nil when it is not one of Minne's: those have a certain name and certain tables.
func strayOf(id ebpf.ProgramID) (*stray, error) {
	p, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // just gone
	}
	if err != nil {
		return nil, err
	}
	info, err := p.Info()
	if err != nil || info.Name != "router" && info.Name != "router_spread" {
		p.Close()
		return nil, err
	}
	maps, _ := info.MapIDs()
	tables := map[string]*ebpf.Map{}
	for _, id := range maps {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		if i, err := m.Info(); err == nil && tables[i.Name] == nil {
			tables[i.Name] = m
		} else {
			m.Close()
		}
	}
	control, ours := tables[routerMapControl], tables[routerMapNexthops] != nil && tables[routerMapAdjacencies] != nil || tables[routerMapSpreadOrder] != nil
	for name, m := range tables {
		if name != routerMapControl || !ours {
			m.Close()
		}
	}
	if control == nil || !ours {
		p.Close()
		return nil, nil
	}
	return &stray{program: p, control: control}, nil
}

// evaluates is the fingerprint of the firewall that the program evaluates by; 0 when it does not say.
func (s *stray) evaluates() (uint32, error) {
	var c routerControl
	if err := s.control.Lookup(uint32(0), &c); err != nil {
		return 0, fmt.Errorf("reading the rules of the program on %s: %w", s.name, err)
	}
	return c.Firewall, nil
}

// hush makes the program leave every packet to the kernel.
func (s *stray) hush() error {
	var c routerControl
	if err := s.control.Lookup(uint32(0), &c); err != nil {
		return fmt.Errorf("telling the program on %s to leave everything to the kernel: %w", s.name, err)
	}
	c.Off4, c.Off6 = routerNumber(routerReasonREASON_FIREWALL), routerNumber(routerReasonREASON_FIREWALL)
	if err := s.control.Put(uint32(0), c); err != nil {
		return fmt.Errorf("telling the program on %s to leave everything to the kernel: %w", s.name, err)
	}
	return nil
}

// linkOn finds the link by which a port has a program, nil where it was attached without one.
func linkOn(ifindex int, program ebpf.ProgramID) (link.Link, error) {
	var it link.Iterator
	defer it.Close()
	for it.Next() {
		i, err := it.Link.Info()
		if err != nil || i.Program != program {
			continue
		}
		if x := i.XDP(); x != nil && int(x.Ifindex) == ifindex {
			return it.Take(), nil
		}
	}
	return nil, it.Err()
}

// silence keeps programs of an earlier daemon from evaluating by another firewall than p until they are exchanged. It is called
// before an apply is told to be done.
func (f *FastPath) silence(p *filter.Policy) error {
	if f.tables != nil && f.allCurrent() {
		return nil
	}
	found, err := strays(f.owns)
	want := fingerprint(p)
	for _, s := range found {
		has, e := s.evaluates()
		if e == nil && has != want {
			e = s.hush()
			f.log.Info("an earlier daemon's XDP program has an outdated firewall; the kernel forwards until it is replaced", "interface", s.name)
		}
		err = errors.Join(err, e)
		s.close()
	}
	return err
}

// allCurrent says whether all ports have this daemon's program.
func (f *FastPath) allCurrent() bool {
	for _, p := range f.ports {
		if p.link != nil && !p.current {
			return false
		}
	}
	return true
}

// owns says whether a program is this daemon's.
func (f *FastPath) owns(id ebpf.ProgramID) bool {
	if f.prog == nil {
		return false
	}
	own := []*ebpf.Program{f.prog.objects.Router, f.prog.objects.RouterSpread}
	if f.capturing != nil {
		own = append(own, f.capturing.program)
	}
	for _, p := range own {
		if i, err := p.Info(); err == nil {
			if own, ok := i.ID(); ok && own == id {
				return true
			}
		}
	}
	return false
}

// takeStraysOff removes the programs of an earlier daemon from all ports: there is no fast path that could take their
// place. One that stays is told to leave everything to the kernel.
func (f *FastPath) takeStraysOff() error {
	found, failed := strays(f.owns)
	for _, s := range found {
		l, err := linkOn(s.ifindex, programID(s.program))
		if err == nil && l != nil {
			err = takeOff(l)
		}
		if err != nil || l == nil {
			if err = s.hush(); err == nil {
				f.log.Warn("an earlier daemon's XDP program stays on a port; it punts everything to the kernel", "interface", s.name)
			}
		}
		failed = errors.Join(failed, err)
		s.close()
	}
	return failed
}

func programID(p *ebpf.Program) ebpf.ProgramID {
	i, err := p.Info()
	if err != nil {
		return 0
	}
	id, _ := i.ID()
	return id
}

// fingerprint tells firewalls apart across daemons. Never 0.
func fingerprint(p *filter.Policy) uint32 {
	h := fnv.New32a()
	if p != nil {
		fmt.Fprintf(h, "%+v", *p) // maps come in the order of their keys
	}
	return h.Sum32() | 1
}
