// SPDX-License-Identifier: Apache-2.0

// Package sorter finds out whose a packet is: it loads the classifier of subscribers (bpf/sorter.bpf.c) and writes its
// tables. The program belongs to the filters that use it, so that it goes on while no daemon runs; a new daemon reads from
// the old program which class is whose.
package sorter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP -type sorter_key -type sorter_subscriber -type sorter_lengths sorter ../../../../bpf/sorter.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu

// Key is what a subscriber is known by: a network, or a MAC address.
type Key struct{ sorterSorterKey }

// Subscriber is whose packets of a key are, and the class in which they wait.
type Subscriber struct {
	Name  string
	Class uint16
}

// The kinds of keys.
const (
	kind4   = 4
	kind6   = 6
	kindMAC = 48
)

// Network is the key of a network.
func Network(p netip.Prefix) (k Key) {
	p = p.Masked()
	k.Kind, k.Length = kind6, uint8(p.Bits())
	if p.Addr().Is4() {
		k.Kind = kind4
	}
	copy(k.Address[:], p.Addr().AsSlice())
	return k
}

// MAC is the key of a MAC address.
func MAC(m [6]byte) (k Key) {
	k.Kind, k.Length = kindMAC, kindMAC
	copy(k.Address[:], m[:])
	return k
}

// String is the address, the network or the MAC address.
func (k Key) String() string {
	switch k.Kind {
	case kindMAC:
		return net.HardwareAddr(k.Address[:6]).String()
	case kind4:
		if k.Length == 32 {
			return netip.AddrFrom4([4]byte(k.Address[:4])).String()
		}
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(k.Address[:4])), int(k.Length)).String()
	}
	if k.Length == 128 {
		return netip.AddrFrom16(k.Address).String()
	}
	return netip.PrefixFrom(netip.AddrFrom16(k.Address), int(k.Length)).String()
}

// Sorter is the loaded programs with their tables.
type Sorter struct {
	objects  sorterObjects
	down, up int                // the kernel's numbers of the programs
	entries  map[Key]Subscriber // what the table holds
}

// Load loads the programs.
func Load() (*Sorter, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("allow locked memory: %w", err)
	}
	s := &Sorter{entries: map[Key]Subscriber{}}
	if err := loadSorterObjects(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("load the classifier of subscribers: %w", err)
	}
	for _, p := range []struct {
		of *ebpf.Program
		id *int
	}{{s.objects.SorterDown, &s.down}, {s.objects.SorterUp, &s.up}} {
		info, err := p.of.Info()
		if err != nil {
			return nil, errors.Join(err, s.objects.Close())
		}
		id, ok := info.ID()
		if !ok {
			return nil, errors.Join(errors.New("this kernel does not number programs"), s.objects.Close())
		}
		*p.id = int(id)
	}
	return s, nil
}

// Close forgets the programs; filters keep those that they use.
func (s *Sorter) Close() error { return s.objects.Close() }

// Program is the file of the program for a direction, and the kernel's number of it.
func (s *Sorter) Program(down bool) (file, id int) {
	if down {
		return s.objects.SorterDown.FD(), s.down
	}
	return s.objects.SorterUp.FD(), s.up
}

// Entries are what the table holds.
func (s *Sorter) Entries() map[Key]Subscriber { return s.entries }

// Adopt takes over what the program of an earlier daemon knows. A program that knows nothing of subscribers is passed over.
func (s *Sorter) Adopt(id int) error {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if errors.Is(err, unix.ENOENT) {
		return nil // it has gone
	}
	if err != nil {
		return fmt.Errorf("the classifier of an earlier daemon: %w", err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return err
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return err
		}
		err = s.adopt(m)
		m.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Sorter) adopt(m *ebpf.Map) error {
	own := s.objects.SorterTable
	if m.Type() != own.Type() || m.KeySize() != own.KeySize() || m.ValueSize() != own.ValueSize() {
		return nil
	}
	read := map[Key]Subscriber{}
	var k sorterSorterKey
	var v sorterSorterSubscriber
	for all := m.Iterate(); all.Next(&k, &v); {
		read[Key{k}] = Subscriber{Name: text(v.Name[:]), Class: uint16(v.Class)}
	}
	return s.Change(read, nil)
}

// text is the bytes up to the first 0.
func text(b []int8) string {
	var out []byte
	for _, c := range b {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}

// Change writes entries and removes others. Lengths that appear are looked up once their entries are there.
func (s *Sorter) Change(write map[Key]Subscriber, remove []Key) error {
	if len(write)+len(remove) == 0 {
		return nil
	}
	for k, to := range write {
		v := sorterSorterSubscriber{Class: uint32(to.Class)}
		for i := range min(len(to.Name), len(v.Name)-1) {
			v.Name[i] = int8(to.Name[i])
		}
		if err := s.objects.SorterTable.Put(k.sorterSorterKey, v); err != nil {
			return fmt.Errorf("write subscriber %s: %w", to.Name, err)
		}
		s.entries[k] = to
	}
	if err := s.lengths(remove); err != nil {
		return err
	}
	for _, k := range remove {
		if err := s.objects.SorterTable.Delete(k.sorterSorterKey); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove a subscriber: %w", err)
		}
		delete(s.entries, k)
	}
	return nil
}

// lengths writes which lengths of prefixes occur, but for entries that go.
func (s *Sorter) lengths(without []Key) error {
	gone := map[Key]bool{}
	for _, k := range without {
		gone[k] = true
	}
	occur := [3]map[uint8]bool{{}, {}, {}}
	for k := range s.entries {
		if !gone[k] {
			occur[table(k.Kind)][k.Length] = true
		}
	}
	for n, of := range occur {
		list := slices.SortedFunc(maps.Keys(of), func(a, b uint8) int { return cmp.Compare(b, a) })
		var v, now sorterSorterLengths
		if len(list) > len(v.Length) {
			return fmt.Errorf("%d different lengths of prefixes, at most %d are looked up", len(list), len(v.Length))
		}
		v.Count = uint32(len(list))
		copy(v.Length[:], list)
		if err := s.objects.SorterOccurring.Lookup(uint32(n), &now); err == nil && now == v {
			continue
		}
		if err := s.objects.SorterOccurring.Put(uint32(n), v); err != nil {
			return fmt.Errorf("write the lengths of prefixes: %w", err)
		}
	}
	return nil
}

// table is where the lengths of a kind are.
func table(kind uint8) int {
	switch kind {
	case kind4:
		return 0
	case kind6:
		return 1
	}
	return 2
}
