// SPDX-License-Identifier: Apache-2.0

// Package testdisk is a disk whose power can fail at any write, for tests of what must survive that.
package testdisk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
)

const sector = 512

// Disk is a disk, or a partition, whose power can fail: what was written and not yet synchronised may
// be on the medium or not, sector by sector and in any order.
type Disk struct {
	power  *Power
	Stable []byte         // what survives
	cached map[int][]byte // sector → what was written since the last Sync
	Broken bool           // every write fails, as on a worn-out medium
}

// Power fails after so many writes and syncs of all its disks together.
type Power struct {
	Left int // -1 never fails
	Rand *rand.Rand
}

// ErrPower is what a disk without power answers.
var ErrPower = errors.New("the power failed")

func (p *Power) use() error {
	if p.Left == 0 {
		return ErrPower
	}
	if p.Left > 0 {
		p.Left--
	}
	return nil
}

// New makes a disk of size bytes.
func New(p *Power, size int) *Disk {
	return &Disk{power: p, Stable: make([]byte, size), cached: map[int][]byte{}}
}

func (d *Disk) Size() (int64, error) { return int64(len(d.Stable)), nil }
func (d *Disk) Close() error         { return nil }

func (d *Disk) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(d.Stable)) {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && off < int64(len(d.Stable)) {
		from := d.Stable[off:]
		if held, ok := d.cached[int(off/sector)]; ok {
			from = held[off%sector:]
		} else {
			from = from[:min(len(from), sector-int(off%sector))]
		}
		k := copy(p[n:], from)
		n, off = n+k, off+int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (d *Disk) WriteAt(p []byte, off int64) (int, error) {
	if d.Broken {
		return 0, errors.New("input/output error")
	}
	if err := d.power.use(); err != nil {
		return 0, err
	}
	if off < 0 || off+int64(len(p)) > int64(len(d.Stable)) {
		return 0, io.ErrShortWrite
	}
	for n := 0; n < len(p); {
		at := int((off + int64(n)) / sector)
		held, ok := d.cached[at]
		if !ok {
			held = bytes.Clone(d.Stable[at*sector : (at+1)*sector])
			d.cached[at] = held
		}
		n += copy(held[(off+int64(n))%sector:], p[n:])
	}
	return len(p), nil
}

func (d *Disk) Sync() error {
	if d.Broken {
		return errors.New("input/output error")
	}
	if err := d.power.use(); err != nil {
		return err
	}
	d.settle(func() bool { return true })
	return nil
}

// Fail leaves of the cached sectors those that chance had written already.
func (d *Disk) Fail() { d.settle(func() bool { return d.power.Rand.IntN(2) == 0 }) }

func (d *Disk) settle(written func() bool) {
	for at, held := range d.cached {
		if written() {
			copy(d.Stable[at*sector:], held)
		}
	}
	clear(d.cached)
}
