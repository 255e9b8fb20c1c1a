// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/sendip"
)

// Path is how large packets may be on the way to a host.
type Path struct {
	MTU  int  // bytes of the largest packet that was answered, with its IP header
	Told bool // a router on the way said so (RFC 1191, RFC 8201); else larger packets vanish, if MTU is below that of the link
}

const (
	echoTries = 2
	echoWait  = time.Second
)

// sizes are the packets that are tried when one of the link's MTU is lost: what links and tunnels leave, in bytes.
var sizes = []int{576, 1280, 1400, 1420, 1450, 1460, 1480, 1492, 1500}

// PathMTU sends echo requests that must not be split, by an interface to a host. ErrSilent: the host does not answer even small ones.
func PathMTU(ctx context.Context, device string, host netip.Addr, mtu int) (Path, error) {
	e, err := openEcho(ctx, device, host)
	if err != nil {
		return Path{}, err
	}
	defer e.conn.Close()
	defer context.AfterFunc(ctx, func() { e.conn.Close() })()
	const small = 84 // as ping sends
	if ok, _, err := e.passes(small); err != nil || !ok {
		return Path{}, errOr(err)
	}
	ok, told, err := e.passes(mtu)
	if err != nil || ok {
		return Path{MTU: mtu}, err
	}
	if told > 0 && told < mtu {
		return Path{MTU: told, Told: true}, nil
	}
	least, best := small, small
	tried := slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return n <= least || n >= mtu })
	for len(tried) > 0 { // the largest that passes, by halves
		middle := len(tried) / 2
		ok, told, err := e.passes(tried[middle])
		switch {
		case err != nil:
			return Path{}, err
		case told > 0:
			return Path{MTU: told, Told: true}, nil
		case ok:
			best, tried = tried[middle], tried[middle+1:]
		default:
			tried = tried[:middle]
		}
	}
	return Path{MTU: best}, nil
}

func errOr(err error) error {
	if err != nil {
		return err
	}
	return ErrSilent
}

// echo is a socket that pings one host.
type echo struct {
	conn   *net.IPConn
	host   netip.Addr
	id     uint16
	number uint16
}

// Types of ICMP and ICMPv6 (RFC 792, RFC 4443).
const (
	echoReply4, unreachable4, echoRequest4 = 0, 3, 8
	tooBig6, echoRequest6, echoReply6      = 2, 128, 129
	fragmentationNeeded                    = 4 // code of unreachable4
	echoHeader                             = 8 // bytes
)

func openEcho(ctx context.Context, device string, host netip.Addr) (*echo, error) {
	network, any := "ip4:icmp", "0.0.0.0"
	if host.Is6() {
		network, any = "ip6:ipv6-icmp", "::"
	}
	bind := onDevice(device)
	listen := net.ListenConfig{Control: func(n, a string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { // what is too big is lost or told, not split; what was told before does not count
			if host.Is6() {
				failed = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE),
					unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
				return
			}
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		})
		return errors.Join(err, failed, bind(n, a, c))
	}}
	conn, err := listen.ListenPacket(ctx, network, any)
	if err != nil {
		return nil, fmt.Errorf("open a socket for echo requests: %w", err)
	}
	var id [2]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &echo{conn: conn.(*net.IPConn), host: host, id: binary.BigEndian.Uint16(id[:])}, nil
}

// passes says whether a packet of so many bytes is answered, or which size a router on the way says that it takes.
func (e *echo) passes(size int) (ok bool, told int, err error) {
	for range echoTries {
		e.number++
		if _, err := e.conn.WriteToIP(e.request(size), &net.IPAddr{IP: e.host.AsSlice(), Zone: e.host.Zone()}); err != nil {
			if errors.Is(err, unix.EMSGSIZE) {
				return false, 0, nil // of the link itself
			}
			return false, 0, fmt.Errorf("send an echo request to %s: %w", e.host, err)
		}
		if err := e.conn.SetReadDeadline(time.Now().Add(echoWait)); err != nil {
			return false, 0, err
		}
		b := make([]byte, 65536)
		for {
			n, from, err := e.conn.ReadFromIP(b)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return false, 0, fmt.Errorf("wait for an echo reply of %s: %w", e.host, err)
			}
			source, _ := netip.AddrFromSlice(from.IP)
			if ok, told := e.reads(b[:n], source.Unmap()); ok || told > 0 {
				return ok, told, nil
			}
		}
	}
	return false, 0, nil
}

// request is an echo request that makes a packet of so many bytes.
func (e *echo) request(size int) []byte {
	kind, header := byte(echoRequest4), 20
	if e.host.Is6() {
		kind, header = echoRequest6, 40
	}
	b := make([]byte, max(size-header, echoHeader))
	b[0] = kind
	binary.BigEndian.PutUint16(b[4:], e.id)
	binary.BigEndian.PutUint16(b[6:], e.number)
	if e.host.Is4() { // the kernel computes that of ICMPv6
		binary.BigEndian.PutUint16(b[2:], ^sendip.Sum(b))
	}
	return b
}

// reads says whether a message is the answer to the last request, or which MTU it tells about a packet of ours.
func (e *echo) reads(b []byte, from netip.Addr) (ok bool, told int) {
	if len(b) < echoHeader {
		return false, 0
	}
	ours := func(b []byte) bool { return len(b) >= 6 && binary.BigEndian.Uint16(b[4:]) == e.id }
	quoted := func(header, destination int) []byte { // the packet behind, if it went to the host
		packet := b[echoHeader:]
		if len(packet) < header {
			return nil
		}
		if a, _ := netip.AddrFromSlice(packet[destination : destination+e.host.BitLen()/8]); a != e.host.WithZone("") {
			return nil
		}
		return packet[header:]
	}
	switch {
	case e.host.Is4() && b[0] == echoReply4 || e.host.Is6() && b[0] == echoReply6:
		return from == e.host.WithZone("") && ours(b) && binary.BigEndian.Uint16(b[6:]) == e.number, 0
	case e.host.Is4() && b[0] == unreachable4 && b[1] == fragmentationNeeded && len(b) > echoHeader:
		if ours(quoted(max(int(b[echoHeader]&0x0f)*4, 20), 16)) {
			return false, int(binary.BigEndian.Uint16(b[6:]))
		}
	case e.host.Is6() && b[0] == tooBig6:
		if ours(quoted(40, 24)) {
			return false, int(binary.BigEndian.Uint32(b[4:]))
		}
	}
	return false, 0
}
