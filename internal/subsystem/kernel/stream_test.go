// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// looks counts the comparisons with a dump that a watcher logs.
type looks struct{ n atomic.Int64 }

func (l *looks) Enabled(context.Context, slog.Level) bool { return true }
func (l *looks) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *looks) WithGroup(string) slog.Handler            { return l }
func (l *looks) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "kernel routes compared" {
		l.n.Add(1)
	}
	return nil
}

// TestStreamAlone holds what notifications alone must tell, without another look at the kernel: after
// each line, the state told is the one that a dump shows.
func TestStreamAlone(t *testing.T) {
	for name, lines := range map[string]string{
		"IPv4 several routes of one identity": `
			route add 10.9.0.0/24 via 10.0.0.2
			route append 10.9.0.0/24 via 10.1.0.2
			route prepend 10.9.0.0/24 via 10.2.0.2
			route append 10.9.0.0/24 dev c0
			route del 10.9.0.0/24 via 10.2.0.2
			route del 10.9.0.0/24 via 10.1.0.2
			route replace 10.9.0.0/24 via 10.1.0.3
			route del 10.9.0.0/24 via 10.1.0.3
			route del 10.9.0.0/24`,
		"IPv4 several next hops": `
			route add 10.9.0.0/24 nexthop via 10.0.0.2 nexthop via 10.1.0.2 weight 3
			route replace 10.9.0.0/24 nexthop via 10.1.0.2 weight 2 nexthop via 10.2.0.2
			route replace blackhole 10.9.0.0/24
			route del 10.9.0.0/24
			route add 10.9.0.0/24 via inet6 2001:db8:1::2 dev c1
			route del 10.9.0.0/24`,
		"IPv6 next hops one by one": `
			-6 route add 2001:db8:9::/64 via 2001:db8:1::2
			-6 route append 2001:db8:9::/64 via 2001:db8:0::2
			-6 route append 2001:db8:9::/64 via 2001:db8:2::2
			-6 route del 2001:db8:9::/64 via 2001:db8:0::2
			-6 route append 2001:db8:9::/64 nexthop via 2001:db8:0::3 nexthop via 2001:db8:1::3
			-6 route del 2001:db8:9::/64 nexthop via 2001:db8:2::2 nexthop via 2001:db8:1::3
			-6 route del 2001:db8:9::/64 via 2001:db8:1::2
			-6 route del 2001:db8:9::/64 via 2001:db8:0::3`,
		"IPv6 groups whole": `
			-6 route add 2001:db8:9::/64 nexthop via 2001:db8:1::2 weight 2 nexthop via 2001:db8:0::2
			-6 route replace 2001:db8:9::/64 nexthop via 2001:db8:2::2 nexthop via 2001:db8:0::2 weight 4
			-6 route replace 2001:db8:9::/64 via 2001:db8:2::3
			-6 route replace 2001:db8:9::/64 nexthop via 2001:db8:2::2 nexthop via 2001:db8:0::2
			-6 route replace blackhole 2001:db8:9::/64
			-6 route replace 2001:db8:9::/64 via 2001:db8:2::3
			-6 route del 2001:db8:9::/64`,
		"IPv6 one prefix on several links": `
			-6 route add 2001:db8:9::/64 dev c0
			-6 route append 2001:db8:9::/64 dev c1
			-6 route append 2001:db8:9::/64 dev c2
			-6 route del 2001:db8:9::/64 dev c0
			-6 route del 2001:db8:9::/64 dev c1
			-6 route del 2001:db8:9::/64 dev c2
			-6 route add 2001:db8:9::/64 from 2001:db8:5::/48 via 2001:db8:1::2
			-6 route del 2001:db8:9::/64 from 2001:db8:5::/48`,
		"next-hop objects": `
			nexthop add id 1 via 10.0.0.2 dev c0
			nexthop add id 2 via 10.1.0.2 dev c1
			nexthop add id 3 group 1,6/2,2
			route add 10.9.0.0/24 nhid 1
			route append 10.9.0.0/24 via 10.1.0.2
			route add 10.9.1.0/24 nhid 3
			nexthop replace id 2 via 10.2.0.2 dev c2
			nexthop del id 1
			nexthop del id 2
			route del 10.9.0.0/24
			nexthop add id 4 via 2001:db8:1::2 dev c1
			-6 route add 2001:db8:9::/64 nhid 4
			-6 route add 2001:db8:9:1::/64 nhid 4
			nexthop replace id 4 via 2001:db8:1::3 dev c1
			nexthop del id 4
			nexthop add id 5 blackhole
			route add 10.9.0.0/24 nhid 5
			nexthop del id 5`,
		"neighbours and rules": `
			neigh add 10.0.0.9 lladdr 02:00:00:00:00:01 dev c0
			neigh replace 10.0.0.9 lladdr 02:00:00:00:00:02 dev c0
			neigh del 10.0.0.9 dev c0
			rule add pref 500 from 10.9.0.0/24 table 77
			rule add pref 500 from 10.9.1.0/24 table 77
			rule del pref 500 from 10.9.0.0/24 table 77
			rule del pref 500
			rule del pref 32767
			rule add pref 32767 table default
			link set c0 mtu 1400
			link set c0 name c9
			link set c9 name c0`,
	} {
		t.Run(name, func(t *testing.T) {
			churnLinks(t)
			m, seen := &model{t: t}, &looks{}
			start(t, NewWatcher(slog.New(seen), m))
			for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
				line = strings.TrimSpace(line)
				shell(t, "ip "+line)
				agree(t, m)
				if n := seen.n.Load(); n > 0 {
					t.Fatalf("the watcher had to look again after %q", line)
				}
			}
		})
	}
}

