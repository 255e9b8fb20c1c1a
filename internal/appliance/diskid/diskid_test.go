// SPDX-License-Identifier: Apache-2.0

package diskid

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"minne/internal/testing/testdisk"
)

const size = 4 << 20

// image is a disk with the partition table of the image: six partitions and a backup at its end.
func image(p *testdisk.Power) *testdisk.Disk {
	d := testdisk.New(p, size)
	list := make([]byte, listSize)
	for i := range 6 {
		e := list[i*entrySize:][:entrySize]
		e[0] = 0xaf // a type
		e[atPartition+15], e[56] = byte(i), byte('a'+i)
		binary.LittleEndian.PutUint64(e[atBegin:], uint64(2048+i*100))
		binary.LittleEndian.PutUint64(e[atBegin+8:], uint64(2048+i*100+99))
	}
	const last = size/sector - 1
	for _, c := range []struct{ at, other, list int64 }{{headerAt, last, listAt}, {last, headerAt, last - listLength}} {
		h := make(header, sector)
		copy(h, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
		copy(h[atDisk:], imageDisk)
		binary.LittleEndian.PutUint64(h[24:], uint64(c.at))
		binary.LittleEndian.PutUint64(h[atOther:], uint64(c.other))
		binary.LittleEndian.PutUint64(h[atFirstUsable:], spareAt)
		binary.LittleEndian.PutUint32(h[atEntries:], entries)
		binary.LittleEndian.PutUint32(h[atEntrySize:], entrySize)
		h.setListCRC(list)
		h.point(c.list)
		copy(d.Stable[c.list*sector:], list)
		copy(d.Stable[c.at*sector:], h)
	}
	return d
}

// look checks that a table is whole and names the partitions of the image, and returns the identifiers of disk and partitions.
func look(t *testing.T, d *testdisk.Disk, at int64) (ids [][]byte) {
	t.Helper()
	h, err := readHeader(d, at)
	if err != nil {
		t.Fatal(err)
	}
	list, err := readList(d, h)
	if err != nil {
		t.Fatal(err)
	}
	if usable := int64(binary.LittleEndian.Uint64(h[atFirstUsable:])); at == headerAt && h.list()+listLength > usable {
		t.Fatalf("the list at sector %d lies among the partitions, which may begin at %d", h.list(), usable)
	}
	ids = append(ids, h[atDisk:][:16])
	for i := range 6 {
		e := list[i*entrySize:][:entrySize]
		if e[0] != 0xaf || e[56] != byte('a'+i) || binary.LittleEndian.Uint64(e[atBegin:]) != uint64(2048+i*100) {
			t.Fatalf("partition %d became %x", i+1, e)
		}
		ids = append(ids, e[atPartition:][:16])
	}
	if !bytes.Equal(list[6*entrySize:], make([]byte, listSize-6*entrySize)) {
		t.Fatal("there are more partitions")
	}
	return ids
}

func power() *testdisk.Power { return &testdisk.Power{Left: -1, Rand: rand.New(rand.NewPCG(1, 2))} }

func TestOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 2 { // copies
		d := image(power())
		for _, id := range look(t, d, headerAt) {
			seen[string(id)] = true
		}
		if err := Own(d); err != nil {
			t.Fatal(err)
		}
		ids := look(t, d, headerAt)
		for i, id := range ids {
			if seen[string(id)] {
				t.Errorf("identifier %d is not its own: %x", i, id)
			}
			seen[string(id)] = true
			if id[7]>>4 != 4 || id[8]>>6 != 2 {
				t.Errorf("identifier %d is none of version 4: %x", i, id)
			}
		}
		for i, id := range look(t, d, size/sector-1) {
			if !bytes.Equal(id, ids[i]) {
				t.Errorf("the backup has another identifier %d", i)
			}
		}
		h, _ := readHeader(d, headerAt)
		if usable := binary.LittleEndian.Uint64(h[atFirstUsable:]); h.list() != listAt || usable != spareAt {
			t.Errorf("list at %d, usable from %d: expected both as they were", h.list(), usable)
		}
		before := bytes.Clone(d.Stable)
		if err := Own(d); err != nil || !bytes.Equal(before, d.Stable) {
			t.Errorf("the second start wrote again: %v", err)
		}
	}
}

// TestPowerCutAnywhere cuts the power behind each write and wait: the table is whole each time, and the next start ends what this
// one began.
func TestPowerCutAnywhere(t *testing.T) {
	moved := 0
	for cut, done := 0, false; !done; cut++ {
		for chance := range 20 {
			p := power()
			p.Left, p.Rand = cut, rand.New(rand.NewPCG(uint64(cut), uint64(chance)))
			d := image(p)
			err := Own(d)
			if err != nil && !errors.Is(err, testdisk.ErrPower) {
				t.Fatal(err)
			}
			done = err == nil
			d.Fail()
			p.Left = -1
			if first := look(t, d, headerAt); !bytes.Equal(first[0], imageDisk) {
				moved++
			}
			if err := Own(d); err != nil {
				t.Fatalf("cut %d, chance %d: the next start: %v", cut, chance, err)
			}
			ids := look(t, d, headerAt)
			h, _ := readHeader(d, headerAt)
			if bytes.Equal(ids[0], imageDisk) || h.list() != listAt || binary.LittleEndian.Uint64(h[atFirstUsable:]) != spareAt {
				t.Fatalf("cut %d, chance %d: not completed", cut, chance)
			}
		}
	}
	if moved == 0 {
		t.Error("no power cut hit a disk that had its own identifiers already")
	}
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func([]byte){
		"no table":        func(b []byte) { clear(b[:64*sector]) },
		"a damaged list":  func(b []byte) { b[listAt*sector+300] ^= 1 },
		"an early begin":  func(b []byte) { b[listAt*sector+atBegin+1] = 0; retable(b) },
		"few partitions":  func(b []byte) { b[headerAt*sector+atEntries] = 4; retable(b) },
		"a damaged start": func(b []byte) { b[headerAt*sector+atDisk] ^= 1 },
	} {
		d := image(power())
		change(d.Stable)
		before := bytes.Clone(d.Stable)
		if err := Own(d); !errors.Is(err, ErrTable) || !bytes.Equal(before, d.Stable) {
			t.Errorf("%s: %v, or the disk was written to", name, err)
		}
	}
	d := image(power())
	clear(d.Stable[size-40*sector:]) // the disk has no backup, as one that the image was cut off on
	if err := Own(d); err != nil || bytes.Equal(look(t, d, headerAt)[0], imageDisk) {
		t.Errorf("without a backup: %v", err)
	}
	d = image(power())
	d.Broken = true
	if err := Own(d); err == nil {
		t.Error("a worn-out disk was changed")
	}
}

// retable makes the checksums of a table right.
func retable(b []byte) {
	h := header(b[headerAt*sector:][:sector])
	h.setListCRC(b[listAt*sector:][:listSize])
	h.point(listAt)
}
