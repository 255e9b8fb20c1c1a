// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// foreign searches an IPv6 image in another byte order, as bpf/fib.h describes it, the plain way.
type foreign struct {
	image []byte
	order binary.ByteOrder
	kinds [kindDirect + 1]int // how often each was met
}

func (m *foreign) word(at uint32) uint32   { return m.order.Uint32(m.image[4*at:]) }
func (m *foreign) double(at uint32) uint64 { return m.order.Uint64(m.image[4*at:]) }

func (m *foreign) answer(hi, lo uint64) uint16 {
	desc, key := m.word(uint32(hi>>(64-root6))), hi<<root6
	for {
		at, entries := wordOf(desc), sizeOf(desc)+1
		m.kinds[kindOf(desc)]++
		switch kindOf(desc) {
		case kindDirect:
			stride := sizeOf(desc)
			desc, key = m.word(at+uint32(key>>(64-stride))), key<<stride
			continue
		case kindLeaf32:
			entries *= 4
			i := entries - 1
			for uint64(m.word(at+i)>>hopBits6) > key>>(32+hopBits6) {
				i--
			}
			desc = m.word(at+i) & (1<<hopBits6 - 1)
		case kindLeaf64:
			entries *= 2
			i := entries - 1
			for m.double(at+2*i)>>16 > key>>16 {
				i--
			}
			desc = uint32(m.double(at+2*i) & 0xffff)
		case kindDeep:
			entries *= 4
			i := entries - 1
			for m.double(at+2*i) > key {
				i--
			}
			desc, key = m.word(at+2*entries+i), lo
			continue
		}
		if desc == 0 {
			desc = m.word(1 << root6)
		}
		return uint16(desc)
	}
}

// TestInOrder reads images in both byte orders: tables with leaves of every kind.
func TestInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	l := Layout6(Full)
	memory := region(l)
	f, err := NewTable6(memory, l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var addresses []netip.Addr
	for i := range 20_000 {
		p := adversaries["IPv6 crowds within crowds"](rng, i)
		if err := f.Set(p, uint16(1+rng.IntN(65535))); err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, p.Addr())
	}
	if err := f.Set(netip.MustParsePrefix("::/0"), 9); err != nil {
		t.Fatal(err)
	}
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		image, err := l.InOrder(memory, order)
		if err != nil {
			t.Fatal(err)
		}
		m := &foreign{image: image, order: order}
		for _, a := range addresses {
			b := a.As16()
			hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
			if got, want := m.answer(hi, lo), f.Lookup(a); got != want {
				t.Fatalf("%v: %v: %d, expected %d", order, a, got, want)
			}
		}
		for _, kind := range []int{kindLeaf32, kindLeaf64, kindDeep, kindDirect} {
			if m.kinds[kind] == 0 {
				t.Errorf("the table has no block of kind %d", kind)
			}
		}
	}
}

func TestInOrderOfDirect24(t *testing.T) {
	l := Layout4(Direct24, Full)
	memory := region(l)
	f, err := NewTable4(memory, l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set(netip.MustParsePrefix("192.0.2.0/24"), 0x1234); err != nil {
		t.Fatal(err)
	}
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		image, err := l.InOrder(memory, order)
		if err != nil {
			t.Fatal(err)
		}
		if got := order.Uint16(image[2*0xc00002:]); got != 0x1234 {
			t.Errorf("%v: %#x", order, got)
		}
	}
	if _, err := l.InOrder(memory[:100], binary.BigEndian); err == nil {
		t.Error("an image of 100 bytes was taken")
	}
}
