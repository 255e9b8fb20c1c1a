// SPDX-License-Identifier: Apache-2.0

package tableimage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

func sealed(t *testing.T) *Image {
	t.Helper()
	m := New(TreeBitmap)
	m.Words[HeadOwn] = 7
	at := m.Place(3, 16)
	if at%16 != 0 {
		t.Fatalf("placed at %d", at)
	}
	m.Words[at+2] = 0x01020304
	if err := m.Seal(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestBothByteOrders(t *testing.T) {
	m := sealed(t)
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		got, err := open(m.Bytes(order))
		if err != nil {
			t.Fatal(err)
		}
		if got.Kind != m.Kind || !slices.Equal(got.Words, m.Words) {
			t.Errorf("%v: other words came back", order)
		}
	}
}

func TestBroken(t *testing.T) {
	whole := sealed(t).Bytes(binary.LittleEndian)
	for name, spoil := range map[string]func([]byte) []byte{
		"nothing":       func([]byte) []byte { return nil },
		"cut short":     func(b []byte) []byte { return b[:len(b)/2] },
		"odd length":    func(b []byte) []byte { return b[:len(b)-1] },
		"another magic": func(b []byte) []byte { b[0]++; return b },
		"later version": func(b []byte) []byte { b[4*headVersion]++; return b },
		"used too many": func(b []byte) []byte { b[4*headUsed+3] = 1; return b },
		"a bit":         func(b []byte) []byte { b[4*(HeadEnd+2)] ^= 16; return b },
		"of the header": func(b []byte) []byte { b[4*HeadOwn]++; return b },
	} {
		if _, err := open(spoil(bytes.Clone(whole))); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// open reads an image, of either byte order, and checks its header and checksum.
func open(data []byte) (*Image, error) {
	if len(data) < 4*HeadEnd || len(data)%4 != 0 {
		return nil, fmt.Errorf("table image: %d bytes, expected a header of %d and whole words", len(data), 4*HeadEnd)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if binary.BigEndian.Uint32(data) == magic {
		order = binary.BigEndian
	}
	words := make([]uint32, len(data)/4)
	for i := range words {
		words[i] = order.Uint32(data[4*i:])
	}
	used := int(words[headUsed])
	switch {
	case words[headMagic] != magic:
		return nil, fmt.Errorf("table image: it begins with %#x, expected %#x", words[headMagic], magic)
	case words[headVersion] != version:
		return nil, fmt.Errorf("table image: version %d, expected %d", words[headVersion], version)
	case int(words[headWords]) != len(words) || len(words)&(len(words)-1) != 0:
		return nil, fmt.Errorf("table image: the header tells of %d words, there are %d, expected a power of two", words[headWords], len(words))
	case used < HeadEnd || used > len(words):
		return nil, fmt.Errorf("table image: the header tells of %d words in use, there are %d", used, len(words))
	case checksum(words[HeadOwn:used]) != words[headChecksum]:
		return nil, fmt.Errorf("table image: wrong checksum: it was cut short or changed")
	}
	return &Image{Kind: Kind(words[headKind]), Words: words}, nil
}
