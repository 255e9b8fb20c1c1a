// SPDX-License-Identifier: Apache-2.0

package dhcprelay

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/sendip"
)

// serve relays for one interface until ctx ends.
func serve(ctx context.Context, name string, s Settings, n *counts, up func()) error {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("%w (%w)", unix.ENODEV, err)
	}
	hosts, err := open(ctx, netip.IPv4Unspecified(), name)
	if err != nil {
		return err
	}
	defer hosts.Close()
	servers, err := open(ctx, s.Address, s.VRF)
	if err != nil {
		return err
	}
	defer servers.Close()
	broken := make(chan error, 2)
	go func() {
		var left bucket
		broken <- each(hosts, func(b []byte, _ netip.Addr) {
			if !left.take(time.Now()) {
				n.request(tooMany)
				return
			}
			n.request(ask(servers, &s, b))
		})
	}()
	go func() {
		broken <- each(servers, func(b []byte, from netip.Addr) { n.answer(tell(i.Index, &s, b, from)) })
	}()
	up()
	select {
	case <-ctx.Done():
		return nil
	case err := <-broken:
		return err
	}
}

// ask passes on what a host asks.
func ask(servers *net.UDPConn, s *Settings, b []byte) reason {
	out, why := s.forServers(b)
	if why != "" {
		return why
	}
	why = failedServer
	for _, a := range s.Servers {
		if _, err := servers.WriteToUDPAddrPort(out, netip.AddrPortFrom(a, serverPort)); err == nil {
			why = ""
		}
	}
	return why
}

// tell passes on what a server answers, by the interface with an index.
func tell(index int, s *Settings, b []byte, from netip.Addr) reason {
	out, to, why := s.forHost(b, from)
	if why != "" {
		return why
	}
	const ttl = 64
	packet := sendip.UDP(netip.AddrPortFrom(s.Address, serverPort), netip.AddrPortFrom(to.address, clientPort), ttl, out)
	if err := sendip.Send(index, to.mac, packet); err != nil {
		return undelivered
	}
	return ""
}

// A flood of one interface's hosts must not become one of the servers: so many a second, and so many at once.
const (
	perSecond = 500
	burst     = 1000
)

// bucket is what is left to pass on.
type bucket struct {
	left float64
	last time.Time
}

// take says whether one more may pass.
func (b *bucket) take(now time.Time) bool {
	b.left = min(burst, b.left+now.Sub(b.last).Seconds()*perSecond)
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// each calls do for each message until the socket is closed.
func each(conn *net.UDPConn, do func(b []byte, from netip.Addr)) error {
	buffer := make([]byte, mostLength+1)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return fmt.Errorf("wait for DHCP messages: %w", err)
		}
		do(buffer[:n], from.Addr().Unmap())
	}
}

// open opens a socket on port 67 of an address. With a device it hears only what comes in by that, or by a VRF's interfaces.
func open(ctx context.Context, address netip.Addr, device string) (*net.UDPConn, error) {
	var failed error
	set := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		if err := c.Control(func(fd uintptr) { failed = options67(int(fd), device) }); err != nil {
			return err
		}
		return failed
	}}
	conn, err := set.ListenPacket(ctx, "udp4", netip.AddrPortFrom(address, serverPort).String())
	if err != nil {
		return nil, fmt.Errorf("open a socket for DHCP: %w", err)
	}
	return conn.(*net.UDPConn), nil
}

// options67 are those of a socket on port 67, which a DHCP server of other interfaces has, too.
func options67(fd int, device string) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if device == "" {
		return nil
	}
	return unix.BindToDevice(fd, device)
}
