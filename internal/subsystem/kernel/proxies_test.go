// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"log/slog"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// The router answers for translated addresses on the network that they lie in, has
// routes that end what is not translated, and forgets both with the configuration.
func TestProxies(t *testing.T) {
	veths(t, "wan", "dmz")
	cfg := &config.Config{
		Version: 1,
		Interfaces: map[string]*config.Interface{
			"wan": {Zone: "wan", Addresses: []config.Address{host("203.0.113.18/24"), host("2001:db8:ff::1/64")}},
			"dmz": {Zone: "dmz", Addresses: []config.Address{host("10.3.0.1/24")}},
		},
		NAT: []config.NAT{
			{From: []string{"dmz"}, To: []string{"wan"}, OneToOne: &config.NATOneToOne{Outside: prefix("203.0.113.16/30"), Inside: prefix("10.3.0.16/30")}},
			{From: []string{"dmz"}, To: []string{"wan"}, OneToOne: &config.NATOneToOne{Outside: prefix("2001:db8:ff::8/127"), Inside: prefix("fd00::8/127")}},
			{From: []string{"dmz"}, To: []string{"wan"}, Pool: []config.Prefix{prefix("192.0.2.0/28"), prefix("2001:db8:ff::/64")}},
		},
	}
	shell(t, "ip link set lo down; ip neigh add proxy 203.0.113.99 dev wan")
	k := New(slog.New(slog.DiscardHandler))
	d := render(t, cfg)
	expectLine(t, planned(t, k, d), "+ answers for 5 translated addresses, 203.0.113.16 to 2001:db8:ff::9, on wan")
	apply(t, k, d)
	expect(t, shell(t, "ip neigh show proxy dev wan"), "203.0.113.16 ", "203.0.113.17 ", "203.0.113.19 ", "2001:db8:ff::8 ", "2001:db8:ff::9 ", "203.0.113.99 ")
	expect(t, shell(t, "ip route show; ip -6 route show"), "203.0.113.16/30 dev lo", "blackhole 192.0.2.0/28", "blackhole 2001:db8:ff::8/127", "blackhole 2001:db8:ff::/64")
	expect(t, shell(t, "cat /proc/sys/net/ipv6/conf/wan/proxy_ndp /proc/sys/net/ipv4/neigh/wan/proxy_delay"), "1\n0\n")
	if again := planned(t, k, d); len(again) > 0 {
		t.Errorf("still to do: %v", again)
	}
	// The kernel forgets such entries with a link that goes down.
	shell(t, "ip link set wan down; ip link set wan up")
	if _, err := k.Reassert(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, shell(t, "ip neigh show proxy dev wan"), "203.0.113.17 ", "2001:db8:ff::9 ")

	// Nobody is told of one that is removed by hand.
	if k.Drifted() {
		t.Error("nothing has changed")
	}
	shell(t, "ip neigh del proxy 203.0.113.17 dev wan")
	if !k.Drifted() {
		t.Error("the entry was not looked for")
	}
	rep, err := k.Reassert(t.Context())
	if err != nil || len(rep.Repaired) != 1 || !strings.Contains(rep.Repaired[0].Text, "203.0.113.17") {
		t.Errorf("report %+v, error %v", rep, err)
	}
	expect(t, shell(t, "ip neigh show proxy dev wan"), "203.0.113.17 ")

	shell(t, "ip neigh replace proxy 203.0.113.99 dev wan")
	cfg.NAT = nil
	d = render(t, cfg)
	expectLine(t, planned(t, k, d), "- answers for 5 translated addresses, 203.0.113.16 to 2001:db8:ff::9, on wan")
	apply(t, k, d)
	if left := shell(t, "ip neigh show proxy; ip route show proto static; ip -6 route show proto static"); left != "203.0.113.99 dev wan proxy \n" {
		t.Errorf("left:\n%s", left)
	}
}
