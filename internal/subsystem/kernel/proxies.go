// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/plan"
	"minne/internal/model/config"
)

// Answers for others' addresses. A pool or a one-to-one translation has outside
// addresses that no interface has. On a network that the router is on, its
// neighbours ask for them by ARP or neighbour discovery, and the kernel answers
// where it has a proxy entry for the address.
//
// They are not made addresses of the interface: OSPF would speak on them, the
// router would send from them, and its own services would listen there.
//
// For ARP the kernel answers by such an entry only when a route leads to the
// address by another interface than the one asked on. That is a route to lo:
// what is translated never takes it, and what isn't ends there.

// DesiredProxy is an address that the router answers for on an interface.
type DesiredProxy struct {
	Interface string
	Address   netip.Addr
}

func renderProxies(cfg *config.Config) (list []DesiredProxy) {
	own := map[netip.Addr]bool{}
	for _, i := range cfg.Interfaces {
		for _, a := range i.Addresses {
			own[a.Addr()] = true
		}
	}
	for _, t := range config.Translations(cfg) {
		if t.On == "" || t.TooMany {
			continue
		}
		for a := t.Outside.Addr(); t.Outside.Contains(a); a = a.Next() {
			if p := (DesiredProxy{t.On, a}); !own[a] && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	slices.SortFunc(list, func(a, b DesiredProxy) int {
		return cmp.Or(cmp.Compare(a.Interface, b.Interface), a.Address.Compare(b.Address))
	})
	return list
}

// holdTranslated is what a route to translated addresses leads to. Without it, a packet to one that
// no connection uses would go back to where it came from.
func holdTranslated(t config.Translated) (blackhole bool, hops []DesiredHop) {
	if t.On != "" && !t.TooMany && t.Outside.Addr().Is4() {
		return false, []DesiredHop{{Interface: loopback}}
	}
	return true, nil
}

// proxySysctls let the kernel answer for others' addresses on an interface, at once: of itself it
// waits up to 0.8 s for one that has the address.
func proxySysctls(name string, proxies []DesiredProxy) []Sysctl {
	if name == loopback {
		return nil
	}
	set := func(path, value string) Sysctl { return Sysctl{Path: path, Value: value, Interface: name} }
	has := func(four bool) bool {
		return slices.ContainsFunc(proxies, func(p DesiredProxy) bool { return p.Interface == name && p.Address.Is4() == four })
	}
	list := []Sysctl{set("net/ipv6/conf/"+name+"/proxy_ndp", "0")}
	if has(true) {
		list = append(list, set("net/ipv4/neigh/"+name+"/proxy_delay", "0"))
	}
	if has(false) {
		list[0].Value = "1"
		list = append(list, set("net/ipv6/neigh/"+name+"/proxy_delay", "0"))
	}
	return list
}

// proxy is an address that is answered for on a link.
type proxy struct {
	index   int
	address netip.Addr
}

// ndaProtocol is NDA_PROTOCOL of linux/neighbour.h: who made the entry. Those of Minne have its mark.
const ndaProtocol = 12

// proxies returns the proxy entries that carry the mark.
func (live) proxies(ctx context.Context) (list []proxy, err error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	for range dumpRetries {
		list = nil
		intact, err := a.dump(ctx, unix.RTM_GETNEIGH, neighLen, func(body []byte, _ *builder) { body[10] = unix.NTF_PROXY },
			func(m nlmsg.Message) error {
				if p, ok := decodeProxy(m.Body); ok {
					list = append(list, p)
				}
				return nil
			})
		if intact || err != nil {
			return list, err
		}
	}
	return nil, errUnsettled
}

func decodeProxy(body []byte) (p proxy, ours bool) {
	if len(body) < neighLen {
		return p, false
	}
	p.index = int(native.Uint32(body[4:]))
	for kind, value := range nlmsg.Attributes(body[neighLen:]) {
		switch kind {
		case unix.NDA_DST:
			p.address = addressOf(value)
		case ndaProtocol:
			ours = len(value) == 1 && value[0] == addressProtocol
		}
	}
	return p, ours && p.address.IsValid()
}

func (live) addProxy(p proxy) error {
	return proxyRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, p)
}

func (live) removeProxy(p proxy) error { return proxyRequest(unix.RTM_DELNEIGH, 0, p) }

// proxyRequest adds or removes a proxy entry.
func proxyRequest(kind, flags uint16, p proxy) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	return a.request(kind, flags, neighLen, func(body []byte, w *builder) {
		body[0] = unix.AF_INET6
		if p.address.Is4() {
			body[0] = unix.AF_INET
		}
		native.PutUint32(body[4:], uint32(p.index))
		native.PutUint16(body[8:], unix.NUD_PERMANENT)
		body[10] = unix.NTF_PROXY
		w.address(unix.NDA_DST, p.address)
		if kind == unix.RTM_NEWNEIGH {
			w.attr(ndaProtocol, []byte{addressProtocol})
		}
	})
}

