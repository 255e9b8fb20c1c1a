// SPDX-License-Identifier: Apache-2.0

package irdp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/advertising"
	"minne/internal/base/sendip"
	"minne/internal/subsystem/services/resident"
)

// responseDelay is at most between a solicitation and its answer (RFC 1256, section 5).
const responseDelay = 2 * time.Second

// The groups (section 3), and the MAC address of the hosts' (RFC 1112, section 6.4).
var (
	allHosts    = netip.AddrFrom4([4]byte{224, 0, 0, 1})
	allHostsMAC = [6]byte{0x01, 0x00, 0x5e, 0x00, 0x00, 0x01}
	allRouters  = [4]byte{224, 0, 0, 2}
)

// advertise serves one interface.
func advertise(ctx context.Context, name string, s Settings, up func()) error {
	conn, link, err := listen(ctx, name)
	if err != nil {
		return err
	}
	defer conn.Close()
	send := func(lifetime time.Duration) error {
		return sendip.Send(link, allHostsMAC, sendip.Packet{Source: s.Addresses[0].Addr(), Destination: allHosts, Protocol: unix.IPPROTO_ICMP, TTL: 1, Payload: message(s, lifetime)})
	}
	asked := make(chan struct{}, 1)
	broken := make(chan error, 1)
	go func() { broken <- hear(conn, s, asked) }()
	up()
	c := advertising.Clock{Interval: s.Interval, Delay: responseDelay, Next: time.Now()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if context.Cause(ctx) == resident.ErrRemoved {
				return send(0) // hosts take another router (section 4.3)
			}
			return nil
		case err := <-broken:
			return err
		case <-asked:
			c.Solicited(time.Now())
		case <-timer.C:
			if err := send(s.Lifetime); err != nil {
				return err
			}
			c.Advertised(time.Now())
		}
		timer.Reset(time.Until(c.Next))
	}
}

// hear tells of each solicitation, until the socket is closed.
func hear(conn *net.IPConn, s Settings, asked chan<- struct{}) error {
	b := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFromIP(b)
		if err != nil {
			return fmt.Errorf("wait for solicitations: %w", err)
		}
		if a, ok := netip.AddrFromSlice(from.IP); ok && asks(b[:n], a.Unmap(), s) {
			select {
			case asked <- struct{}{}:
			default: // one is waiting
			}
		}
	}
}

// listen opens a socket for solicitations on one interface alone, and returns the interface's index.
func listen(ctx context.Context, name string) (*net.IPConn, int, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, 0, fmt.Errorf("%w (%w)", unix.ENODEV, err)
	}
	var failed error
	set := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		if err := c.Control(func(fd uintptr) { failed = options(int(fd), i) }); err != nil {
			return err
		}
		return failed
	}}
	conn, err := set.ListenPacket(ctx, "ip4:icmp", "0.0.0.0")
	if err != nil {
		return nil, 0, fmt.Errorf("open a socket for router discovery: %w", err)
	}
	return conn.(*net.IPConn), i.Index, nil
}

// options are those of the socket. Bound to the interface, it also hears where that is in a VRF.
func options(fd int, i *net.Interface) error {
	if err := unix.BindToDevice(fd, i.Name); err != nil {
		return err
	}
	const filter = 1 // ICMP_FILTER: the types whose bits are set stay out
	all := uint32(1<<solicitation) ^ 0xffffffff
	if err := unix.SetsockoptInt(fd, unix.SOL_RAW, filter, int(int32(all))); err != nil {
		return err
	}
	group := unix.IPMreqn{Multiaddr: allRouters, Ifindex: int32(i.Index)}
	return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &group)
}
