// SPDX-License-Identifier: Apache-2.0

// Package nlmsg speaks netlink (RFC 3549) with the kernel: messages as bytes, sockets that ask, and sockets that listen.
//
// A message is a header, a fixed body by type, then attributes. All integers are in host byte order, but for addresses and
// what netfilter says. Messages are walked in place, without copies: a full table is a million of them.
package nlmsg

import (
	"encoding/binary"
	"errors"
	"iter"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

const (
	headerLen = unix.NLMSG_HDRLEN // struct nlmsghdr
	attrLen   = unix.SizeofNlAttr // struct nlattr
	typeMask  = 0x3fff            // NLA_TYPE_MASK: without NLA_F_NESTED and NLA_F_NET_BYTEORDER
)

// ErrShort is a message that ends too early.
var ErrShort = errors.New("netlink message ends too early")

// Message is one message: header fields and the bytes after the header.
type Message struct {
	Type  uint16
	Flags uint16
	Seq   uint32
	Body  []byte // valid until the buffer is used again
}

// Align rounds a length up to four bytes.
func Align(n int) int { return (n + 3) &^ 3 }

// Next splits the first message off b.
func Next(b []byte) (m Message, rest []byte, err error) {
	if len(b) < headerLen {
		return Message{}, nil, ErrShort
	}
	length := int(native.Uint32(b))
	if length < headerLen || length > len(b) {
		return Message{}, nil, ErrShort
	}
	m = Message{
		Type:  native.Uint16(b[4:]),
		Flags: native.Uint16(b[6:]),
		Seq:   native.Uint32(b[8:]),
		Body:  b[headerLen:length],
	}
	return m, b[min(Align(length), len(b)):], nil
}

// Attributes walks the attributes of b, each with its kind, and ends early at a broken one.
func Attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(kind uint16, value []byte) bool) {
		for rest := b; len(rest) >= attrLen; {
			length := int(native.Uint16(rest))
			if length < attrLen || length > len(rest) || !yield(native.Uint16(rest[2:])&typeMask, rest[attrLen:length]) {
				return
			}
			rest = rest[min(Align(length), len(rest)):]
		}
	}
}

// Err is the answer in the body of an NLMSG_ERROR or NLMSG_DONE, with the kernel's own words (extended acknowledgement) when
// it gave some.
func (m Message) Err() error {
	if len(m.Body) < 4 {
		if m.Type == unix.NLMSG_ERROR {
			return ErrShort
		}
		return nil
	}
	code := int32(native.Uint32(m.Body))
	if code == 0 {
		return nil
	}
	err := error(unix.Errno(-code))
	rest := m.Body[4:]
	if m.Type == unix.NLMSG_ERROR {
		if len(rest) < headerLen {
			return err
		}
		echoed := headerLen
		if m.Flags&unix.NLM_F_CAPPED == 0 {
			echoed = Align(int(native.Uint32(rest)))
		}
		if echoed > len(rest) {
			return err
		}
		rest = rest[echoed:]
	}
	for kind, value := range Attributes(rest) {
		if kind == unix.NLMSGERR_ATTR_MSG && len(value) > 1 {
			return &answerError{err: err, words: string(value[:len(value)-1])}
		}
	}
	return err
}

// answerError is an errno together with the kernel's explanation.
type answerError struct {
	err   error
	words string
}

func (e *answerError) Error() string { return e.words + " (" + e.err.Error() + ")" }
func (e *answerError) Unwrap() error { return e.err }

// Append appends a message with a body that is complete.
func Append(b []byte, kind, flags uint16, seq uint32, body []byte) []byte {
	b = native.AppendUint32(b, uint32(headerLen+len(body)))
	b = native.AppendUint16(b, kind)
	b = native.AppendUint16(b, flags)
	b = native.AppendUint32(b, seq)
	return append(native.AppendUint32(b, 0), body...) // the port, which the kernel knows
}

// AppendAttr appends an attribute, filled up to four bytes.
func AppendAttr(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(attrLen+len(value)))
	b = append(native.AppendUint16(b, kind), value...)
	for range -len(value) & 3 {
		b = append(b, 0)
	}
	return b
}

// AppendAttr32 appends an attribute that holds a 32-bit integer.
func AppendAttr32(b []byte, kind uint16, value uint32) []byte {
	var v [4]byte
	native.PutUint32(v[:], value)
	return AppendAttr(b, kind, v[:])
}
