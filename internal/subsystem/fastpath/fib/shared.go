// SPDX-License-Identifier: Apache-2.0

package fib

import "fmt"

// Shared is an image that holds the tables of several VRFs, each as large as its routes are (bpf/fib_vrf.h). Not for
// several goroutines at once, and its tables neither.
type Shared struct {
	img  image
	mem  *memory
	open [MaxShared]tables
}

// tables are those of one VRF.
type tables struct{ v4, v6 *table }

// What bpf/fib_vrf.h says of the image.
const (
	MaxShared = 64 // VRF_MAX; number 0 stands for main's tables, which are elsewhere

	sharedRoot = 8 // VRF_ROOT_BITS
	sharedUnit = 4 // VRF_UNIT, words
	sharedZone = 2 // VRF_ZONE
)

// SharedStructure is the name of the structure of tables that share an image, of both families.
const SharedStructure = "shared8"

// sharedWords is the size of the image by what it can hold: 256 KiB are some ten thousand routes, 8 MiB a million.
var sharedWords = map[Capacity]int{Small: 1 << 16, Full: 1 << 21}

// SharedLayout is the layout of an image for the tables of VRFs. It has the same purpose as a Layout.
type SharedLayout struct{ words int }

// LayoutShared is the layout of an image for VRFs.
func LayoutShared(c Capacity) SharedLayout { return SharedLayout{sharedWords[c]} }

// ImageBytes is the value size of the eBPF array vrf_image.
func (l SharedLayout) ImageBytes() uint32 { return uint32(l.words)*4 + slackBytes }

// Constants are the program's read-only variables by name.
func (l SharedLayout) Constants() map[string]uint32 {
	return map[string]uint32{"vrf_mask": uint32(l.words - 1)}
}

// NewShared makes an image without tables over the bytes of the eBPF array vrf_image, which it clears.
func NewShared(region []byte, l SharedLayout, o Options) (*Shared, error) {
	img, err := imageOf(region, l.words)
	if err != nil {
		return nil, err
	}
	for i := range img {
		img.set(uint32(i), 0)
	}
	return &Shared{img: img, mem: newMemory(MaxShared*sharedUnit/unitWords, uint32(l.words)/unitWords, o.Grace)}, nil
}

// Open makes the tables of a number, 1 and above, empty: all of it is the kernel's until they have routes.
func (s *Shared) Open(number int) (*Table4, *Table6, error) {
	if number < 1 || number >= MaxShared || s.open[number].v4 != nil {
		return nil, nil, fmt.Errorf("fib: table %d of %d is not free", number, MaxShared-1)
	}
	v4 := newRoutes(4, sharedRoot, s.img, s.mem)
	v6 := newRoutes(6, sharedRoot, s.img, s.mem)
	for i, t := range []*table{v4, v6} {
		at, ok := s.mem.alloc(t.rootUnits())
		if !ok {
			if i > 0 {
				s.mem.release(span{v4.root.word / unitWords, v4.rootUnits()})
			}
			return nil, nil, ErrFull
		}
		t.root.word = at * unitWords
		for word := range t.rootUnits() * unitWords {
			s.img.set(t.root.word+word, 0)
		}
	}
	s.open[number] = tables{v4, v6}
	s.img.store(uint32(number)*sharedUnit, descriptor(kindDirect, sharedRoot, v4.root.word))
	s.img.store(uint32(number)*sharedUnit+1, descriptor(kindDirect, sharedRoot, v6.root.word))
	return &Table4{v4}, &Table6{v6}, nil
}

// Zone says in which zone of conntrack the connections of a VRF are.
func (s *Shared) Zone(number int, zone uint16) {
	s.img.store(uint32(number)*sharedUnit+sharedZone, uint32(zone))
}

// Close gives up the tables of a number. Packets that ask them from now on are the kernel's.
func (s *Shared) Close(number int) {
	for word := range uint32(sharedUnit) {
		s.img.store(uint32(number)*sharedUnit+word, 0)
	}
	for _, t := range []*table{s.open[number].v4, s.open[number].v6} {
		for _, h := range t.halves {
			t.dropHalf(h)
		}
		t.drop(t.root)
		last := &t.unlinked[len(t.unlinked)-1]
		last.units = t.rootUnits() // with the default route behind it
		t.retireUnlinked()
	}
	s.mem.collect()
	s.open[number] = tables{}
}

// rootUnits is the memory of a root and the default route behind it.
func (t *table) rootUnits() uint32 { return t.root.span().units + 1 }
