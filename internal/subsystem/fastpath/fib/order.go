// SPDX-License-Identifier: Apache-2.0

package fib

import "encoding/binary"

// InOrder is an image as a CPU of a byte order reads it: words, the 64-bit entries of leaves and the 16-bit ones of
// Direct24 are each turned round. It is for programs that search a file of it on another machine. No changes may be
// published meanwhile.
func (l Layout) InOrder(memory []byte, order binary.ByteOrder) ([]byte, error) {
	img, err := imageOf(memory, l.words)
	if err != nil {
		return nil, err
	}
	out := make([]byte, l.ImageBytes())
	if l.structure == Direct24 && l.family == 4 {
		for i := 0; i < 4*l.words; i += 2 {
			order.PutUint16(out[i:], binary.NativeEndian.Uint16(memory[i:]))
		}
		return out, nil
	}
	for i := range l.words {
		order.PutUint32(out[4*i:], img[i])
	}
	for i := range uint32(1) << l.rootBits {
		img.turn(out, order, img[i])
	}
	return out, nil
}

// turn writes the 64-bit entries of the leaves below a descriptor.
func (m image) turn(out []byte, order binary.ByteOrder, desc uint32) {
	first := wordOf(desc)
	doubles := func(n uint32) {
		for at := first; at < first+2*n; at += 2 {
			order.PutUint64(out[4*at:], *m.pair64(at))
		}
	}
	switch kindOf(desc) {
	case kindLeaf64:
		doubles(2 * (sizeOf(desc) + 1))
	case kindDeep:
		ranges := 4 * (sizeOf(desc) + 1)
		doubles(ranges)
		for i := range ranges {
			m.turn(out, order, m[first+2*ranges+i])
		}
	case kindDirect:
		for i := range uint32(1) << sizeOf(desc) {
			m.turn(out, order, m[first+i])
		}
	}
}
