// SPDX-License-Identifier: Apache-2.0

package nlmsg

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAppendAndRead(t *testing.T) {
	body := AppendAttr([]byte{1, 2, 3, 4}, 5, []byte("abcde"))
	body = AppendAttr32(body, 6|unix.NLA_F_NESTED, 7)
	b := Append(nil, 16, unix.NLM_F_REQUEST, 8, body)
	b = Append(b, 17, 0, 9, nil)
	m, rest, err := Next(b)
	if err != nil || m.Type != 16 || m.Flags != unix.NLM_F_REQUEST || m.Seq != 8 || !bytes.Equal(m.Body, body) {
		t.Fatalf("%+v, %v", m, err)
	}
	read := map[uint16]string{}
	for kind, value := range Attributes(m.Body[4:]) {
		read[kind] = string(value)
	}
	if len(read) != 2 || read[5] != "abcde" || read[6] != string(native.AppendUint32(nil, 7)) {
		t.Errorf("attributes %q", read)
	}
	if m, rest, err = Next(rest); err != nil || m.Type != 17 || len(m.Body) != 0 || len(rest) != 0 {
		t.Errorf("%+v, %v, %d bytes left", m, err, len(rest))
	}
}

// TestDamagedMessages: what the kernel would never send does no harm.
func TestDamagedMessages(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	for range 100_000 {
		b := make([]byte, random.IntN(80))
		for i := range b {
			b[i] = byte(random.IntN(256) >> random.IntN(8)) // small numbers are lengths and types
		}
		for rest := b; len(rest) > 0; {
			m, after, err := Next(rest)
			if err != nil {
				break
			}
			if len(rest) < unix.NLMSG_HDRLEN || len(after) >= len(rest) {
				t.Fatalf("%x is taken for a message", rest)
			}
			for _, value := range Attributes(m.Body) {
				_ = bytes.Clone(value)
			}
			_ = m.Err()
			rest = after
		}
	}
}

// TestAsk reads a list, an acknowledgement, one answer and a refusal, and none of them is taken for the next question's.
func TestAsk(t *testing.T) {
	s, err := Dial(unix.NETLINK_ROUTE, unix.NETLINK_EXT_ACK)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lo := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(lo[4:], 1)
	nobody := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(nobody[4:], 0x7ffffff0)
	for _, c := range []struct {
		flags uint16
		body  []byte
		least int
		want  error
	}{{unix.NLM_F_DUMP, make([]byte, len(lo)), 1, nil}, {unix.NLM_F_ACK, lo, 1, nil}, {0, lo, 1, nil}, {0, nobody, 0, unix.ENODEV}, {0, lo, 1, nil}} {
		links := 0
		intact, err := s.Ask(context.Background(), unix.RTM_GETLINK, c.flags, c.body, func(m Message) error {
			if m.Type == unix.RTM_NEWLINK {
				links++
			}
			return nil
		})
		if !errors.Is(err, c.want) || !intact || links < c.least {
			t.Errorf("flags %#x: %d links, intact %v, %v, expected %v", c.flags, links, intact, err, c.want)
		}
	}
	if _, err := s.Ask(context.Background(), unix.RTM_GETLINK, unix.NLM_F_DUMP, lo, func(Message) error { return errors.New("enough") }); err == nil || err.Error() != "enough" {
		t.Errorf("given up: %v", err)
	}
	seen := 0
	if _, err := s.Ask(context.Background(), unix.RTM_GETLINK, 0, lo, func(Message) error { seen++; return nil }); err != nil || seen != 1 {
		t.Errorf("after one that was given up: %d answers, %v", seen, err)
	}
}
