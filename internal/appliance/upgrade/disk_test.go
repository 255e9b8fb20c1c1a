// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
)

const sector = 512

// disk is a partition whose power can fail: what was written and not yet synchronised may
// be on the medium or not, sector by sector and in any order.
type disk struct {
	power  *power
	stable []byte         // what survives
	cached map[int][]byte // sector → what was written since the last Sync
	broken bool           // every write fails, as on a worn-out medium
}

// power fails after so many writes and syncs of all its disks together.
type power struct {
	left int // -1 never fails
	rand *rand.Rand
}

var errPower = errors.New("the power failed")

func (p *power) use() error {
	if p.left == 0 {
		return errPower
	}
	if p.left > 0 {
		p.left--
	}
	return nil
}

func newDisk(p *power, size int) *disk {
	return &disk{power: p, stable: make([]byte, size), cached: map[int][]byte{}}
}

func (d *disk) Size() (int64, error) { return int64(len(d.stable)), nil }
func (d *disk) Close() error         { return nil }

func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(d.stable)) {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && off < int64(len(d.stable)) {
		from := d.stable[off:]
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

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	if d.broken {
		return 0, errors.New("input/output error")
	}
	if err := d.power.use(); err != nil {
		return 0, err
	}
	if off < 0 || off+int64(len(p)) > int64(len(d.stable)) {
		return 0, io.ErrShortWrite
	}
	for n := 0; n < len(p); {
		at := int((off + int64(n)) / sector)
		held, ok := d.cached[at]
		if !ok {
			held = bytes.Clone(d.stable[at*sector : (at+1)*sector])
			d.cached[at] = held
		}
		n += copy(held[(off+int64(n))%sector:], p[n:])
	}
	return len(p), nil
}

func (d *disk) Sync() error {
	if d.broken {
		return errors.New("input/output error")
	}
	if err := d.power.use(); err != nil {
		return err
	}
	d.settle(func() bool { return true })
	return nil
}

// fail leaves of the cached sectors those that chance had written already.
func (d *disk) fail() { d.settle(func() bool { return d.power.rand.IntN(2) == 0 }) }

func (d *disk) settle(written func() bool) {
	for at, held := range d.cached {
		if written() {
			copy(d.stable[at*sector:], held)
		}
	}
	clear(d.cached)
}