// proxies compares the proxy entries; those of one interface are one change.
func (r *round) proxies(ctx context.Context) error {
	now, err := r.system.proxies(ctx)
	if err != nil {
		return fmt.Errorf("list proxy entries: %w", err)
	}
	for _, b := range r.bound {
		if b.missing || b.Down {
			continue
		}
		var missing []netip.Addr
		for _, want := range r.desired.Proxies {
			if want.Interface != b.Name {
				continue
			}
			had := -1
			if b.link != nil {
				had = slices.Index(now, proxy{b.link.Index, want.Address})
			}
			if had < 0 {
				missing = append(missing, want.Address)
			} else {
				now = slices.Delete(now, had, had+1)
			}
		}
		if len(missing) > 0 {
			r.add(proxyChange(plan.Add, b.Name, missing), r.on(b, func(index int) error {
				return eachProxy(index, missing, r.system.addProxy)
			})).of(b.Name, fmt.Sprintf("%s were removed", proxyChange(plan.Add, b.Name, missing).Object))
		}
	}
	for _, l := range r.links {
		var gone []netip.Addr
		for _, p := range now {
			if p.index == l.Index {
				gone = append(gone, p.address)
			}
		}
		if len(gone) > 0 {
			r.removal(proxyChange(plan.Remove, l.Name, gone), func(context.Context) error {
				return eachProxy(l.Index, gone, r.system.removeProxy)
			})
		}
	}
	return nil
}

func eachProxy(index int, list []netip.Addr, do func(proxy) error) error {
	for _, a := range list {
		if err := do(proxy{index, a}); err != nil && !errors.Is(err, unix.ENOENT) { // it went with the link
			return err
		}
	}
	return nil
}

// proxyChange names the addresses by the first and last.
func proxyChange(action plan.Action, iface string, list []netip.Addr) plan.Change {
	words := list[0].String()
	if n := len(list); n > 1 {
		words = fmt.Sprintf("%d translated addresses, %s to %s,", n, list[0], list[n-1])
	}
	return plan.Change{Action: action, Object: fmt.Sprintf("answers for %s on %s", words, iface)}
}

// loopbackUp brings lo up where a route needs it: a new namespace has it down.
func (r *round) loopbackUp() {
	needed := slices.ContainsFunc(r.desired.Routes, func(d DesiredRoute) bool {
		return slices.ContainsFunc(d.Hops, func(h DesiredHop) bool { return h.Interface == loopback })
	})
	for _, l := range r.links {
		bound := slices.ContainsFunc(r.bound, func(b *bound) bool { return b.Name == loopback })
		if needed && l.Name == loopback && !l.Up && !bound {
			r.add(plan.Change{Action: plan.Modify, Object: "link " + loopback, From: "down", To: "up"},
				func(context.Context) error { return r.system.setUp(l.Index, true) })
		}
	}
}
