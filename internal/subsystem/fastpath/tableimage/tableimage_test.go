// SPDX-License-Identifier: Apache-2.0

package tableimage

import (
	"bytes"
	"encoding/binary"
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
		got, err := Open(m.Bytes(order))
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
		if _, err := Open(spoil(bytes.Clone(whole))); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}
