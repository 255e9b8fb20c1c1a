// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInterfacesShowWhatTheLinkHas(t *testing.T) {
	veths(t, "s0")
	shell(t, "ip link set s0 alias uplink; ip link property add dev s0 altname port7; ip link set s0 mtu 1400 up; ip addr add 10.0.0.1/24 dev s0")
	shell(t, "ping -c 3 -i 0.01 -W 0.01 10.0.0.2 >/dev/null || true")
	list, err := New(slog.New(slog.DiscardHandler)).Interfaces(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(i Interface) bool { return i.Name == "s0" })
	if i < 0 {
		t.Fatalf("no s0 in %+v", list)
	}
	s := list[i]
	if s.Description != "uplink" || !slices.Equal(s.Former, []string{"port7"}) || s.MTU != 1400 || s.State != "up" ||
		s.Driver != "veth" || s.Speed != 10000 || s.Duplex != "full" || s.Kind != "veth" || s.Parent != "" ||
		!slices.Contains(s.Addresses, netip.MustParsePrefix("10.0.0.1/24")) {
		t.Errorf("s0: %+v", s)
	}
	if s.TX.Packets == 0 || s.TX.Bytes < s.TX.Packets {
		t.Errorf("s0 sent %+v", s.TX)
	}
	shell(t, "ip link set s0p down")
	if list, err = New(slog.New(slog.DiscardHandler)).Interfaces(context.Background()); err != nil || list[i].State != "no-carrier" {
		t.Errorf("state %q (%v), expected no-carrier", list[i].State, err)
	}
}

func TestRoutesByPrefix(t *testing.T) {
	churnLinks(t)
	shell(t, `ip route add 10.9.0.0/16 via 10.0.0.2 metric 1 proto static
		ip route add 10.9.1.0/24 nexthop via 10.0.0.2 nexthop via 10.1.0.2 weight 2
		ip nexthop add id 1 via 10.0.0.3 dev c0; ip nexthop add id 2 via 10.1.0.3 dev c1; ip nexthop add id 3 group 1,4/2
		ip route add 10.9.2.0/24 nhid 3 metric 20 proto bgp
		ip route add blackhole 10.9.0.0/16 metric 4261412864 proto static`)
	k := New(slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		prefix string
		longer bool
		want   []string
	}{
		{"10.9.0.0/16", false, []string{"10.9.0.0/16 unicast static 1/0 10.0.0.2@c0", "10.9.0.0/16 blackhole static 254/0"}},
		{"10.9.0.0/16", true, []string{"10.9.0.0/16 unicast static 1/0 10.0.0.2@c0", "10.9.0.0/16 blackhole static 254/0",
			"10.9.1.0/24 unicast boot 0/0 10.0.0.2@c0 10.1.0.2@c1*2", "10.9.2.0/24 unicast bgp 10.0.0.3@c0*4 10.1.0.3@c1"}},
		{"10.9.2.7/32", false, []string{"10.9.2.0/24 unicast bgp 10.0.0.3@c0*4 10.1.0.3@c1"}},
		{"10.9.9.7/32", false, []string{"10.9.0.0/16 unicast static 1/0 10.0.0.2@c0", "10.9.0.0/16 blackhole static 254/0"}},
		{"192.0.2.0/24", true, nil},
	} {
		found, err := k.Routes(context.Background(), "", unix.AF_INET, netip.MustParsePrefix(c.prefix), c.longer)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range found {
			got = append(got, routeText(r))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s longer %v:\n got %q\nwant %q", c.prefix, c.longer, got, c.want)
		}
	}
}

func TestNeighboursShowState(t *testing.T) {
	churnLinks(t)
	listen(t)() // a link that comes up late loses its neighbours
	shell(t, "ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev c0; ip neigh add 2001:db8:1::9 lladdr 02:00:00:00:00:0a dev c1 nud stale")
	list, err := New(slog.New(slog.DiscardHandler)).Neighbours(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Neighbour{
		{netip.MustParseAddr("10.0.0.9"), "c0", "02:00:00:00:00:09", "permanent"},
		{netip.MustParseAddr("2001:db8:1::9"), "c1", "02:00:00:00:00:0a", "stale"},
	} {
		if !slices.Contains(list, want) {
			t.Errorf("no %+v in %+v", want, list)
		}
	}
}

func routeText(r RouteEntry) string {
	text := fmt.Sprint(r.Prefix, " ", r.Type, " ", r.Protocol)
	if r.Distance != nil {
		text += fmt.Sprintf(" %d/%d", *r.Distance, *r.Metric)
	}
	for _, h := range r.NextHops {
		text += " " + h.Gateway + "@" + h.Interface
		if h.Weight > 1 {
			text += fmt.Sprint("*", h.Weight)
		}
	}
	return text
}

func TestStationsOfBridges(t *testing.T) {
	churnLinks(t)
	shell(t, `ip link add br0 address 02:00:00:00:00:b0 type bridge; ip link set c0 master br0; ip link set br0 up
bridge fdb add 02:00:00:00:00:09 dev c0 master static
bridge fdb add 02:00:00:00:00:0a dev c0 master dynamic
bridge fdb add 02:00:00:00:00:0b dev c1 self`)
	list, err := New(slog.New(slog.DiscardHandler)).Stations(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		if s.Kind == "learned" && (s.Age < 0 || s.Age > 60) {
			t.Errorf("%+v", s)
		}
		got = append(got, strings.Join([]string{s.Bridge, s.MAC, s.Port, s.Kind}, " "))
	}
	for _, want := range []string{"br0 02:00:00:00:00:09 c0 static", "br0 02:00:00:00:00:0a c0 learned", "br0 02:00:00:00:00:b0 br0 own"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if slices.ContainsFunc(list, func(s Station) bool { return s.Bridge == "" || s.MAC == "02:00:00:00:00:0b" }) {
		t.Errorf("what is no bridge's is there: %+v", list)
	}
}
