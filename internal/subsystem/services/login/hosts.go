// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// The hosts of an interface are its neighbours: the kernel tells by netlink which address has which MAC address. A host that has a
// new address (privacy addresses of IPv6, RFC 8981) is rejected with it once; to do so the kernel asks who has the address.

// neighbour is an address on an interface.
type neighbour struct {
	iface   string
	address netip.Addr
}

// entry is what the kernel knows of one.
type entry struct {
	mac   config.MAC
	state int // NUD_PROBE, NUD_PERMANENT, or any other in which it is valid
}

// hosts are the neighbours of the interfaces that are followed.
type hosts struct {
	mu     sync.Mutex
	macs   map[neighbour]entry
	by     map[config.MAC]map[neighbour]bool
	ifaces []string
	woken  chan struct{} // the list is to be read anew
}

func newHosts() *hosts {
	return &hosts{macs: map[neighbour]entry{}, by: map[config.MAC]map[neighbour]bool{}, woken: make(chan struct{}, 1)}
}

// follow says of which interfaces neighbours count.
func (h *hosts) follow(ifaces []string) {
	h.mu.Lock()
	h.ifaces = ifaces
	h.mu.Unlock()
	h.again()
}

// again has the list read anew.
func (h *hosts) again() {
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// set notes a neighbour; without a MAC address it is gone.
func (h *hosts) set(n neighbour, mac config.MAC, state int) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.ifaces, n.iface) {
		return false
	}
	old, had := h.macs[n]
	if had && old.mac == mac {
		h.macs[n] = entry{mac, state}
		return false
	}
	if had {
		delete(h.by[old.mac], n)
		if len(h.by[old.mac]) == 0 {
			delete(h.by, old.mac)
		}
		delete(h.macs, n)
	}
	if mac.IsZero() {
		return false
	}
	h.macs[n] = entry{mac, state}
	if h.by[mac] == nil {
		h.by[mac] = map[neighbour]bool{}
	}
	h.by[mac][n] = true
	return true
}

// of are the addresses of a host on some interfaces.
func (h *hosts) of(mac config.MAC, ifaces []string) (list []netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range h.by[mac] {
		if slices.Contains(ifaces, n.iface) {
			list = append(list, n.address)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// mac is the MAC address of who has an address. Somebody who speaks to the router has one; the word of it may be on its way.
func (h *hosts) mac(iface string, a netip.Addr) (config.MAC, bool) {
	for range 20 {
		h.mu.Lock()
		m, ok := h.macs[neighbour{iface, a}]
		h.mu.Unlock()
		if ok {
			return m.mac, true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return config.MAC{}, false
}

// watch follows the kernel until ctx ends, and tells of each address that a host has newly got.
func (h *hosts) watch(ctx context.Context, tell func(iface string, a netip.Addr, mac config.MAC)) error {
	names := map[int]string{}
	take := func(n *netlink.Neigh, gone bool) {
		name := names[n.LinkIndex]
		if name == "" {
			if l, err := net.InterfaceByIndex(n.LinkIndex); err == nil {
				name, names[n.LinkIndex] = l.Name, l.Name
			}
		}
		a, ok := netip.AddrFromSlice(n.IP)
		if !ok || a.Unmap().IsMulticast() || n.Family != unix.AF_INET && n.Family != unix.AF_INET6 {
			return
		}
		var mac config.MAC
		const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
		if !gone && n.State&known != 0 && len(n.HardwareAddr) == len(mac) {
			copy(mac[:], n.HardwareAddr)
		} else if !gone && n.State != netlink.NUD_FAILED {
			return // being asked for
		}
		if a = a.Unmap(); h.set(neighbour{name, a}, mac, n.State) {
			tell(name, a, mac)
		}
	}
	for ctx.Err() == nil {
		clear(names)
		updates, done := make(chan netlink.NeighUpdate, 1024), make(chan struct{})
		lost := make(chan error, 1)
		err := netlink.NeighSubscribeWithOptions(updates, done, netlink.NeighSubscribeOptions{ListExisting: true, ReceiveBufferSize: 4 << 20,
			ErrorCallback: func(err error) {
				select {
				case lost <- err:
				default:
				}
			}})
		if err != nil {
			return err
		}
		for again := false; !again; {
			select {
			case <-ctx.Done():
				again = true
			case <-h.woken:
				again = true
			case <-lost:
				again = true
			case u, open := <-updates:
				if !open {
					again = true
					break
				}
				take(&u.Neigh, u.Type == unix.RTM_DELNEIGH)
			}
		}
		close(done)
		go func() { // until it has noticed
			for range updates {
			}
		}()
	}
	return nil
}
