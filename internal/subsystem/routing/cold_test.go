// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"strings"
	"testing"
)

// Only BGP's routes, in whatever table and family, make a start of bgpd one after a crash.
func TestKeepsRoutesAsRoot(t *testing.T) {
	l := newLab(t)
	keeps := func(want bool) {
		t.Helper()
		if got, err := l.host.keepsRoutes(t.Context()); err != nil || got != want {
			t.Errorf("the kernel keeps routes of BGP: %v, %v; expected %v", got, err, want)
		}
	}
	l.in("r", "ip", "link", "set", "lo", "up")
	keeps(false)
	for _, other := range []string{"static", "ospf"} {
		l.in("r", "ip", "route", "add", "blackhole", "192.0.2.0/24", "proto", other, "metric", map[string]string{"static": "1", "ospf": "2"}[other])
	}
	keeps(false)
	for _, route := range [][]string{
		{"-4", "route", "add", "blackhole", "198.51.100.0/24", "proto", "bgp"},
		{"-4", "route", "add", "198.51.100.0/24", "dev", "lo", "proto", "bgp", "table", "100"},
		{"-6", "route", "add", "blackhole", "2001:db8::/32", "proto", "bgp"},
		{"-6", "route", "add", "2001:db8::/32", "dev", "lo", "proto", "bgp", "table", "100"},
	} {
		l.in("r", append([]string{"ip"}, route...)...)
		keeps(true)
		route[2] = "del"
		l.in("r", append([]string{"ip"}, route...)...)
		keeps(false)
	}
}

// deferral checks that bgpd chooses paths as routes come: FRR 8 always, a newer one when it began without routes in the kernel.
func (l *lab) deferral(cold bool) {
	l.t.Helper()
	has := strings.Contains(l.ask(bgpd, "show running-config"), noDeferral)
	if old := strings.Contains(l.ask(bgpd, "show version"), "FRRouting 8."); has != (old || cold) {
		l.t.Errorf("bgpd has %q: %v; FRR 8: %v, begun without routes in the kernel: %v", noDeferral, has, old, cold)
	}
}
