// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mostSpread bounds the table of a card, in entries; the largest known have 2,048.
const mostSpread = 1 << 16

// Indirection asks a card for the table by which it spreads flows over its receive queues: the hash of a packet picks an
// entry, which is the number of a queue (ethtool -x). Nil: it has none.
func (t Tool) Indirection(name string) ([]int, error) {
	head := [2]uint32{unix.ETHTOOL_GRXFHINDIR, 0} // struct ethtool_rxfh_indir: command, size, entries
	if err := t.do(name, unsafe.Pointer(&head)); err != nil {
		return nil, err
	}
	size := min(head[1], mostSpread)
	if size == 0 {
		return nil, nil
	}
	words := make([]uint32, 2+size)
	words[0], words[1] = unix.ETHTOOL_GRXFHINDIR, size
	if err := t.do(name, unsafe.Pointer(&words[0])); err != nil {
		return nil, err
	}
	table := make([]int, size)
	for n, queue := range words[2:] {
		table[n] = int(queue)
	}
	return table, nil
}

// SetIndirection sets the table, which must have the length that Indirection gives; nil sets the driver's own,
// over all queues (ethtool -X).
func (t Tool) SetIndirection(name string, table []int) error {
	words := make([]uint32, 2+len(table))
	words[0], words[1] = unix.ETHTOOL_SRXFHINDIR, uint32(len(table))
	for n, queue := range table {
		words[2+n] = uint32(queue)
	}
	return t.do(name, unsafe.Pointer(&words[0]))
}
