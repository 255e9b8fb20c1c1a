// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

var native = binary.NativeEndian

// An asker is a rtnetlink socket for questions: dumps and acknowledged requests. Not for several goroutines at once.
type asker struct {
	*nlmsg.Socket
	out builder
}

// newAsker opens the socket, with strict checking of dump requests: filters in
// the request are then done by the kernel, and misspelt ones refused.
func newAsker() (*asker, error) {
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE, unix.NETLINK_GET_STRICT_CHK, unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK)
	return &asker{Socket: s}, err
}

// dump asks for all objects of a kind and calls each for every one. fill writes
// the request's body and filters. intact is as Ask has it.
func (a *asker) dump(ctx context.Context, kind uint16, bodyLen int, fill func(body []byte, w *builder),
	each func(m nlmsg.Message) error) (intact bool, err error) {
	return a.Ask(ctx, kind, unix.NLM_F_DUMP, a.body(bodyLen, fill), each)
}

// request sends one message and returns the kernel's answer to it.
func (a *asker) request(kind, flags uint16, bodyLen int, fill func(body []byte, w *builder)) error {
	_, err := a.Ask(context.Background(), kind, unix.NLM_F_ACK|flags, a.body(bodyLen, fill), func(nlmsg.Message) error { return nil })
	return err
}

// body is what fill makes of a zeroed body.
func (a *asker) body(length int, fill func(body []byte, w *builder)) []byte {
	a.out.b = append(a.out.b[:0], make([]byte, length)...)
	fill(a.out.b, &a.out)
	return a.out.b
}

// builder writes messages one after the other into one buffer.
type builder struct {
	b     []byte
	start int // where the message being written begins
}

// begin starts a message with a zeroed body of bodyLen bytes and returns the body for filling in.
// The slice is valid until the next call.
func (w *builder) begin(kind, flags uint16, seq uint32, bodyLen int) []byte {
	w.start = len(w.b)
	w.b = nlmsg.Append(w.b, kind, flags, seq, nil)
	at := len(w.b)
	w.b = append(w.b, make([]byte, bodyLen)...)
	return w.b[at:]
}

// end fixes the length of the message.
func (w *builder) end() { native.PutUint32(w.b[w.start:], uint32(len(w.b)-w.start)) }

// attr appends an attribute.
func (w *builder) attr(kind uint16, value []byte) { w.b = nlmsg.AppendAttr(w.b, kind, value) }

// attr32 appends an attribute that holds a 32-bit integer.
func (w *builder) attr32(kind uint16, value uint32) { w.b = nlmsg.AppendAttr32(w.b, kind, value) }

// nest starts an attribute that holds attributes; unnest ends it.
func (w *builder) nest(kind uint16) (at int) {
	at = len(w.b)
	w.attr(kind, nil)
	return at
}

func (w *builder) unnest(at int) { native.PutUint16(w.b[at:], uint16(len(w.b)-at)) }
