// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"minne/internal/base/plan"
)

// control is how WireGuard is read and written.
type control interface {
	Device(name string) (*wgtypes.Device, error)
	ConfigureDevice(name string, cfg wgtypes.Config) error
	Close() error
}

// openControl opens it anew each time: the kernel's module may have come meanwhile, and the
// namespace is that of the calling thread.
func openControl() (control, error) { return wgctrl.New() }

// current is what an interface has, nil when there is none.
func current(c control, name string) (*wgtypes.Device, error) {
	now, err := c.Device(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read WireGuard interface %s: %w", name, err)
	}
	return now, nil
}

// step is one thing that differs, and how it is put right. Its words hold no private key.
type step struct {
	action plan.Action
	object string
	change func(*wgtypes.Config)
}

// together is one message with all steps.
func together(steps []step) (c wgtypes.Config) {
	for _, s := range steps {
		s.change(&c)
	}
	return c
}

// compare says what of an interface differs from what it shall be; now is nil for one that is to be made, last
// is what was applied before.
func (d device) compare(name string, now *wgtypes.Device, last device) (steps []step) {
	add := func(action plan.Action, object string, change func(*wgtypes.Config)) {
		steps = append(steps, step{action, object, change})
	}
	if now == nil {
		now = &wgtypes.Device{}
	}
	if now.PublicKey != d.private.PublicKey() { // the kernel clamps private keys
		action := plan.Modify
		if now.PrivateKey == (wgtypes.Key{}) {
			action = plan.Add
		}
		add(action, "WireGuard private key of "+name, func(c *wgtypes.Config) { c.PrivateKey = &d.private })
	}
	if d.port != 0 && now.ListenPort != d.port {
		add(plan.Modify, fmt.Sprintf("WireGuard port %d of %s", d.port, name), func(c *wgtypes.Config) { c.ListenPort = &d.port })
	}
	if d.port == 0 && last.port != 0 && now.ListenPort == last.port { // the kernel keeps it: another may need it now
		add(plan.Modify, "WireGuard port of "+name, func(c *wgtypes.Config) { c.ListenPort = new(int) })
	}
	if now.FirewallMark != 0 {
		add(plan.Modify, "WireGuard mark of "+name, func(c *wgtypes.Config) { c.FirewallMark = new(int) })
	}
	there := map[wgtypes.Key]wgtypes.Peer{}
	for _, p := range now.Peers {
		there[p.PublicKey] = p
		if _, wanted := d.peers[p.PublicKey]; !wanted {
			called := last.peers[p.PublicKey].name
			if called == "" {
				called = "with the public key " + p.PublicKey.String()
			}
			add(plan.Remove, fmt.Sprintf("WireGuard peer %s of %s", called, name), func(c *wgtypes.Config) {
				c.Peers = append(c.Peers, wgtypes.PeerConfig{PublicKey: p.PublicKey, Remove: true})
			})
		}
	}
	byName := func(a, b wgtypes.Key) int { return strings.Compare(d.peers[a].name, d.peers[b].name) }
	for _, key := range slices.SortedFunc(maps.Keys(d.peers), byName) {
		p := d.peers[key]
		object := fmt.Sprintf("WireGuard peer %s of %s", p.name, name)
		old, known := there[key]
		write := p.differing(key, old, known, last.peers[key])
		switch {
		case !known:
			add(plan.Add, object, write)
		case write != nil:
			add(plan.Modify, object, write)
		}
	}
	return steps
}

// differing writes what of a peer is not as it shall be, nil when all is.
func (p peer) differing(key wgtypes.Key, old wgtypes.Peer, known bool, last peer) func(*wgtypes.Config) {
	to := wgtypes.PeerConfig{PublicKey: key, UpdateOnly: known}
	right := known
	if old.PresharedKey != p.shared {
		to.PresharedKey, right = &p.shared, false
	}
	if old.PersistentKeepaliveInterval != p.keepalive {
		to.PersistentKeepaliveInterval, right = &p.keepalive, false
	}
	if !slices.Equal(prefixes(old.AllowedIPs), p.allowed) {
		to.ReplaceAllowedIPs, right = true, false
		for _, a := range p.allowed {
			to.AllowedIPs = append(to.AllowedIPs, net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())})
		}
	}
	moved := last.name != "" && last.endpoint != p.endpoint
	if at := p.literal(); at != nil && (old.Endpoint == nil || moved && old.Endpoint.String() != at.String()) {
		to.Endpoint, right = at, false
	}
	if right {
		return nil
	}
	return func(c *wgtypes.Config) { c.Peers = append(c.Peers, to) }
}

// literal is the endpoint of a peer that has an address there, nil for a name or none.
func (p peer) literal() *net.UDPAddr {
	at, err := netip.ParseAddrPort(p.endpoint)
	if err != nil {
		return nil
	}
	return net.UDPAddrFromAddrPort(at)
}

// prefixes are addresses as WireGuard tells them, in order.
func prefixes(list []net.IPNet) (all []netip.Prefix) {
	for _, n := range list {
		a, _ := netip.AddrFromSlice(n.IP)
		bits, _ := n.Mask.Size()
		if len(n.Mask) == net.IPv4len {
			a = a.Unmap()
		}
		all = append(all, netip.PrefixFrom(a, bits))
	}
	slices.SortFunc(all, inOrder)
	return all
}

// inOrder compares prefixes by address, then by length.
func inOrder(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
