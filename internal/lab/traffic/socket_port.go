// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketPort is a packet socket with a queue of frames that go out in one call.
type socketPort struct {
	ifindex int
	socket  int
	held    int // frames in the queue
	streams []uint8
	buffers [][maxFrame]byte
	pieces  []unix.Iovec
	calls   []messageHeader
}

// messageHeader is struct mmsghdr of sendmmsg(2).
type messageHeader struct {
	header unix.Msghdr
	sent   uint32
}

// openPort opens a socket that sends on a port of the calling thread's namespace.
func openPort(ifindex, batch int) (*socketPort, error) {
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	p := &socketPort{
		ifindex: ifindex, socket: s, streams: make([]uint8, batch), buffers: make([][maxFrame]byte, batch),
		pieces: make([]unix.Iovec, batch), calls: make([]messageHeader, batch),
	}
	for i := range p.calls {
		p.pieces[i].Base = &p.buffers[i][0]
		p.calls[i].header.Iov = &p.pieces[i]
		p.calls[i].header.SetIovlen(1)
	}
	err = unix.SetsockoptInt(s, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
	if err == nil {
		err = unix.Bind(s, &unix.SockaddrLinklayer{Ifindex: ifindex})
	}
	if err != nil {
		unix.Close(s) //nolint:errcheck // the first error is told
		return nil, fmt.Errorf("packet socket on port with index %d: %w", ifindex, err)
	}
	return p, nil
}

// take adds a frame to the queue and returns its memory. The queue must not be full.
func (p *socketPort) take(stream uint8, bytes int) []byte {
	i := p.held
	p.held++
	p.streams[i] = stream
	p.pieces[i].SetLen(bytes)
	return p.buffers[i][:bytes]
}

// send sends the queue from a frame on and returns how many the device took. When
// it is not all, the error says why, or the next call will.
func (p *socketPort) send(from int) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(p.socket), uintptr(unsafe.Pointer(&p.calls[from])), uintptr(p.held-from), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// awaitRoom waits until the socket takes frames again, at most a millisecond: a busy device does not tell when it has room.
func (p *socketPort) awaitRoom() {
	unix.Poll([]unix.PollFd{{Fd: int32(p.socket), Events: unix.POLLOUT}}, 1) //nolint:errcheck // the next sending tells
}
