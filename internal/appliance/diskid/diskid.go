// SPDX-License-Identifier: Apache-2.0

// Package diskid gives a copy of the router's image its own identifiers: those of the disk and of its partitions in
// the GPT (UEFI 2.10, 5.3), by which firmware and GRUB's hint to the initramfs tell two disks apart.
//
// The image has fixed ones, so all its copies begin with the same. The first boot replaces them, and a power cut at
// any moment leaves a partition table that is whole: a list of partitions is written where nothing points to, then the one sector
// of the header, which points to it.
//
//	            header points to   list behind header  list in the spare place
//	before      behind header      old                 -
//	spare       behind header      old                 new
//	switched    spare place        old                 new
//	copied      spare place        new                 new
//	done        behind header      new                 new
//
// The backup at the end of the disk is written before all this, while the first table is whole.
package diskid

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Disk is a whole disk, or a file in place of one.
type Disk interface {
	io.ReaderAt
	io.WriterAt
	Sync() error // returns when the disk has all that was written
}

// imageDisk is the identifier of the disk that image/disk.sh writes: 4d494e4e-4500-4000-8000-000000000000.
var imageDisk = []byte{0x4e, 0x4e, 0x49, 0x4d, 0x00, 0x45, 0x00, 0x40, 0x80, 0, 0, 0, 0, 0, 0, 0}

// Where things are on a disk of 512-byte sectors, which the image is made for.
const (
	sector     = 512
	headerAt   = 1 // of the first table, in sectors
	listAt     = 2
	entrySize  = 128
	entries    = 128
	listSize   = entries * entrySize
	listLength = listSize / sector // 32 sectors
	spareAt    = listAt + listLength
)

// Offsets in a header, in bytes.
const (
	atSize        = 12 // of the header
	atHeaderCRC   = 16
	atOther       = 32 // sector of the other header
	atFirstUsable = 40
	atDisk        = 56
	atList        = 72
	atEntries     = 80
	atEntrySize   = 84
	atListCRC     = 88
)

// Offsets in an entry of the list.
const (
	atPartition = 16
	atBegin     = 32
)

// ErrTable is wrapped by the error for a disk whose first table is not one that the image has.
var ErrTable = errors.New("the partition table is damaged or not the image's")

// Own gives the disk its own identifiers, if it still has those of the image. What a power cut interrupted it completes.
func Own(d Disk) error {
	h, err := readHeader(d, headerAt)
	if err != nil {
		return err
	}
	list, err := readList(d, h)
	if err != nil {
		return err
	}
	if !bytes.Equal(h[atDisk:][:16], imageDisk) {
		if h.list() == listAt {
			return nil
		}
		return settle(d, h, list)
	}
	for i := range entries {
		if e := list[i*entrySize:][:entrySize]; !bytes.Equal(e[:16], make([]byte, 16)) {
			if begin := binary.LittleEndian.Uint64(e[atBegin:]); begin < spareAt+listLength {
				return fmt.Errorf("%w: a partition begins at sector %d", ErrTable, begin)
			}
			random(e[atPartition:][:16])
		}
	}
	random(h[atDisk:][:16])
	h.setListCRC(list)
	if err := backup(d, h, list); err != nil {
		return err
	}
	if err := write(d, list, spareAt); err != nil {
		return err
	}
	usable := binary.LittleEndian.Uint64(h[atFirstUsable:])
	binary.LittleEndian.PutUint64(h[atFirstUsable:], spareAt+listLength)
	h.point(spareAt)
	if err := write(d, h, headerAt); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(h[atFirstUsable:], usable)
	return settle(d, h, list)
}

// settle puts the list where partition tables have it, behind the header.
func settle(d Disk, h header, list []byte) error {
	if err := write(d, list, listAt); err != nil {
		return err
	}
	if binary.LittleEndian.Uint64(h[atFirstUsable:]) == spareAt+listLength {
		binary.LittleEndian.PutUint64(h[atFirstUsable:], spareAt)
	}
	h.point(listAt)
	return write(d, h, headerAt)
}

// backup writes the table at the end of the disk, or where the image ended. Nothing reads it while the first one is whole, so one that
// is damaged or missing is left alone.
func backup(d Disk, first header, list []byte) error {
	at := int64(binary.LittleEndian.Uint64(first[atOther:]))
	h, err := readHeader(d, at)
	if err != nil {
		return nil
	}
	copy(h[atDisk:atDisk+16], first[atDisk:])
	h.setListCRC(list)
	if err := write(d, list, h.list()); err != nil {
		return err
	}
	h.point(h.list())
	return write(d, h, at)
}

// random fills an identifier by chance (RFC 9562, version 4; the GPT has its first fields in little endian).
func random(id []byte) {
	rand.Read(id) // never fails
	id[7] = id[7]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
}

// write writes to a sector and waits until the disk has it.
func write(d Disk, b []byte, at int64) error {
	if _, err := d.WriteAt(b, at*sector); err != nil {
		return fmt.Errorf("partition table: %w", err)
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("partition table: %w", err)
	}
	return nil
}

// header is the sector of a table's header.
type header []byte

func readHeader(d Disk, at int64) (header, error) {
	h := make(header, sector)
	if _, err := d.ReadAt(h, at*sector); err != nil {
		return nil, fmt.Errorf("partition table: %w", err)
	}
	size := binary.LittleEndian.Uint32(h[atSize:])
	if string(h[:8]) != "EFI PART" || size < atListCRC+4 || size > sector || binary.LittleEndian.Uint32(h[atHeaderCRC:]) != h.crc() {
		return nil, fmt.Errorf("%w: sector %d", ErrTable, at)
	}
	if binary.LittleEndian.Uint32(h[atEntries:]) != entries || binary.LittleEndian.Uint32(h[atEntrySize:]) != entrySize {
		return nil, fmt.Errorf("%w: not %d entries of %d bytes", ErrTable, entries, entrySize)
	}
	return h, nil
}

// crc is that of the header with its own field zero.
func (h header) crc() uint32 {
	b := bytes.Clone(h[:binary.LittleEndian.Uint32(h[atSize:])])
	clear(b[atHeaderCRC:][:4])
	return crc32.ChecksumIEEE(b)
}

func (h header) list() int64 { return int64(binary.LittleEndian.Uint64(h[atList:])) }

func (h header) setListCRC(list []byte) {
	binary.LittleEndian.PutUint32(h[atListCRC:], crc32.ChecksumIEEE(list))
}

// point has the header point to a list, and completes it.
func (h header) point(list int64) {
	binary.LittleEndian.PutUint64(h[atList:], uint64(list))
	binary.LittleEndian.PutUint32(h[atHeaderCRC:], h.crc())
}

func readList(d Disk, h header) ([]byte, error) {
	list := make([]byte, listSize)
	if _, err := d.ReadAt(list, h.list()*sector); err != nil {
		return nil, fmt.Errorf("partition table: %w", err)
	}
	if crc32.ChecksumIEEE(list) != binary.LittleEndian.Uint32(h[atListCRC:]) {
		return nil, fmt.Errorf("%w: its list of partitions", ErrTable)
	}
	return list, nil
}