// TestSilentChanges holds what the kernel does not notify.
func TestSilentChanges(t *testing.T) {
	churnLinks(t)
	_, m := watch(t)
	for i, line := range []string{
		"ip route add 10.9.0.0/24 via 10.0.0.2; ip route add 10.9.1.0/24 nexthop via 10.0.0.2 nexthop via 10.1.0.2",
		"ip -6 route add 2001:db8:9::/64 nexthop via 2001:db8:0::2 nexthop via 2001:db8:1::2",
		"ip nexthop add id 1 via 10.0.0.2 dev c0; ip nexthop add id 2 via 10.1.0.2 dev c1; ip nexthop add id 3 group 1/2; ip route add 10.9.2.0/24 nhid 3; ip route add 10.9.3.0/24 nhid 1",
		"ip link set c0p down", // no carrier
		"ip link set c0p up",
		"ip link set c0 down",
		"ip link set c0 up",
		"ip addr add 10.7.0.1/32 dev c1; ip route add 10.9.4.0/24 via 10.1.0.2 src 10.7.0.1",
		"ip addr del 10.7.0.1/32 dev c1",
		"ip link del c1p",
	} {
		shell(t, line)
		t.Run(fmt.Sprint(i, " ", line), func(t *testing.T) { agree(t, m) })
	}
}

// TestLostNotifications: when the kernel drops some, everything is told again.
func TestLostNotifications(t *testing.T) {
	churnLinks(t)
	w, m := watch(t)
	shell(t, "ip route add 10.9.0.0/24 via 10.0.0.2")
	agree(t, m)
	w.stream.mu.Lock()
	w.stream.drop() // as after ENOBUFS
	w.stream.mu.Unlock()
	shell(t, "ip route add 10.9.1.0/24 via 10.0.0.2")
	agree(t, m)
	if m.rounds != 2 {
		t.Errorf("%d full dumps, expected 2", m.rounds)
	}
	w.Resync()
	for m.count() < 3 {
		time.Sleep(time.Millisecond)
	}
	agree(t, m)
}

func (m *model) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rounds
}

// listen subscribes to what the kernel tells of links, addresses, routes and neighbours. The function
// returned waits for 0.3 s without a word, and says whether they were the first.
func listen(t *testing.T) func() bool {
	t.Helper()
	heard, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(heard.Close)
	if err := heard.SetReceiveTimeout(&unix.Timeval{Usec: 300_000}); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		for first := true; ; first = false {
			switch _, _, err := heard.Receive(); {
			case errors.Is(err, unix.EAGAIN):
				return first
			case err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR):
				t.Fatal(err)
			}
		}
	}
}

// TestIdleIsSilent: without changes the watcher tells nothing, and links that come up are restorable.
func TestIdleIsSilent(t *testing.T) {
	churnLinks(t)
	w, m := watch(t)
	agree(t, m)
	silent := listen(t)
	silent() // what making the links still caused
	calls := func() int {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.calls
	}
	for try := 1; ; try++ { // the kernel may have something to tell at any time: then it was not idle
		before := calls()
		if !silent() && try < 50 {
			continue
		}
		if after := calls(); after != before {
			t.Errorf("%d calls while nothing changed", after-before)
		}
		break
	}
	for len(w.Restorable()) > 0 {
		<-w.Restorable()
	}
	shell(t, "ip link set c0 down; ip link set c0 up")
	<-w.Restorable()
}
