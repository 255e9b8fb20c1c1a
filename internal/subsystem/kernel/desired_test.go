// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/config"
)

func TestMetricSpeaksWithFRR(t *testing.T) {
	for distance, want := range map[int]uint32{1: 1, 19: 19, 20: 20 << 24, 110: 110 << 24, 255: 255 << 24} {
		if got := Metric(distance); got != want {
			t.Errorf("distance %d: metric %d, expected %d", distance, got, want)
		}
	}
}

func TestRenderRoutes(t *testing.T) {
	d := render(t, campus())
	var got []string
	for _, r := range d.Routes {
		text := fmt.Sprint(r.Prefix, " ", r.words(), " metric ", r.Metric)
		for _, h := range r.Hops {
			text += " " + h.Interface
		}
		got = append(got, text)
	}
	want := []string{
		"0.0.0.0/0 via 198.51.100.1 metric 4194304000 wan",
		"10.0.0.0/8 blackhole metric 1",
		"192.0.2.0/24 blackhole metric 4261412864",
		"203.0.113.0/24 via 192.0.2.9, via 192.0.2.10 metric 1 lan lan",
		"::/0 via 2001:db8:ff::1 metric 1 wan",
		"2001:db8::/32 blackhole metric 4261412864",
		"2001:db8:aaaa::/48 via 2001:db8:1::9, via 2001:db8:1::a metric 1 lan lan",
		"2001:db8:bbbb::/48 on lan metric 1 lan",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRenderRefuses(t *testing.T) {
	for words, change := range map[string]func(c *config.Config){
		"no interface \"gone\"": func(c *config.Config) {
			c.Interfaces["v"] = &config.Interface{VLAN: &config.VLAN{Parent: "gone", ID: 1}}
		},
		"is its own parent": func(c *config.Config) {
			c.Interfaces["v"] = &config.Interface{VLAN: &config.VLAN{Parent: "w", ID: 1}}
			c.Interfaces["w"] = &config.Interface{VLAN: &config.VLAN{Parent: "v", ID: 1}}
		},
		"has next hops and is a blackhole": func(c *config.Config) {
			c.Routing.Static = append(c.Routing.Static, config.StaticRoute{Prefix: prefix("203.0.113.0/24"), Blackhole: true})
		},
		"IPv6 route 2001:db8::/32 has the IPv4 next hop": func(c *config.Config) {
			c.Routing.Static = []config.StaticRoute{{Prefix: prefix("2001:db8::/32"), Via: []config.NextHop{via("192.0.2.9")}}}
		},
	} {
		c := campus()
		change(c)
		config.Normalize(c)
		if _, err := Render(c); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("error %v, expected %q", err, words)
		}
	}
}

func TestRenderIsTheSameEveryTime(t *testing.T) {
	first := fmt.Sprintf("%+v", render(t, campus()))
	for range 20 {
		if again := fmt.Sprintf("%+v", render(t, campus())); again != first {
			t.Fatalf("not the same:\n%s\n%s", first, again)
		}
	}
	named := campus()
	named.System.Hostname += "-2" // another name for the same router: its flows keep their paths
	if seed := render(t, named).MultipathSeed; seed != render(t, campus()).MultipathSeed {
		t.Errorf("another host name gives the multipath seed %d", seed)
	}
	other := campus()
	other.System.RouterID = netip.MustParseAddr("192.0.2.2")
	if seed := render(t, campus()).MultipathSeed; seed == 0 || seed == render(t, other).MultipathSeed {
		t.Errorf("multipath seed %d is zero or that of another router", seed)
	}
	plain, neighbour := campus(), campus()
	plain.System.RouterID, neighbour.System.RouterID = netip.Addr{}, netip.Addr{}
	neighbour.Interfaces["lan"].Addresses = []config.Address{{Prefix: netip.MustParsePrefix("10.9.9.1/24")}}
	if seed := render(t, plain).MultipathSeed; seed == render(t, neighbour).MultipathSeed {
		t.Errorf("without a router id, two routers with other addresses have the multipath seed %d", seed)
	}
}

func TestAntiSpoofText(t *testing.T) {
	c := campus()
	if c.Interfaces["wan"].AntiSpoof, c.Interfaces["lan"].AntiSpoof = "off", ""; renderAntiSpoof(c.Interfaces) != "" {
		t.Error("a table though no interface asks for it")
	}
	c.Interfaces["wan"].AntiSpoof, c.Interfaces["lan"].AntiSpoof = "strict", "strict"
	c.Interfaces["lo"].AntiSpoof = "strict"
	expect(t, renderAntiSpoof(c.Interfaces), `iifname { "lan", "wan" } fib saddr . iif oif missing counter drop`)
}

func TestConntrackIsSetForFirewallsOnly(t *testing.T) {
	of := func(c *config.Config) (list []string) {
		for _, s := range render(t, c).Sysctls {
			if strings.HasPrefix(s.Path, "net/netfilter/") && !s.Machine {
				list = append(list, s.words()+" "+s.Value)
			}
		}
		return list
	}
	c := campus()
	if got := of(c); len(got) > 0 {
		t.Errorf("without a zone: %v", got)
	}
	c.Interfaces["lan"].Zone = "lan"
	want := []string{"netfilter nf_conntrack_events 2", "netfilter nf_conntrack_acct 1", "netfilter nf_conntrack_timestamp 1", "netfilter nf_conntrack_tcp_be_liberal 1",
		"netfilter nf_conntrack_tcp_ignore_invalid_rst 1", "netfilter nf_conntrack_checksum 0"}
	if got := of(c); !slices.Equal(got, want) {
		t.Errorf("with a zone %v, expected %v", got, want)
	}
	// The settings exist, and belong to the namespace: a namespace may write them.
	veths(t, "eth0", "eth1")
	k := New(slog.New(slog.DiscardHandler))
	apply(t, k, render(t, c))
	if got, ok, err := readSysctl("net/netfilter/nf_conntrack_acct"); got != "1" || !ok || err != nil {
		t.Errorf("nf_conntrack_acct %q, %v, %v", got, ok, err)
	}
}
