// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// batch is messages that go to the kernel many at a time. The kernel takes each for itself, in their order, and goes on
// after one that it refuses: the first refusal is the error.
type batch struct{ messages [][]byte }

// chunk bounds what goes to the kernel at once, in messages: should it refuse all of them, its answers still fit.
const chunk = 100

func (b *batch) add(kind, flags uint16, link int, handle, parent uint32, attributes []byte) {
	body := make([]byte, messageLen, messageLen+len(attributes))
	native.PutUint32(body[4:], uint32(link))
	native.PutUint32(body[8:], handle)
	native.PutUint32(body[12:], parent)
	b.messages = append(b.messages, nlmsg.Append(nil, kind, flags|unix.NLM_F_REQUEST, 0, append(body, attributes...)))
}

// run sends what was added.
func (b *batch) run(ctx context.Context) error {
	if len(b.messages) == 0 {
		return nil
	}
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE, unix.NETLINK_EXT_ACK)
	if err != nil {
		return err
	}
	defer s.Close()
	var out []byte
	for from := 0; from < len(b.messages); from += chunk {
		part := b.messages[from:min(from+chunk, len(b.messages))]
		out = out[:0]
		for n, m := range part {
			s.Seq++
			native.PutUint32(m[8:], s.Seq)
			if n == len(part)-1 {
				native.PutUint16(m[6:], native.Uint16(m[6:])|unix.NLM_F_ACK)
			}
			out = append(out, m...)
		}
		if err := s.Send(out); err != nil {
			return err
		}
		if err := answers(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// answers waits for the answer to the last message that was sent, and returns the first refusal.
func answers(ctx context.Context, s *nlmsg.Socket) (refused error) {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, err := s.Receive()
		if err != nil {
			return fmt.Errorf("traffic control: %w", err)
		}
		for len(in) > 0 {
			var m nlmsg.Message
			if m, in, err = nlmsg.Next(in); err != nil {
				return err
			}
			if m.Type != unix.NLMSG_ERROR {
				continue
			}
			if err := m.Err(); err != nil && refused == nil {
				refused = err
			}
			if m.Seq == s.Seq {
				return refused
			}
		}
	}
}
