// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Run puts back what others change, and looks up the names of peers that are silent.
func (t *Tunnels) Run(ctx context.Context) error {
	close(t.ready)
	clock := time.NewTicker(checkEvery)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
		case <-t.wake:
		}
		t.putBack()
		for _, s := range t.silent(time.Now()) {
			t.follow(ctx, s)
		}
	}
}

// putBack makes every interface as configured that is not so any more.
func (t *Tunnels) putBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.applied {
		return
	}
	err := t.each(t.desired, true, func(c control, name string, steps []step) error {
		key := "WireGuard on " + name
		delete(t.trouble, key)
		now, err := current(c, name)
		if err == nil && now == nil {
			return nil // the kernel package makes it again, and says so
		}
		for _, s := range steps {
			t.log.Warn("another program changed WireGuard; put back", "interface", name, "what", s.object)
		}
		if err == nil {
			err = t.write(c, name, steps)
		}
		if err != nil {
			t.trouble[key] = err.Error()
		}
		return nil
	})
	if err != nil {
		t.log.Error("look at WireGuard", "error", err)
	}
}

// mute is a peer whose endpoint is to be looked up.
type mute struct {
	device, peer string
	key          wgtypes.Key
	endpoint     string // as configured
	now          *net.UDPAddr
}

// silent are the peers with an endpoint of which nothing was heard for long.
func (t *Tunnels) silent(at time.Time) (list []mute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.applied || len(t.desired.devices) == 0 {
		return nil
	}
	c, err := t.open()
	if err != nil {
		return nil // putBack has said so
	}
	defer c.Close()
	for name, d := range t.desired.devices {
		now, err := current(c, name)
		if err != nil || now == nil {
			continue
		}
		for _, p := range now.Peers {
			want, ours := d.peers[p.PublicKey]
			if !ours || want.endpoint == "" || at.Sub(p.LastHandshakeTime) < silence || at.Sub(t.looked[p.PublicKey]) < lookEvery {
				continue
			}
			t.looked[p.PublicKey] = at
			list = append(list, mute{name, want.name, p.PublicKey, want.endpoint, p.Endpoint})
		}
	}
	return list
}

// follow asks where a silent peer is now, and tells WireGuard if that is another place than it knows.
func (t *Tunnels) follow(ctx context.Context, m mute) {
	key := fmt.Sprintf("WireGuard peer %s of %s", m.peer, m.device)
	at, err := t.resolve(ctx, m.endpoint)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.desired.devices[m.device].peers[m.key].endpoint != m.endpoint || ctx.Err() != nil {
		return // changed meanwhile
	}
	delete(t.trouble, key)
	if err != nil {
		t.trouble[key] = fmt.Sprintf("endpoint %s: %v", m.endpoint, err)
		return
	}
	if m.now != nil && m.now.String() == at.String() {
		return
	}
	c, err := t.open()
	if err == nil {
		defer c.Close()
		err = c.ConfigureDevice(m.device, wgtypes.Config{Peers: []wgtypes.PeerConfig{
			{PublicKey: m.key, UpdateOnly: true, Endpoint: net.UDPAddrFromAddrPort(at)}}})
	}
	if err != nil {
		t.trouble[key] = fmt.Sprintf("endpoint %s: %v", m.endpoint, err)
		return
	}
	t.log.Info("WireGuard peer has another address", "interface", m.device, "peer", m.peer, "endpoint", m.endpoint, "address", at)
}

// resolve is the address and port of an endpoint now.
func (t *Tunnels) resolve(ctx context.Context, endpoint string) (netip.AddrPort, error) {
	if at, err := netip.ParseAddrPort(endpoint); err == nil {
		return at, nil
	}
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return netip.AddrPort{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	a, err := t.find(ctx, host)
	return netip.AddrPortFrom(a, uint16(number)), err
}

// lookup asks the resolver of the host for an address; the first one is taken.
func lookup(ctx context.Context, name string) (netip.Addr, error) {
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return netip.Addr{}, err
	}
	return list[0].Unmap(), nil
}
