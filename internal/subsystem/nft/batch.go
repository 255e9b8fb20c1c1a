// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// The kernel's own words, netlink (linux/netfilter/nf_tables.h), for what nft(8) is
// too slow for: it reads all elements of all sets before it does anything, a second
// for each 200,000. Numbers are in network byte order, lengths in the host's.

// message is one of netlink while it is written.
type message []byte

// newMessage begins a message of nf_tables, or about a batch.
func newMessage(kind, flags uint16, family byte) message {
	m := message(nlmsg.Append(nil, kind, flags, 0, nil)) // end fills in the length; nobody looks at the sequence
	resource := uint16(0)
	if kind < 1<<8 { // what opens and closes a batch names whose it is
		resource = unix.NFNL_SUBSYS_NFTABLES
	}
	m = append(m, family, unix.NFNETLINK_V0)
	return binary.BigEndian.AppendUint16(m, resource)
}

// attribute appends one, padded.
func (m message) attribute(kind uint16, value []byte) message {
	return nlmsg.AppendAttr(m, kind, value)
}

func (m message) text(kind uint16, value string) message {
	return m.attribute(kind, append([]byte(value), 0))
}

// nest opens an attribute that holds others; close closes it.
func (m message) nest(kind uint16) (message, int) {
	return m.attribute(kind|unix.NLA_F_NESTED, nil), len(m)
}

func (m message) close(at int) {
	binary.NativeEndian.PutUint16(m[at:], uint16(len(m)-at))
}

// end fills in the length.
func (m message) end() message {
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	return m
}

// kindOf is the type of a message of nf_tables.
func kindOf(message uint16) uint16 { return unix.NFNL_SUBSYS_NFTABLES<<8 | message }

// talk is a socket to the kernel's packet filter.
type talk struct{ fd int }

func dial() (talk, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return talk{}, fmt.Errorf("open netlink to the packet filter: %w", err)
	}
	// Answers wait when they are read; none at all is an error rather than a daemon that hangs.
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	return talk{fd}, os.NewSyscallError("bound the wait for the packet filter", err)
}

func (t talk) close() { _ = unix.Close(t.fd) }

// send hands messages to the kernel, which has done what they ask for when it returns; its answers
// wait then.
func (t talk) send(messages []byte) error {
	if len(messages) > 100_000 { // as much as fits into a socket anyway
		if err := unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*len(messages)); err != nil {
			return os.NewSyscallError("enlarge the socket's buffer for a batch", err)
		}
	}
	return os.NewSyscallError("send", unix.Sendto(t.fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

// answers calls do with each message that waits, or comes, until one says that it is the last:
// an error, an acknowledgement or the end of a list.
func (t talk) answers(do func(kind uint16, body []byte)) error {
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(t.fd, buffer, 0)
		if err != nil {
			return os.NewSyscallError("receive", err)
		}
		for rest := buffer[:n]; len(rest) > 0; {
			var m nlmsg.Message
			if m, rest, err = nlmsg.Next(rest); err != nil {
				return err
			}
			switch {
			case m.Flags&unix.NLM_F_DUMP_INTR != 0:
				return unix.EINTR // the list has changed while it was read
			case m.Type == unix.NLMSG_DONE:
				return nil
			case m.Type == unix.NLMSG_ERROR:
				return m.Err()
			case len(m.Body) >= 4:
				do(m.Type, m.Body[4:])
			}
		}
	}
}
