// SPDX-License-Identifier: Apache-2.0

package testimage

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
)

// Sector is what a disk writes whole or not at all, in bytes.
const Sector = 512

// Write is one thing that a machine did to its disk: it wrote Data at byte At, or, without
// Data, waited until the disk had all that was written before.
type Write struct {
	At   int64
	Data []byte
	End  int64 // of this record in the log, in bytes
}

// Flags in the log that QEMU's driver blklogwrites writes, which is that of Linux's dm-log-writes.
const (
	logFlush   = 1 << 0
	logFUA     = 1 << 1 // on the medium when it is done
	logDiscard = 1 << 2
	logMagic   = 0x6a736677736872
)

// Writes reads the log of a machine's disk (Options.Log) as far as it goes.
func Writes(file string) ([]Write, error) {
	log, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(log) < Sector || binary.LittleEndian.Uint64(log) != logMagic || binary.LittleEndian.Uint32(log[24:]) != Sector {
		return nil, fmt.Errorf("%s: not a log of writes in sectors of %d bytes", file, Sector)
	}
	var writes []Write
	for at := int64(Sector); at+Sector <= int64(len(log)); {
		head := log[at:]
		sector, count, flags := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:])
		if count == 0 && flags == 0 {
			return writes, nil // room that was made and not filled
		}
		at += Sector
		w := Write{At: int64(sector) * Sector}
		size := int64(count) * Sector
		switch {
		case flags&logDiscard != 0:
			return nil, fmt.Errorf("%s: the machine discarded %d bytes at %d, which is not expected", file, size, w.At)
		case at+size > int64(len(log)):
			return writes, nil
		case size > 0:
			w.Data = log[at : at+size]
			at += size
			w.End = at
			writes = append(writes, w)
		}
		if flags&(logFlush|logFUA) != 0 {
			writes = append(writes, Write{End: at})
		}
	}
	return writes, nil
}

// Replay is a disk whose power fails again and again, each time later in the log of one machine.
type Replay struct {
	Writes []Write
	disk   *os.File
	stable int              // so many writes are on the disk for certain
	loose  map[int64][]byte // sector → what this cut left there of writes that were not waited for
}

// NewReplay starts with the disk as it was before the log; the file is written to. It is
// closed with the test.
func NewReplay(t *testing.T, disk, log string) *Replay {
	t.Helper()
	writes, err := Writes(log)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &Replay{Writes: writes, disk: f}
}

// Cut lets the power fail behind the first n writes, n never less than before. What the
// machine had waited for is on the disk. Of the rest, each sector is there with the
// probability that kept says: disks write in any order.
func (r *Replay) Cut(n int, kept float64, random *rand.Rand) error {
	settled := n
	for settled > r.stable && r.Writes[settled-1].Data != nil {
		settled--
	}
	for ; r.stable < settled; r.stable++ {
		if w := r.Writes[r.stable]; w.Data != nil {
			if _, err := r.disk.WriteAt(w.Data, w.At); err != nil {
				return err
			}
		}
	}
	r.loose = map[int64][]byte{}
	for _, w := range r.Writes[r.stable:n] {
		for i := 0; i < len(w.Data); i += Sector {
			if random.Float64() < kept {
				r.loose[w.At/Sector+int64(i/Sector)] = w.Data[i : i+Sector]
			}
		}
	}
	return nil
}

// Touched tells whether this cut left loose sectors between two bytes of the disk.
func (r *Replay) Touched(from, to int64) bool {
	for sector := range r.loose {
		if sector*Sector >= from && sector*Sector < to {
			return true
		}
	}
	return false
}

// ReadAt reads the disk as the cut left it.
func (r *Replay) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.disk.ReadAt(p, off)
	for sector := off / Sector; sector*Sector < off+int64(n) && len(r.loose) > 0; sector++ {
		if data, ok := r.loose[sector]; ok {
			at := sector*Sector - off
			if at < 0 {
				copy(p[:n], data[-at:])
			} else {
				copy(p[at:n], data)
			}
		}
	}
	return n, err
}

// Copy writes size bytes from byte from of the disk, as the cut left it, to a file with holes
// where there are zeros.
func (r *Replay) Copy(to string, from, size int64) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	const step = 64 << 10
	b, none := make([]byte, step), make([]byte, step)
	for at := int64(0); at < size; at += step {
		n, err := r.ReadAt(b[:min(step, size-at)], from+at)
		if err != nil && err != io.EOF {
			return err
		}
		if string(b[:n]) != string(none[:n]) {
			if _, err := f.WriteAt(b[:n], at); err != nil {
				return err
			}
		}
	}
	return f.Truncate(size)
}
