// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"net"
	"net/netip"
	"time"

	"minne/internal/model/config"
)

// The walled garden's names are asked of the router's own DNS server, which hosts ask too, so that they get the same addresses. An
// address stays for a while after the name has left it: pages that are open go on.

const (
	gardenEvery = 30 * time.Second
	gardenStays = 10 * time.Minute
	mostGarden  = 1024 // addresses of one login's names
)

// garden is when addresses of names were last seen, by login.
type garden map[string]map[netip.Addr]time.Time

func (l *Login) wakeGarden() {
	select {
	case l.gardenWoken <- struct{}{}:
	default:
	}
}

// followNames follows names until ctx ends.
func (l *Login) followNames(ctx context.Context) {
	g := garden{}
	for {
		l.mu.Lock()
		settings := l.settings
		l.mu.Unlock()
		some := false
		for name, s := range settings {
			if names := s.Login.GardenNames(); len(names) > 0 {
				some = true
				l.look(ctx, g, name, s, names)
			}
		}
		var tick <-chan time.Time
		if some {
			tick = time.After(gardenEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.gardenWoken:
		case <-tick:
		}
	}
}

// look asks for the names of one login.
func (l *Login) look(ctx context.Context, g garden, login string, s Settings, names []string) {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, netip.AddrPortFrom(s.Resolver, 53).String())
	}}
	now := l.clock()
	if g[login] == nil {
		g[login] = map[netip.Addr]time.Time{}
	}
	for _, name := range names {
		ctx, end := context.WithTimeout(ctx, 5*time.Second)
		list, err := resolver.LookupNetIP(ctx, "ip", name)
		end()
		if err != nil {
			l.log.Debug("a name of the walled garden has no address", "login", login, "name", name, "error", err)
		}
		for _, a := range list {
			if a = a.Unmap(); len(g[login]) < mostGarden && a.IsGlobalUnicast() {
				g[login][a] = now
			}
		}
	}
	all := map[netip.Addr]config.MAC{}
	for a, seen := range g[login] {
		if now.Sub(seen) > gardenStays {
			delete(g[login], a)
			continue
		}
		all[a] = config.MAC{}
	}
	if err := l.fire.Refeed(config.LoginFree(login), all); err != nil {
		l.log.Error("cannot change the walled garden", "login", login, "error", err)
	}
}
