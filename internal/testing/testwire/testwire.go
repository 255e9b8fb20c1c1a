// SPDX-License-Identifier: Apache-2.0

// Package testwire is the far end of a router's ports: one packet socket that sends raw
// frames into them and captures all that comes out.
//
// Capture is a memory-mapped ring (packet(7), TPACKET_V2) with a slot for every
// frame of a window, so reading costs no system call.
package testwire

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	slotSize   = 16 << 10 // bytes; a jumbo frame fits
	blockSize  = 64 << 10
	Slots      = 2048 // frames that wait to be read
	frameAlign = 16   // TPACKET_ALIGNMENT
)

// Wire is such a socket.
type Wire struct {
	fd   int
	ring []byte
	next int // slot to read
}

// New opens the socket in the calling thread's namespace.
func New() (*Wire, error) {
	proto := binary.NativeEndian.Uint16([]byte{unix.ETH_P_ALL >> 8, unix.ETH_P_ALL & 0xff})
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(proto))
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	w := &Wire{fd: fd}
	options := []struct{ name, value int }{
		{unix.PACKET_VERSION, unix.TPACKET_V2}, {unix.PACKET_QDISC_BYPASS, 1}, {unix.PACKET_IGNORE_OUTGOING, 1},
	}
	for _, o := range options {
		if err = unix.SetsockoptInt(fd, unix.SOL_PACKET, o.name, o.value); err != nil {
			return nil, fmt.Errorf("packet socket option %d: %w", o.name, err)
		}
	}
	req := unix.TpacketReq{Block_size: blockSize, Block_nr: Slots * slotSize / blockSize, Frame_size: slotSize, Frame_nr: Slots}
	if err = unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return nil, fmt.Errorf("packet ring: %w", err)
	}
	if w.ring, err = unix.Mmap(fd, 0, Slots*slotSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map packet ring: %w", err)
	}
	return w, nil
}

// Close ends it.
func (w *Wire) Close() {
	unix.Munmap(w.ring)
	unix.Close(w.fd)
}

// Outgoing is a frame to send into the link of that ifindex.
type Outgoing struct {
	Link  int
	Frame []byte
}

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	header unix.Msghdr
	length uint32
	_      [4]byte
}

// Send sends the frames in order and tells which ones the link refused (too long for it).
func (w *Wire) Send(frames []Outgoing) (refused []int, err error) {
	messages := make([]mmsghdr, len(frames))
	vectors := make([]unix.Iovec, len(frames))
	links := make([]unix.RawSockaddrLinklayer, len(frames))
	for i, f := range frames {
		links[i] = unix.RawSockaddrLinklayer{Family: unix.AF_PACKET, Ifindex: int32(f.Link)}
		vectors[i].Base = &f.Frame[0]
		vectors[i].SetLen(len(f.Frame))
		h := &messages[i].header
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&links[i])), unix.SizeofSockaddrLinklayer
		h.Iov = &vectors[i]
		h.SetIovlen(1)
	}
	for at := 0; at < len(frames); {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(w.fd), uintptr(unsafe.Pointer(&messages[at])), uintptr(len(frames)-at), 0, 0, 0)
		switch errno {
		case 0:
			at += int(n)
		case unix.EINTR:
		case unix.ENOBUFS, unix.EMSGSIZE:
			refused = append(refused, at)
			at++
		default:
			return nil, fmt.Errorf("send frame of %d bytes: %w", len(frames[at].Frame), errno)
		}
	}
	return refused, nil
}

// Captured is a frame that came out of a link.
type Captured struct {
	Link  int
	Frame []byte
}

// tpacket2 is struct tpacket2_hdr; a struct sockaddr_ll follows at the next aligned offset.
type tpacket2 struct {
	status, length, captured uint32
	mac, net                 uint16
	sec, nsec                uint32
	tci, tpid                uint16
	_                        [4]byte
}

const linkOffset = (int(unsafe.Sizeof(tpacket2{})) + frameAlign - 1) &^ (frameAlign - 1)

// Read returns the next captured frame, waiting for it until the deadline. The
// bytes are a copy. A VLAN tag that the kernel took off is put back.
func (w *Wire) Read(deadline time.Time) (Captured, bool) {
	slot := w.ring[w.next*slotSize : (w.next+1)*slotSize]
	h := (*tpacket2)(unsafe.Pointer(&slot[0]))
	for h.status&unix.TP_STATUS_USER == 0 {
		left := time.Until(deadline)
		if left <= 0 {
			return Captured{}, false
		}
		poll := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		unix.Poll(poll, int(left.Milliseconds())+1)
	}
	address := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&slot[linkOffset]))
	bytes := slot[h.mac : int(h.mac)+int(h.captured)]
	c := Captured{Link: int(address.Ifindex)}
	if h.status&unix.TP_STATUS_VLAN_VALID != 0 {
		c.Frame = append(c.Frame, bytes[:12]...)
		c.Frame = binary.BigEndian.AppendUint16(c.Frame, h.tpid)
		c.Frame = binary.BigEndian.AppendUint16(c.Frame, h.tci)
		bytes = bytes[12:]
	}
	c.Frame = append(c.Frame, bytes...)
	h.status = unix.TP_STATUS_KERNEL
	w.next = (w.next + 1) % Slots
	return c, true
}

// Lost is how many frames the ring had no room for since the last call.
func (w *Wire) Lost() (uint32, error) {
	stats, err := unix.GetsockoptTpacketStats(w.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("packet socket statistics: %w", err)
	}
	return stats.Drops, nil
}
