// SPDX-License-Identifier: Apache-2.0

package fib

import "fmt"

// Structure is a way to lay out the IPv4 image.
type Structure uint8

// The structures for IPv4. RangeN has a root of N bits over sorted leaves and direct stages;
// Direct24 is DIR-24-8.
const (
	Range18 Structure = iota
	Range16
	Range20
	Direct24
)

// Default is the structure that the measurements in docs/design/fib.md speak for.
const Default = Range18

// Structures are all of them, the default first.
var Structures = []Structure{Range18, Range16, Range20, Direct24}

var structureNames = [...]string{Range18: "range18", Range16: "range16", Range20: "range20", Direct24: "direct24"}

func (s Structure) String() string { return structureNames[s] }

// ParseStructure reads the name that String gives, or "auto" for the default.
func ParseStructure(name string) (Structure, error) {
	if name == "auto" {
		return Default, nil
	}
	for s, n := range structureNames {
		if n == name {
			return Structure(s), nil
		}
	}
	return 0, fmt.Errorf("fib: structure %q: expected auto or one of %v", name, Structures)
}

// Capacity is how much an image can hold.
type Capacity uint8

// Full holds a full Internet table with room to grow; Small some ten thousand routes in one or
// two MiB.
const (
	Full Capacity = iota
	Small
)

// Values of fib4_structure in bpf/fib.h.
const (
	codeRange    = 0
	codeDirect24 = 1
)

// IPv6Structure is the name of the only IPv6 structure.
const IPv6Structure = "staged16"

const root6 = 16 // bits of the IPv6 root; FIB6_ROOT_BITS

// Layout is the shape of one family's image. The loader sets the value size of the eBPF array
// and the program's constants to it before loading; the table then compiles into that array.
type Layout struct {
	family    int // 4 or 6
	structure Structure
	rootBits  uint8
	words     int
}

// Layout4 is the layout of an IPv4 image. Direct24 and Range20 have one size only.
func Layout4(s Structure, c Capacity) Layout {
	l := Layout{family: 4, structure: s, words: 1 << 21}
	switch s {
	case Range16:
		l.rootBits = 16
		if c == Small {
			l.words = 1 << 18
		}
	case Range18:
		l.rootBits = 18
		if c == Small {
			l.words = 1 << 19
		}
	case Range20:
		l.rootBits = 20
		l.words = 1 << 22
	case Direct24:
		l.rootBits = 18 // of the routes; the image's own is 24
		l.words = direct24Words
	}
	return l
}

// Layout6 is the layout of an IPv6 image.
func Layout6(c Capacity) Layout {
	l := Layout{family: 6, rootBits: root6, words: 1 << 22}
	if c == Small {
		l.words = 1 << 18
	}
	return l
}

// MapName is the name of the eBPF array.
func (l Layout) MapName() string { return fmt.Sprintf("fib%d_image", l.family) }

// ImageBytes is the value size of the eBPF array.
func (l Layout) ImageBytes() uint32 { return uint32(l.words)*4 + slackBytes }

// Constants are the program's read-only variables by name.
func (l Layout) Constants() map[string]uint32 {
	if l.family == 6 {
		return map[string]uint32{"fib6_mask": uint32(l.words - 1)}
	}
	code := uint32(codeRange)
	if l.structure == Direct24 {
		code = codeDirect24
	}
	return map[string]uint32{
		"fib4_structure": code,
		"fib4_root_bits": uint32(l.rootBits),
		"fib4_mask":      uint32(l.words - 1),
	}
}

// newTable makes an empty table over an image, which it clears.
func (l Layout) newTable(family int, region []byte, o Options) (*table, error) {
	if l.family != family {
		return nil, fmt.Errorf("fib: layout of IPv%d given to an IPv%d table", l.family, family)
	}
	img, err := imageOf(region, l.words)
	if err != nil {
		return nil, err
	}
	t := newRoutes(family, l.rootBits, img, nil)
	t.direct24 = l.structure == Direct24 && family == 4
	first := uint32(1)<<l.rootBits/unitWords + 1 // the root, then the default route
	if t.direct24 {
		first = direct24FirstBlock
	}
	for i := range img {
		img.set(uint32(i), 0)
	}
	t.mem = newMemory(first, uint32(l.words)/unitWords, o.Grace)
	return t, nil
}

// newRoutes is a table without routes, whose root begins the image.
func newRoutes(family int, rootBits uint8, img image, mem *memory) *table {
	t := &table{
		img:      img,
		mem:      mem,
		root:     newNode(0, 0, rootBits, 0, nil),
		wordBits: 32,
		stages:   stages4,
		hopBits:  hopBits4,
		leafMax:  leafMax4,
		sparse:   sparse4,
	}
	if family == 6 {
		t.wordBits, t.stages, t.hopBits, t.leafMax, t.sparse = 64, stages6, hopBits6, leafMax6, sparse6
		t.halves = map[uint64]*half{}
	}
	return t
}

// Direct stages below a root (FIB4_STAGES and FIB6_STAGES of bpf/fib.h), and when a block becomes
// one; measured in docs/design/fib.md.
const (
	stages4  = 3
	hopBits4 = 16 // FIB4_HOP_BITS
	leafMax4 = 64
	sparse4  = 2
	stages6  = 8
	hopBits6 = 12 // FIB6_HOP_BITS
	leafMax6 = 16
	sparse6  = 1
)
