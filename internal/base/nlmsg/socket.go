// SPDX-License-Identifier: Apache-2.0

package nlmsg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Socket asks: dumps and requests. Not for several goroutines at once.
//
// The kernel fills a dump into messages of at most 32 KiB per read, whatever larger buffer is offered, so that is what one
// read takes.
type Socket struct {
	FD  int
	Seq uint32 // of the last message that was sent
	in  []byte
	out []byte
}

const (
	askBuffer = 64 << 10
	patience  = 30 * time.Second // a kernel busy flushing a full table answers late, never this late
)

// Dial opens a socket of a protocol (NETLINK_) with options switched on.
func Dial(protocol int, options ...int) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	timeout := unix.NsecToTimeval(int64(patience))
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	for _, option := range options {
		err = errors.Join(err, os.NewSyscallError(fmt.Sprintf("netlink option %d", option), unix.SetsockoptInt(fd, unix.SOL_NETLINK, option, 1)))
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up netlink socket: %w", err)
	}
	return &Socket{FD: fd, in: make([]byte, askBuffer)}, nil
}

// Close ends the asking.
func (s *Socket) Close() { unix.Close(s.FD) }

// Send hands messages to the kernel.
func (s *Socket) Send(b []byte) error {
	return os.NewSyscallError("sendto", unix.Sendto(s.FD, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

// Receive reads what the kernel sent next. It is valid until the next call.
func (s *Socket) Receive() ([]byte, error) {
	for {
		n, _, flags, _, err := unix.Recvmsg(s.FD, s.in, nil, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("no answer from the kernel in %s", patience)
		case err != nil:
			return nil, os.NewSyscallError("recvmsg", err)
		case flags&unix.MSG_TRUNC != 0:
			return nil, fmt.Errorf("netlink message longer than %d bytes", len(s.in))
		}
		return s.in[:n], nil
	}
}

// Ask sends one request and calls each for every message of the answer, which is valid until each returns. With NLM_F_DUMP
// among the flags there are any number of messages, with NLM_F_ACK those up to the acknowledgement, else one. intact is
// false when the kernel says that objects changed meanwhile in a way that may have hidden some.
func (s *Socket) Ask(ctx context.Context, kind, flags uint16, body []byte, each func(m Message) error) (intact bool, err error) {
	s.Seq++
	s.out = Append(s.out[:0], kind, flags|unix.NLM_F_REQUEST, s.Seq, body)
	if err := s.Send(s.out); err != nil {
		return false, err
	}
	intact = true
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		b, err := s.Receive()
		if err != nil {
			return false, err
		}
		for len(b) > 0 {
			var m Message
			if m, b, err = Next(b); err != nil {
				return false, err
			}
			if m.Seq != s.Seq {
				continue // of a question that was given up
			}
			intact = intact && m.Flags&unix.NLM_F_DUMP_INTR == 0
			switch m.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return intact, m.Err()
			case unix.NLMSG_NOOP:
				continue
			}
			if err := each(m); err != nil {
				return false, err
			}
			if flags&(unix.NLM_F_DUMP|unix.NLM_F_ACK) == 0 {
				return intact, nil
			}
		}
	}
}

// Listen opens a socket of a protocol that hears what the kernel tells to groups from here on, as far as a filter lets it
// through; nil for all. room is how many bytes may wait before some are lost, which Read tells by ENOBUFS; 0 for the
// system's default. Closing the file ends a Read.
func Listen(protocol, room int, filter []unix.SockFilter, groups ...int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	// Forced beyond net.core.rmem_max; without the right to, as much as is allowed.
	if room > 0 && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) != nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, room)
	}
	if len(filter) > 0 {
		err = errors.Join(err, unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
	}
	err = errors.Join(err, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	for _, group := range groups {
		err = errors.Join(err, os.NewSyscallError(fmt.Sprintf("netlink group %d", group),
			unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group)))
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up netlink socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}
