// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// everything has one of each thing that a table of rules is made of.
const everything = `table inet lab_load {
	comment "all kinds"
	ct helper tracker { type "ftp" protocol tcp; }
	set networks { type ipv4_addr; flags interval, timeout; elements = { 192.0.2.0/24, 192.0.3.0/24 timeout 1h, 0.0.0.0/30, 255.255.255.255 }; }
	set six { type ipv6_addr; flags interval; elements = { 8000::/2, ffff::/16, 2001:db8::1 }; }
	set ports { type inet_service; flags interval; elements = { 0-79, 80, 443-65535 }; }
	set seen { type ipv4_addr; size 1000; flags dynamic, timeout; timeout 1m; }
	set busy { type ipv4_addr; size 1000; flags dynamic; }
	set none { type ifname; }
	map ways { type ifname : verdict; elements = { "lan" : goto inner, "wan" : drop }; }
	chain inner {
		tcp dport { 22, 80-90, 443 } counter packets 3 bytes 300 accept comment "#1 a rule"
		ip saddr . tcp dport { 192.0.2.1 . 80, 192.0.2.128/25 . 1000-2000 } limit rate 5/second burst 7 packets log prefix "x: " accept
		add @seen { ip saddr limit rate over 10/second } drop
		add @busy { ip saddr ct count over 5 } drop
		meta hour "08:00"-"17:00" meta day { Monday, Sunday } accept
		meta l4proto tcp reject with tcp reset
		reject with icmpx admin-prohibited
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
		meta mark set meta mark | 0x80000000
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname vmap @ways
		ip6 daddr != @six accept
		ip saddr @networks tcp dport @ports iifname @none accept
		tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu
		ct helper set "tracker"
	}
	chain nat {
		type nat hook postrouting priority srcnat; policy accept;
		iifname "lan" ip saddr 10.0.0.0/8 snat ip to 198.51.100.1-198.51.100.9 random
		oifname "wan" masquerade
	}
	chain nat_in {
		type nat hook prerouting priority dstnat; policy accept;
		tcp dport 80 dnat ip to 192.0.2.10:8080
		dnat ip prefix to ip daddr map { 203.0.113.0/25 : 10.0.0.0/25 }
		dnat ip6 to ip6 daddr map { 2001:db8::1 : 2001:db8:1::1 }
	}
}
`

// A loaded table is what nft(8) makes of the script, but it has an owner: no other hand changes it. Loaded
// again, it is replaced; what can't be loaded changes nothing.
func TestLoad(t *testing.T) {
	const table = "lab_load"
	image := func() Image {
		t.Helper()
		i, err := ReadImage(table)
		must(t, err)
		return i
	}
	_, err := Run(t.Context(), everything, "-f", "-") // without an owner, as an earlier version has loaded it
	must(t, err)
	plain := image()
	networks, err := Spans(table, "networks", true)
	must(t, err)
	if plain.Owned() {
		t.Error("a table of nft(8) has an owner")
	}
	for range 2 {
		loaded, err := Load(t.Context(), table, everything)
		must(t, err)
		now := image()
		if loaded.Digest() != now.Digest() || !now.Owned() {
			t.Errorf("it is not what Load says: %q, %q", loaded.Differences(now), now["table"])
		}
		if list := plain.Differences(now); !slices.Equal(list, []string{"table changed"}) { // its flags
			t.Errorf("it is not what nft(8) makes of the script: %q", list)
		}
		if all, err := Spans(table, "networks", true); err != nil || !slices.Equal(all, networks) {
			t.Errorf("a set has %v, %v; want %v", all, err, networks)
		}
		text, err := Table(t.Context(), table)
		must(t, err)
		for _, want := range []string{"counter packets 3 bytes 300 accept comment \"#1 a rule\"", "192.0.3.0/24 timeout 1h expires", "\"lan\" : goto inner", "0-79, 80, 443-65535"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	before := image().Digest()
	for _, hand := range []string{
		"insert rule inet lab_load forward accept", "add element inet lab_load networks { 10.0.0.0/8 }", "flush chain inet lab_load forward",
		"chain inet lab_load forward { policy accept; }", "delete table inet lab_load", "add table inet lab_load { flags dormant; }",
	} {
		if out, err := exec.Command("nft", hand).CombinedOutput(); err == nil || !strings.Contains(string(out), "not permitted") {
			t.Errorf("%s: %v\n%s", hand, err, out)
		}
	}
	must(t, exec.Command("nft", "flush ruleset").Run())
	for _, script := range []string{"table inet lab_load { chain c { jump nowhere; }; }", "table inet another {}"} {
		if _, err := Load(t.Context(), table, script); err == nil {
			t.Errorf("loads %s", script)
		}
	}
	if image().Digest() != before {
		t.Error("another hand, or what can't be loaded, has changed it")
	}
	must(t, Change(table, []Elements{{Set: "networks", Interval: true, Prefixes: prefixes("10.0.0.0/8")}}))
	if all, err := Spans(table, "networks", true); err != nil || slices.Equal(all, networks) {
		t.Errorf("its owner can't change it: %v %v", all, err)
	}
	must(t, Remove(table, "lab_nothing"))
	if image() != nil {
		t.Error("it is not removed")
	}
}
