// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An asker is a rtnetlink socket for questions: dumps and acknowledged requests.
//
// The kernel fills a dump into messages of at most 32 KiB per read, whatever
// larger buffer is offered, so that is what one read takes. Not for use by
// several goroutines at once.
type asker struct {
	fd  int
	seq uint32
	in  []byte
	out builder
}

const (
	askBuffer     = 64 << 10
	answerTimeout = 30 * time.Second // a kernel busy flushing a full table answers late, never this late
)

// newAsker opens the socket, with strict checking of dump requests: filters in
// the request are then done by the kernel, and misspelt ones refused.
func newAsker() (*asker, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	a := &asker{fd: fd, in: make([]byte, askBuffer)}
	if err := a.setUp(); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *asker) setUp() error {
	if err := unix.Bind(a.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind netlink socket: %w", err)
	}
	for _, option := range []int{unix.NETLINK_GET_STRICT_CHK, unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK} {
		if err := unix.SetsockoptInt(a.fd, unix.SOL_NETLINK, option, 1); err != nil {
			return fmt.Errorf("netlink socket option %d: %w", option, err)
		}
	}
	timeout := unix.NsecToTimeval(int64(answerTimeout))
	if err := unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return fmt.Errorf("netlink socket timeout: %w", err)
	}
	return nil
}

func (a *asker) close() { unix.Close(a.fd) }

// receive reads what the kernel sent next.
func (a *asker) receive() ([]byte, error) {
	for {
		n, _, flags, _, err := unix.Recvmsg(a.fd, a.in, nil, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("no answer from the kernel in %s", answerTimeout)
		case err != nil:
			return nil, os.NewSyscallError("recvmsg", err)
		case flags&unix.MSG_TRUNC != 0:
			return nil, fmt.Errorf("netlink message longer than %d bytes", len(a.in))
		}
		return a.in[:n], nil
	}
}

func (a *asker) send(b []byte) error {
	return os.NewSyscallError("sendto", unix.Sendto(a.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

// dump asks for all objects of a kind and calls each for every one. fill writes
// the request's body and filters. intact is false when the kernel says that
// objects changed meanwhile in a way that may have hidden some.
func (a *asker) dump(ctx context.Context, kind uint16, bodyLen int, fill func(body []byte, w *builder),
	each func(m message) error) (intact bool, err error) {
	a.seq++
	a.out.b = a.out.b[:0]
	body := a.out.begin(kind, unix.NLM_F_REQUEST|unix.NLM_F_DUMP, a.seq, bodyLen)
	fill(body, &a.out)
	a.out.end()
	if err := a.send(a.out.b); err != nil {
		return false, err
	}
	intact = true
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		b, err := a.receive()
		if err != nil {
			return false, err
		}
		for len(b) > 0 {
			var m message
			if m, b, err = nextMessage(b); err != nil {
				return false, err
			}
			if m.Seq != a.seq {
				continue // left over from a dump that was given up
			}
			if m.Flags&unix.NLM_F_DUMP_INTR != 0 {
				intact = false
			}
			switch m.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				return intact, kernelError(m)
			case unix.NLMSG_NOOP:
			default:
				if err := each(m); err != nil {
					return false, err
				}
			}
		}
	}
}

// request sends one message and returns the kernel's answer to it.
func (a *asker) request(kind, flags uint16, bodyLen int, fill func(body []byte, w *builder)) error {
	a.seq++
	a.out.b = a.out.b[:0]
	body := a.out.begin(kind, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags, a.seq, bodyLen)
	fill(body, &a.out)
	a.out.end()
	if err := a.send(a.out.b); err != nil {
		return err
	}
	for {
		b, err := a.receive()
		if err != nil {
			return err
		}
		for len(b) > 0 {
			var m message
			if m, b, err = nextMessage(b); err != nil {
				return err
			}
			if m.Seq == a.seq && m.Type == unix.NLMSG_ERROR {
				return kernelError(m)
			}
		}
	}
}
