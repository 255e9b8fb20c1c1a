// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/kernel"
)

// A user has the speed of the login in both directions, with each device, until the logout; a new daemon goes on with it.
func TestLoginRate(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	g := guest{b.newNeighbour("lan")}
	g.run("ip addr add 192.0.2.77/24 dev eth0 && ip route add default via 192.0.2.1")
	isp := b.newNeighbour("wan")
	isp.run("ip addr add 198.51.100.9/24 dev eth0 && ip route add 192.0.2.0/24 via 198.51.100.1")
	isp.echoes(":90")
	b.start()
	with := func(rate string) string {
		return b.file("login.yaml", strings.Replace(portalConfig, "TLS", "rate: {down: "+rate+", up: 4Mbit}", 1))
	}
	b.want(0, "applied", "apply", with("8Mbit"))
	users := func() []kernel.SubscriberState {
		var v show.SubscribersView
		b.json(&v, "show", "subscribers", "--json")
		return v.Subscribers
	}
	fast := func(what string, down uint64) (s kernel.SubscriberState) {
		t.Helper()
		eventually(t, what, func() bool {
			list := users()
			if len(list) != 1 {
				return false
			}
			s = list[0]
			return s.Down.Problem+s.Up.Problem == "" && s.Down.Rate == down && s.Up.Rate == 4_000_000
		})
		return s
	}
	if list := users(); len(list) != 0 {
		t.Errorf("before anybody has logged in: %+v", list)
	}
	g.run("ping -c 1 -W 1 192.0.2.1; true") // so that the router knows it
	b.want(0, "logged in", "login", "add", "192.0.2.77", "--user", "ada")
	was := fast("the speed of a user", 8_000_000)
	if was.Interface != "lan" || !strings.HasPrefix(was.Name, "village/ada~") {
		t.Errorf("%+v", was)
	}
	g.speaks("198.51.100.9:90").wantEcho(true)
	if now := fast("the speed of a user who has spoken", 8_000_000); now.Down.Packets <= was.Down.Packets || now.Up.Packets <= was.Up.Packets {
		t.Errorf("its packets are not in its classes: %+v, before %+v", now, was)
	}
	if said := b.want(0, "", "show", "fast-path").out; !strings.Contains(said, "shape") {
		t.Errorf("show fast-path does not say that the kernel has the port: %s", said)
	}
	was = fast("the same", 8_000_000)
	b.end(syscall.SIGKILL)
	b.start()
	if now := fast("the speed with a new daemon", 8_000_000); now.Down.Packets < was.Down.Packets {
		t.Errorf("a new daemon has made new classes: %+v, before %+v", now, was)
	}
	b.want(0, "applied", "apply", with("6Mbit"))
	fast("another speed", 6_000_000)
	b.want(0, "logged out", "login", "remove", "192.0.2.77")
	eventually(t, "no speed after the logout", func() bool { return len(users()) == 0 && !b.has("tc class show dev lan", "6Mbit") })
}
