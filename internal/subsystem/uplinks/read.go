// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
	"minne/internal/base/nlmsg"
)

// observed is what stands in the kernel.
type observed struct {
	rules  [2][2]bool // by family: the one that passes over, the one for Table
	routes [2]map[route]bool
	links  map[string]linkState
	policy [2]map[placedRule]bool
	tables [2]map[uint32]map[route]bool // those of uplinks that rules of policy routing choose
}

type linkState struct {
	index    int
	up       bool
	grouped  bool
	networks []netip.Prefix
	own      []netip.Addr
}

// look reads what stands in the kernel.
func look(ctx context.Context, names map[string]bool, policy []PolicyRule) (o observed, err error) {
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE, unix.NETLINK_GET_STRICT_CHK, unix.NETLINK_EXT_ACK)
	if err != nil {
		return o, err
	}
	defer s.Close()
	for which, family := range families {
		if o.rules[which], err = readRules(ctx, s, family); err != nil {
			return o, fmt.Errorf("reading the rules: %w", err)
		}
		if o.routes[which], err = readRoutes(ctx, s, family, Table); err != nil {
			return o, fmt.Errorf("reading table %d: %w", uint32(Table), err)
		}
		if err = o.readPolicy(ctx, s, which, tablesOf(policy)); err != nil {
			return o, fmt.Errorf("reading policy routing: %w", err)
		}
	}
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return o, fmt.Errorf("reading the links: %w", err)
	}
	o.links = map[string]linkState{}
	for _, l := range links {
		a := l.Attrs()
		if !names[a.Name] && a.Group != Group {
			continue
		}
		state := linkState{index: a.Index, up: a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0, grouped: a.Group == Group}
		addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(l, unix.AF_UNSPEC) })
		if err != nil {
			return o, fmt.Errorf("reading the addresses of %s: %w", a.Name, err)
		}
		for _, one := range addresses {
			ip, ok := netip.AddrFromSlice(one.IP)
			bits, _ := one.Mask.Size()
			if ip = ip.Unmap(); !ok || ip.IsLinkLocalUnicast() {
				continue
			}
			state.own = append(state.own, ip)
			// An IPv6 address in doubt has no network yet; one with a peer has none of its own.
			if bits < ip.BitLen() && one.Peer == nil && one.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED|unix.IFA_F_NOPREFIXROUTE) == 0 ||
				bits < ip.BitLen() && one.Peer != nil && one.Peer.IP.Equal(one.IP) && one.Flags&unix.IFA_F_NOPREFIXROUTE == 0 {
				state.networks = append(state.networks, netip.PrefixFrom(ip, bits).Masked())
			}
		}
		o.links[a.Name] = state
	}
	return o, nil
}

func readRules(ctx context.Context, s *nlmsg.Socket, family uint8) (found [2]bool, err error) {
	body := make([]byte, 12)
	body[0] = family
	_, err = s.Ask(ctx, unix.RTM_GETRULE, unix.NLM_F_DUMP, body, func(m nlmsg.Message) error {
		if len(m.Body) < 12 || m.Body[0] != family {
			return nil
		}
		var priority, table uint32
		pass := uint32(1<<32 - 1)
		for kind, value := range nlmsg.Attributes(m.Body[12:]) {
			if len(value) < 4 {
				continue
			}
			switch kind {
			case fraPriority:
				priority = native.Uint32(value)
			case fraTable:
				table = native.Uint32(value)
			case fraSuppressIfGroup:
				pass = native.Uint32(value)
			}
		}
		switch {
		case priority == priorityPass && table == unix.RT_TABLE_MAIN && pass == Group:
			found[0] = true
		case priority == priorityBack && table == Table:
			found[1] = true
		}
		return nil
	})
	return found, err
}

// readRoutes reads the routes of a table.
func readRoutes(ctx context.Context, s *nlmsg.Socket, family uint8, of uint32) (map[route]bool, error) {
	found := map[route]bool{}
	body := make([]byte, unix.SizeofRtMsg)
	body[0] = family
	body = nlmsg.AppendAttr32(body, unix.RTA_TABLE, of)
	_, err := s.Ask(ctx, unix.RTM_GETROUTE, unix.NLM_F_DUMP, body, func(m nlmsg.Message) error {
		if m.Type != unix.RTM_NEWROUTE || len(m.Body) < unix.SizeofRtMsg {
			return nil
		}
		var r route
		var table uint32
		dst := netip.Addr{}
		for kind, value := range nlmsg.Attributes(m.Body[unix.SizeofRtMsg:]) {
			switch kind {
			case unix.RTA_TABLE:
				table = native.Uint32(value)
			case unix.RTA_DST:
				dst, _ = netip.AddrFromSlice(value)
			case unix.RTA_GATEWAY:
				r.Gateway, _ = netip.AddrFromSlice(value)
			case unix.RTA_OIF:
				r.Index = int(native.Uint32(value))
			}
		}
		if table != of {
			return nil
		}
		if of != Table {
			r.Table = of
		}
		if dst.IsValid() {
			r.Prefix = netip.PrefixFrom(dst, int(m.Body[1]))
		}
		found[r] = true
		return nil
	})
	if errors.Is(err, unix.ENOENT) {
		return found, nil
	}
	return found, err
}
