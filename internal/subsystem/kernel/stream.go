// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// A stream is a netlink socket that receives the kernel's notifications.
//
// The kernel holds unread notifications in the socket's buffer, about 1 KiB each
// whatever their length, and drops them when it is full. So a goroutine takes
// them out at once, many per system call, into a backlog of bare bytes that is
// ten times denser and waits while the listener works. Nothing runs while the
// kernel is silent.
type stream struct {
	file *os.File
	raw  syscall.RawConn

	mu      sync.Mutex
	batch   [recvBatch]recvMessage
	vectors [recvBatch]unix.Iovec
	buffers []byte
	backlog [][]byte // notifications in the kernel's order, whole messages per chunk
	size    int      // bytes in backlog
	lost    bool     // notifications were dropped since the last take
	failed  error

	wake chan struct{} // one token when the backlog is not empty
}

// recvMessage is struct mmsghdr of recvmmsg(2). It ends as C's does, by the alignment of its header: an empty array
// for the padding would make it longer on 32-bit machines.
type recvMessage struct {
	header unix.Msghdr
	length uint32
}

const (
	recvBatch    = 64       // notifications per system call
	recvLength   = 16 << 10 // longest notification: routes with hundreds of next hops
	chunkSize    = 256 << 10
	backlogLimit = 192 << 20 // bytes; beyond, a new dump is cheaper than the backlog
)

// The notification groups of rtnetlink that the watcher joins (RTNLGRP_).
var streamGroups = []int{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
	unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF,
}

func newStream() (*stream, error) {
	size, err := streamBuffer()
	if err != nil {
		return nil, err
	}
	file, err := nlmsg.Listen(unix.NETLINK_ROUTE, size, nil, streamGroups...)
	if err != nil {
		return nil, fmt.Errorf("listen to the kernel: %w", err)
	}
	s := &stream{file: file, wake: make(chan struct{}, 1), buffers: make([]byte, recvBatch*recvLength)}
	if s.raw, err = file.SyscallConn(); err != nil {
		s.close()
		return nil, err
	}
	for i := range s.batch {
		s.vectors[i].Base = &s.buffers[i*recvLength]
		s.vectors[i].SetLen(recvLength)
		s.batch[i].header.Iov = &s.vectors[i]
		s.batch[i].header.SetIovlen(1)
	}
	return s, nil
}

// streamBuffer is how many bytes the kernel may hold for us: used only while we are late, so a
// generous part of the memory. A quarter of a GiB holds about half a million notifications.
func streamBuffer() (int, error) {
	memory, err := memoryBytes()
	return int(min(max(memory/32, 8<<20), 256<<20)), err
}

// memoryBytes is the memory of the machine.
func memoryBytes() (uint64, error) {
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return 0, fmt.Errorf("size of memory: %w", err)
	}
	return uint64(host.Totalram) * uint64(host.Unit), nil
}

func (s *stream) close() { s.file.Close() }

// run takes notifications out of the socket until ctx ends or the socket fails.
func (s *stream) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	err := s.raw.Read(func(uintptr) bool {
		return s.pull() != nil // false: wait until there is more
	})
	s.mu.Lock()
	if s.failed == nil {
		s.failed = err
	}
	s.mu.Unlock()
	s.signal()
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// pull moves all that the socket holds into the backlog. The error is of a broken socket.
func (s *stream) pull() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, errno := s.receive()
		switch errno {
		case 0:
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
			continue
		case unix.ENOBUFS:
			s.drop()
			continue
		default:
			s.failed = os.NewSyscallError("recvmmsg", errno)
			return s.failed
		}
		for i := range n {
			s.keep(i)
		}
		s.signal()
	}
}

// receive fills the batch.
func (s *stream) receive() (n int, errno unix.Errno) {
	err := s.raw.Control(func(fd uintptr) {
		var got uintptr
		got, _, errno = unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&s.batch[0])), recvBatch, unix.MSG_DONTWAIT, 0, 0)
		n = int(got)
	})
	if err != nil {
		return 0, unix.EBADF
	}
	return n, errno
}

// keep appends one received notification to the backlog.
func (s *stream) keep(i int) {
	m := &s.batch[i]
	if m.header.Flags&unix.MSG_TRUNC != 0 || s.size > backlogLimit {
		s.drop()
		return
	}
	b := s.buffers[i*recvLength:][:m.length]
	last := len(s.backlog) - 1
	if last < 0 || len(s.backlog[last])+len(b) > cap(s.backlog[last]) {
		// Small first: most wakeups are about one notification.
		size := max(4<<10, len(b))
		if last >= 0 {
			size = chunkSize
		}
		s.backlog = append(s.backlog, make([]byte, 0, size))
		last++
	}
	s.backlog[last] = append(s.backlog[last], b...)
	s.size += len(b)
}

// drop gives the backlog up: only a new dump can tell what the state is.
func (s *stream) drop() {
	s.backlog, s.size, s.lost = nil, 0, true
	s.signal()
}

// take returns the backlog and whether notifications before it were lost.
func (s *stream) take() (backlog [][]byte, lost bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	backlog, lost, err = s.backlog, s.lost, s.failed
	s.backlog, s.size, s.lost = nil, 0, false
	return backlog, lost, err
}

// touches pulls and says whether the backlog has a route notification of that family: the family
// changed since the last take.
func (s *stream) touches(family uint8) bool {
	if s.pull() != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.backlog {
		for len(b) > 0 {
			m, rest, err := nlmsg.Next(b)
			if err != nil {
				return true
			}
			if (m.Type == unix.RTM_NEWROUTE || m.Type == unix.RTM_DELROUTE) && len(m.Body) > 0 && m.Body[0] == family {
				return true
			}
			b = rest
		}
	}
	return s.lost
}
