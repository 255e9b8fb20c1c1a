// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"iter"

	"golang.org/x/sys/unix"
)

// Netlink messages (RFC 3549) as bytes: a header, a fixed body by type, then
// attributes. All integers are in host byte order except addresses. Messages
// are walked in place, without copies: a full table is a million of them.

var native = binary.NativeEndian

const (
	headerLen = unix.NLMSG_HDRLEN // struct nlmsghdr
	attrLen   = unix.SizeofNlAttr // struct nlattr
	rtMsgLen  = unix.SizeofRtMsg  // struct rtmsg
	typeMask  = 0x3fff            // NLA_TYPE_MASK: without NLA_F_NESTED and NLA_F_NET_BYTEORDER
)

var errShort = errors.New("netlink message ends too early")

// message is one netlink message: header fields and the bytes after the header.
type message struct {
	Type  uint16
	Flags uint16
	Seq   uint32
	Body  []byte // valid until the buffer is used again
}

// align rounds a netlink length up to four bytes.
func align(n int) int { return (n + 3) &^ 3 }

// nextMessage splits the first message off b.
func nextMessage(b []byte) (m message, rest []byte, err error) {
	if len(b) < headerLen {
		return message{}, nil, errShort
	}
	length := int(native.Uint32(b))
	if length < headerLen || length > len(b) {
		return message{}, nil, errShort
	}
	m = message{
		Type:  native.Uint16(b[4:]),
		Flags: native.Uint16(b[6:]),
		Seq:   native.Uint32(b[8:]),
		Body:  b[headerLen:length],
	}
	return m, b[min(align(length), len(b)):], nil
}

// attributes walks the attributes of b, each with its kind, and ends early at a broken one.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(kind uint16, value []byte) bool) {
		for rest := b; len(rest) >= attrLen; {
			length := int(native.Uint16(rest))
			if length < attrLen || length > len(rest) || !yield(native.Uint16(rest[2:])&typeMask, rest[attrLen:length]) {
				return
			}
			rest = rest[min(align(length), len(rest)):]
		}
	}
}

// kernelError is the answer in an NLMSG_ERROR or NLMSG_DONE body, with the
// kernel's own words (extended acknowledgement) when it gave some.
func kernelError(m message) error {
	if len(m.Body) < 4 {
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
			echoed = align(int(native.Uint32(rest)))
		}
		if echoed > len(rest) {
			return err
		}
		rest = rest[echoed:]
	}
	for kind, value := range attributes(rest) {
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

// builder writes messages one after the other into one buffer.
type builder struct {
	b     []byte
	start int // where the message being written begins
}

// begin starts a message with a zeroed body of bodyLen bytes and returns the body for filling in.
// The slice is valid until the next call.
func (w *builder) begin(kind, flags uint16, seq uint32, bodyLen int) []byte {
	w.start = len(w.b)
	w.b = append(w.b, make([]byte, headerLen+bodyLen)...)
	h := w.b[w.start:]
	native.PutUint16(h[4:], kind)
	native.PutUint16(h[6:], flags)
	native.PutUint32(h[8:], seq)
	return h[headerLen:]
}

// end fixes the length of the message.
func (w *builder) end() { native.PutUint32(w.b[w.start:], uint32(len(w.b)-w.start)) }

// attr appends an attribute.
func (w *builder) attr(kind uint16, value []byte) {
	var h [attrLen]byte
	native.PutUint16(h[0:], uint16(attrLen+len(value)))
	native.PutUint16(h[2:], kind)
	w.b = append(w.b, h[:]...)
	w.b = append(w.b, value...)
	for len(w.b)%4 != 0 {
		w.b = append(w.b, 0)
	}
}

// attr32 appends an attribute that holds a 32-bit integer.
func (w *builder) attr32(kind uint16, value uint32) {
	var v [4]byte
	native.PutUint32(v[:], value)
	w.attr(kind, v[:])
}

// nest starts an attribute that holds attributes; unnest ends it.
func (w *builder) nest(kind uint16) (at int) {
	at = len(w.b)
	w.attr(kind, nil)
	return at
}

func (w *builder) unnest(at int) { native.PutUint16(w.b[at:], uint16(len(w.b)-at)) }
