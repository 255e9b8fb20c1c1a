// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/nft"
)

// Packet filters of others: chains of nftables at hooks that forwarded packets cross. What
// iptables-nft, Docker, firewalld and fail2ban make is of this kind too. A chain that hangs on no
// hook is reached from one that does; one without rules that accepts does nothing, and Debian's
// /etc/nftables.conf loads three of those.

// hook of a chain, as linux/netfilter.h and linux/netfilter/nf_tables.h number them.
const (
	hookPrerouting  = 0
	hookForward     = 2
	hookPostrouting = 4
	hookInetIngress = 5

	hookNetdevIngress = 0
	hookNetdevEgress  = 1

	hookDevices = 4 // NFTA_HOOK_DEVS
	deviceName  = 1 // NFTA_DEVICE_NAME
	devicePart  = 2 // NFTA_DEVICE_PREFIX (Linux 6.16): what a name begins with

	chainUses = 6 // NFTA_CHAIN_USE

	verdictDrop = 0 // NF_DROP
)

var hookNames = map[uint32]string{hookPrerouting: "prerouting", hookForward: "forward", hookPostrouting: "postrouting", hookInetIngress: "ingress"}

// bridgeHooks are the hooks of family bridge that packets cross which are routed (linux/netfilter_bridge.h).
var bridgeHooks = map[uint32]string{0: "prerouting", 1: "input", 3: "output", 4: "postrouting"}

// device is one that a chain hangs on, or all whose names begin so.
type device struct {
	name  string
	begin bool
}

// chain is a base chain.
type chain struct {
	family      byte
	table, name string
	hook        uint32
	devices     []device
	drops       bool // what no rule decides
	rules       uint32
}

// readFilters finds the base chains of others.
func readFilters() (State, error) {
	var s State
	kind := uint16(unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN)
	err := dump(unix.NETLINK_NETFILTER, kind, make([]byte, 4), func(body []byte) { // struct nfgenmsg, of all families
		if c, ok := decodeChain(body); ok && !nft.OwnTable(c.family, c.table) {
			c.note(&s)
		}
	})
	if missing(err) {
		return State{}, nil // a kernel without packet filter
	}
	return s, err
}

// decodeChain reads struct nfgenmsg and attributes. ok is false for chains that hang on no hook.
func decodeChain(body []byte) (c chain, ok bool) {
	if len(body) < 4 {
		return c, false
	}
	c.family = body[0]
	for kind, value := range nlmsg.Attributes(body[4:]) {
		switch kind {
		case unix.NFTA_CHAIN_TABLE:
			c.table = text(value)
		case unix.NFTA_CHAIN_NAME:
			c.name = text(value)
		case unix.NFTA_CHAIN_POLICY:
			c.drops = binary.BigEndian.Uint32(pad(value, 4)) == verdictDrop
		case chainUses:
			c.rules = binary.BigEndian.Uint32(pad(value, 4))
		case unix.NFTA_CHAIN_HOOK:
			ok = true
			c.decodeHook(value)
		}
	}
	return c, ok
}

func (c *chain) decodeHook(b []byte) {
	for kind, value := range nlmsg.Attributes(b) {
		switch kind {
		case unix.NFTA_HOOK_HOOKNUM:
			c.hook = binary.BigEndian.Uint32(pad(value, 4))
		case unix.NFTA_HOOK_DEV:
			c.devices = append(c.devices, device{name: text(value)})
		case hookDevices:
			for kind, name := range nlmsg.Attributes(value) {
				if kind == deviceName || kind == devicePart {
					c.devices = append(c.devices, device{text(name), kind == devicePart})
				}
			}
		}
	}
}

// note notes a chain where it hangs.
func (c *chain) note(s *State) {
	if c.rules == 0 && !c.drops {
		return
	}
	policy := ""
	if c.drops {
		policy = ", policy drop"
	}
	words := func(family, hook string) string {
		return fmt.Sprintf("nftables chain %s %s %s (hook %s%s), which is not Minne's", family, c.table, c.name, hook, policy)
	}
	crossed := c.hook == hookPrerouting || c.hook == hookForward || c.hook == hookPostrouting
	switch {
	case c.family == unix.NFPROTO_IPV4 && crossed:
		s.family(IPv4, Filter, words("ip", hookNames[c.hook]))
	case c.family == unix.NFPROTO_IPV6 && crossed:
		s.family(IPv6, Filter, words("ip6", hookNames[c.hook]))
	case c.family == unix.NFPROTO_INET && crossed:
		s.both(Filter, words("inet", hookNames[c.hook]))
	case c.family == unix.NFPROTO_BRIDGE && c.hook != hookForward: // what the router receives and sends by a bridge
		s.bridges(Filter, words("bridge", bridgeHooks[c.hook]))
	case c.family == unix.NFPROTO_INET && c.hook == hookInetIngress:
		c.noteDevices(s.ingress, words("inet", "ingress"))
	case c.family == unix.NFPROTO_NETDEV && c.hook == hookNetdevIngress:
		c.noteDevices(s.ingress, words("netdev", "ingress"))
	case c.family == unix.NFPROTO_NETDEV && c.hook == hookNetdevEgress:
		c.noteDevices(s.egress, words("netdev", "egress"))
	}
}

// noteDevices notes a chain at its devices, as far as they are there.
func (c *chain) noteDevices(note func(int, Cause, string), words string) {
	links, err := net.Interfaces()
	if err != nil {
		return // and without links there is no fast path either
	}
	for _, l := range links {
		if slices.ContainsFunc(c.devices, func(d device) bool {
			return l.Name == d.name || d.begin && strings.HasPrefix(l.Name, d.name)
		}) {
			note(l.Index, Filter, words)
		}
	}
}
