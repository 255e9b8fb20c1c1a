// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/base/ethtool"
	"minne/internal/model/config"
)

// borderOf is a router with sessions of all kinds on its port, and what its section cpus says; "" for none.
func borderOf(t *testing.T, cpus, sessions string) *config.Config {
	t.Helper()
	if cpus != "" {
		cpus = "\nsystem: {cpus: {" + cpus + "}}"
	}
	cfg, err := config.Parse("test", []byte("version: 1"+cpus+"\ninterfaces:\n  trunk: {match: {name: eth0}, addresses: [192.0.2.1/24]}\n"+sessions))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const bgpSession = "routing: {bgp: {asn: 64500, peers: {up: {address: 192.0.2.2, asn: 64501, bfd: on}}}}\n"

// steers has a card of four queues, with an indirection table, that takes rules.
func steers(most int) *pretended {
	p := card(4, 4)
	p.spread = map[string][]int{"eth0": even(8, 4), "trunk": even(8, 4)}
	p.most = most
	return p
}

// led are the rules of the card that lead to a queue.
func (p *pretended) led() string {
	var list []string
	for _, r := range p.filters {
		list = append(list, fmt.Sprintf("%s → %d", r.Match, r.Queue))
	}
	return strings.Join(list, ", ")
}

const bgpRules = "tcp4 dst-port 179 → 3, udp4 dst-port 3784 → 3, udp4 dst-port 3785 → 3, tcp4 src-port 179 → 3, ether proto 0x0806 → 3"

// TestControlTrafficIsSteered: what a router's sessions receive arrives on a queue of a CPU for control, which no other flow is led
// to. What others remove is put back, what others added is left alone, and all goes with the key.
func TestControlTrafficIsSteered(t *testing.T) {
	p := steers(16)
	foreign := ethtool.Rule{Location: 15, Queue: 1}
	p.filters = []ethtool.Rule{foreign}
	k := applyTo(t, p, borderOf(t, "control: [3]", bgpSession))
	if got := p.led(); got != foreign.Match.String()+" → 1, "+bgpRules {
		t.Errorf("rules %s", got)
	}
	if got := p.serving(); got != "4 0 1 2 3 tx 0 tx 1 tx 2 tx 3" || slices.Contains(p.spread["trunk"], 3) {
		t.Errorf("%s, flows to %v", got, p.spread["trunk"])
	}
	p.filters = slices.DeleteFunc(p.filters, func(r ethtool.Rule) bool { return r.Match.Port == bgpPort })
	p.filters[1].Queue = 0
	if !k.Drifted() {
		t.Error("nobody sees that a rule is gone")
	}
	if rep := reassert(t, k); len(rep.Repaired) != 1 || rep.Repaired[0].Text != "the queue of the control traffic of trunk was changed" {
		t.Errorf("report %+v", rep)
	}
	if k.Drifted() || len(p.filters) != 6 || strings.Count(p.led(), "→ 3") != 5 {
		t.Errorf("after a hand: %s", p.led())
	}
	apply(t, k, render(t, borderOf(t, "control: [3]", "")))
	if got := p.led(); got != foreign.Match.String()+" → 1, ether proto 0x0806 → 3" {
		t.Errorf("without sessions: %s", got)
	}
	apply(t, k, render(t, borderOf(t, "control: [3]", bgpSession)))
	apply(t, k, render(t, borderOf(t, "control: [0]", bgpSession)))
	if got := p.led(); strings.Count(got, "→ 0") != 5 || strings.Contains(got, "→ 3") || p.serving() != "4 0 1 2 3 tx 0 tx 1 tx 2 tx 3" {
		t.Errorf("control on CPU 0: %s, %s", got, p.serving())
	}
	apply(t, k, render(t, borderOf(t, "", bgpSession)))
	if !slices.Equal(p.filters, []ethtool.Rule{foreign}) || !evenly(p.spread["trunk"], 4) {
		t.Errorf("without the key: %s, flows to %v", p.led(), p.spread["trunk"])
	}
}

// TestControlTrafficThatIsNotSteered: what a card can't do is said, and fails no commit.
func TestControlTrafficThatIsNotSteered(t *testing.T) {
	for says, c := range map[string]struct {
		change func(p *pretended)
		text   string
		why    string
		rules  string
		not    int
	}{
		"no rules":      {func(p *pretended) { p.most = 0 }, "control: [3]", "its driver takes no rules", "", 5},
		"no table":      {func(p *pretended) { p.spread = nil }, "control: [3]", "its driver has no table that keeps other flows from a queue", "", 5},
		"no queue left": {func(p *pretended) { p.hardware["most"] = 3; p.hardware["eth0 queues"] = 3 }, "control: [3]", "it has 3 queues, and none for CPU 3", "", 5},
		"little room":   {func(p *pretended) { p.most = 2 }, "control: [3]", "the card has no room for more rules", "tcp4 dst-port 179 → 3, udp4 dst-port 3784 → 3", 3},
		"a rule of others": {func(p *pretended) {
			p.filters = []ethtool.Rule{{Location: 2, Queue: 1, Match: ethtool.Match{EtherType: unix.ETH_P_ARP}}}
		}, "control: [3]", "a rule that Minne has not added leads it to queue 1", "ether proto 0x0806 → 1, " + strings.TrimSuffix(bgpRules, ", ether proto 0x0806 → 3"), 1},
		"fields that it has": {func(p *pretended) { p.refuses = []ethtool.Match{{Protocol: unix.IPPROTO_TCP, Source: bgpPort}} }, "control: [3]", "the card refuses the rule: invalid argument", strings.Replace(bgpRules, "tcp4 src-port 179 → 3, ", "", 1), 1},
		"all CPUs forward":   {func(*pretended) {}, "", "", "", 0},
	} {
		p := steers(16)
		c.change(p)
		k := applyTo(t, p, borderOf(t, c.text, bgpSession))
		if got := p.led(); got != c.rules {
			t.Errorf("%s: rules %s", says, got)
		}
		if rep := reassert(t, k); len(rep.Repaired) != 0 || k.Drifted() {
			t.Errorf("%s: again: %+v", says, rep)
		}
		control, err := k.steered("trunk", 2)
		if err != nil {
			t.Fatal(err)
		}
		if c.not == 0 {
			if control != nil {
				t.Errorf("%s: %+v", says, control)
			}
			continue
		}
		if len(control.Missing) != c.not || control.Missing[0].Why != c.why {
			t.Errorf("%s: %+v", says, control)
		}
	}
}

// TestControlTrafficOf: rules for the sessions that there are, and for no others.
func TestControlTrafficOf(t *testing.T) {
	for text, want := range map[string]string{
		"": "ARP ether proto 0x0806",
		"routing: {bgp: {asn: 64500, peers: {a: {address: 192.0.2.2, asn: 64501, disabled: true}}}}":                                         "ARP ether proto 0x0806",
		"routing: {bgp: {asn: 64500, peers: {a: {address: 192.0.2.2, asn: 64500, bfd: on}}}}":                                                "BGP tcp4 dst-port 179; BFD udp4 dst-port 4784; BGP tcp4 src-port 179; ARP ether proto 0x0806",
		"routing: {ospf: {areas: {0: {interfaces: {trunk: {bfd: on}}}}}}":                                                                    "BFD udp4 dst-port 3784; BFD udp4 dst-port 3785; OSPF ip4 l4proto 89; ARP ether proto 0x0806",
		"routing: {ospf: {areas: {0: {interfaces: {trunk: {passive: on}}}}}}":                                                                "ARP ether proto 0x0806",
		"routing: {babel: {interfaces: {trunk: {}}}}":                                                                                        "Babel udp6 dst-port 6696; ARP ether proto 0x0806",
		"services: {ssh: {interfaces: [trunk], port: 2222, passwords: on}}\nsystem: {cpus: {control: [0]}, admin: {password: pw}}":           "SSH tcp4 dst-port 2222; ARP ether proto 0x0806",
		"routing: {ospf3: {areas: {0: {interfaces: {six: {}}}}}}\ninterfaces: {six: {match: {name: eth1}, addresses: [\"2001:db8::1/64\"]}}": "OSPF ip6 l4proto 89; ND ip6 l4proto 58 type 135; ND ip6 l4proto 58 type 136",
		"routing: {vrfs: {red: {bgp: {asn: 64500, peers: {a: {address: 192.0.2.2, asn: 64501}}}, ospf: {areas: {0: {interfaces: {trunk: {}}}}}}}}\n" +
			"interfaces: {red: {vrf: {table: 100, interfaces: [trunk]}}, trunk: {match: {name: eth0}, addresses: [192.0.2.1/24]}}": "BGP tcp4 dst-port 179; OSPF ip4 l4proto 89; BGP tcp4 src-port 179; ARP ether proto 0x0806",
	} {
		if !strings.Contains(text, "system:") {
			text += "\nsystem: {cpus: {control: [0]}, router-id: 192.0.2.1}"
		}
		if !strings.Contains(text, "\ninterfaces: {") {
			text += "\ninterfaces: {trunk: {match: {name: eth0}, addresses: [192.0.2.1/24]}}"
		}
		cfg, err := config.Parse("test", []byte("version: 1\n"+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, s := range controlTraffic(cfg) {
			got = append(got, s.name+" "+s.match.String())
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %s, want %s", text, strings.Join(got, "; "), want)
		}
	}
}
