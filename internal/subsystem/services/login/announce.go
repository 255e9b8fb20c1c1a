// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/advertising"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/resident"
)

// IPv6 hosts are told of the portal by option 37 of router advertisements (RFC 8910, section 2.3). dnsmasq 2.90, which sends our
// advertisements, does not know it. A router may spread its options over several advertisements (RFC 4861, section 6.2.3), so this one
// has that option alone; what its head says of the router is what dnsmasq says, because hosts take it from the latest.

// announcement is what hosts of an interface are told; the zero value is nothing.
type announcement struct {
	API            string
	Lifetime       time.Duration // of the default router
	Managed, Other bool          // flags of RFC 4861, section 4.2: addresses, and other settings, by DHCPv6
}

// RFC 4861: dnsmasq advertises every ten minutes, and a default router for three times as long.
const (
	announceEvery  = 10 * time.Minute
	routerLifetime = 3 * announceEvery
	announceDelay  = 500 * time.Millisecond // MAX_RA_DELAY_TIME
	announceAgain  = time.Second            // after a failure: link-local addresses take a while
	unrestricted   = "urn:ietf:params:capport:unrestricted"
)

// announcementOf is that of an interface.
func announcementOf(cfg *config.Config, iface string) (a announcement) {
	r := cfg.Services.RouterAdvertisements[iface]
	if a.API = cfg.PortalAPI(iface); r == nil || a.API == "" {
		return announcement{}
	}
	if r.DefaultRouter.On() {
		a.Lifetime = routerLifetime
	}
	if d := cfg.Services.DHCPv6[iface]; d != nil {
		a.Managed, a.Other = d.Pool.First.IsValid(), true
	}
	return a
}

// message is the advertisement, without the checksum, which the kernel fills in.
func (a announcement) message(uri string) []byte {
	b := make([]byte, 16, 16+8+len(uri)) // hop limit, reachable time and retransmission timer 0: not specified here
	b[0] = typeAdvertisement
	if a.Managed {
		b[5] |= 0x80
	}
	if a.Other {
		b[5] |= 0x40
	}
	binary.BigEndian.PutUint16(b[6:], uint16(a.Lifetime/time.Second))
	units := (2 + len(uri) + 7) / 8 // of eight bytes, filled up with zeros
	b = append(b, 37, byte(units))
	b = append(b, uri...)
	return append(b, make([]byte, units*8-2-len(uri))...)
}

const (
	typeSolicitation  = 133
	typeAdvertisement = 134
)

// announce tells hosts of an interface until ctx ends; when the login was removed, that there is no portal any more.
func (a announcement) announce(ctx context.Context, iface string) error {
	conn, index, err := routerSocket(ctx, iface)
	if err != nil {
		return fmt.Errorf("open a socket for router advertisements: %w", err)
	}
	defer conn.Close()
	to := &net.IPAddr{IP: net.IPv6linklocalallnodes, Zone: iface}
	send := func(uri string) error {
		if i, err := net.InterfaceByName(iface); err != nil || i.Index != index {
			return fmt.Errorf("%s: %w", iface, unix.ENODEV) // another link of the name
		}
		_, err := conn.WriteTo(a.message(uri), to)
		return err
	}
	asked, broken := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		b := make([]byte, 1500)
		for {
			n, _, err := conn.ReadFrom(b)
			if err != nil {
				broken <- err
				return
			}
			if n < 8 || b[0] != typeSolicitation {
				continue
			}
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	c := advertising.Clock{Interval: announceEvery, Delay: announceDelay, Next: time.Now()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if context.Cause(ctx) == resident.ErrRemoved {
				_ = send(unrestricted)
			}
			return nil
		case err := <-broken:
			return fmt.Errorf("wait for router solicitations: %w", err)
		case <-asked:
			c.Solicited(time.Now())
		case <-timer.C:
			switch err := send(a.API); {
			case errors.Is(err, unix.ENODEV):
				return err
			case err != nil:
				c.Next = time.Now().Add(announceAgain)
			default:
				c.Advertised(time.Now())
			}
		}
		timer.Reset(time.Until(c.Next))
	}
}

// routerSocket hears solicitations on one interface, and sends as routers do: with hop limit 255.
func routerSocket(ctx context.Context, iface string) (net.PacketConn, int, error) {
	i, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", iface, unix.ENODEV)
	}
	var filter unix.ICMPv6Filter
	for n := range filter.Data {
		filter.Data[n] = ^uint32(0) // what is set stays out
	}
	filter.Data[typeSolicitation>>5] &^= 1 << (typeSolicitation & 31)
	set := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (failed error) {
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(unix.BindToDevice(int(fd), iface),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0),
				unix.SetsockoptICMPv6Filter(int(fd), unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter),
				unix.SetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: [16]byte(net.IPv6linklocalallrouters), Interface: uint32(i.Index)}))
		})
		return errors.Join(err, failed)
	}}
	conn, err := set.ListenPacket(ctx, "ip6:ipv6-icmp", "::")
	return conn, i.Index, err
}
