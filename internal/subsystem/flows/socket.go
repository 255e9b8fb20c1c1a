// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Netlink (RFC 3549), as little as is needed here: a request, and its answer walked in place.
// The netlink library copies a dump as a whole and leaves out conntrack's status, so this
// reads it in pieces of at most 32 KiB, which is what the kernel sends.

const (
	answerBuffer  = 64 << 10
	answerTimeout = 30 * time.Second
	attrTypeMask  = 0x3fff // NLA_TYPE_MASK: without NLA_F_NESTED and NLA_F_NET_BYTEORDER
)

var native = binary.NativeEndian

// socket asks the kernel. Not for several goroutines at once.
type socket struct {
	fd  int
	seq uint32
	in  []byte
	out []byte
}

func dial(protocol int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	s := &socket{fd: fd, in: make([]byte, answerBuffer)}
	timeout := unix.NsecToTimeval(int64(answerTimeout))
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	if err != nil {
		s.close()
		return nil, fmt.Errorf("set up netlink socket: %w", err)
	}
	return s, nil
}

func (s *socket) close() { unix.Close(s.fd) }

// ask sends one request and calls visit for each message of the answer, whose bytes are valid
// until visit returns. With NLM_F_DUMP among the flags the answer has any number of messages, else one.
func (s *socket) ask(ctx context.Context, kind, flags uint16, body []byte, visit func([]byte) error) error {
	s.seq++
	s.out = native.AppendUint32(s.out[:0], uint32(unix.NLMSG_HDRLEN+len(body)))
	s.out = native.AppendUint16(s.out, kind)
	s.out = native.AppendUint16(s.out, flags|unix.NLM_F_REQUEST)
	s.out = native.AppendUint32(s.out, s.seq)
	s.out = native.AppendUint32(s.out, 0)
	s.out = append(s.out, body...)
	if err := unix.Sendto(s.fd, s.out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		in, err := s.receive()
		if err != nil {
			return err
		}
		if done, err := s.walk(in, flags&unix.NLM_F_DUMP != 0, visit); done || err != nil {
			return err
		}
	}
}

// receive reads what the kernel sent next.
func (s *socket) receive() ([]byte, error) {
	for {
		n, _, flags, _, err := unix.Recvmsg(s.fd, s.in, nil, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("no answer from the kernel in %s", answerTimeout)
		case err != nil:
			return nil, os.NewSyscallError("recvmsg", err)
		case flags&unix.MSG_TRUNC != 0:
			return nil, fmt.Errorf("netlink message longer than %d bytes", len(s.in))
		}
		return s.in[:n], nil
	}
}

var errShort = errors.New("netlink message ends too early")

// walk visits the messages that were read at once; done after the last of the answer.
func (s *socket) walk(in []byte, dump bool, visit func([]byte) error) (done bool, err error) {
	for len(in) > 0 {
		if len(in) < unix.NLMSG_HDRLEN {
			return true, errShort
		}
		length := int(native.Uint32(in))
		if length < unix.NLMSG_HDRLEN || length > len(in) {
			return true, errShort
		}
		kind, seq, body := native.Uint16(in[4:]), native.Uint32(in[8:]), in[unix.NLMSG_HDRLEN:length]
		in = in[min(align(length), len(in)):]
		switch {
		case seq != s.seq: // of a question that was given up
		case kind == unix.NLMSG_DONE, kind == unix.NLMSG_ERROR:
			if len(body) >= 4 && native.Uint32(body) != 0 {
				return true, unix.Errno(-int32(native.Uint32(body)))
			}
			return true, nil
		default:
			if err := visit(body); err != nil || !dump {
				return true, err
			}
		}
	}
	return false, nil
}

// align rounds a netlink length up to four bytes.
func align(n int) int { return (n + 3) &^ 3 }

// attributes are the attributes in b by type. What is cut off at the end is left out.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			length := int(native.Uint16(b))
			if length < unix.SizeofNlAttr || length > len(b) {
				return
			}
			if !yield(native.Uint16(b[2:])&attrTypeMask, b[unix.SizeofNlAttr:length]) {
				return
			}
			b = b[min(align(length), len(b)):]
		}
	}
}
