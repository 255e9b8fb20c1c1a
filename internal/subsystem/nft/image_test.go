// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// Each change by hand makes another image, and says what it is; what packets and time do makes none.
func TestImage(t *testing.T) {
	const first = `table inet lab
delete table inet lab
table inet lab {
	comment "a table for tests"
	ct helper ftp { type "ftp" protocol tcp; }
	set networks_v4 { type ipv4_addr; flags interval, timeout; elements = { 192.0.2.0/24 }; }
	set doors { type inet_service; flags interval; elements = { 80, 1000-2000 }; }
	set seen { type ipv4_addr; flags dynamic, timeout; timeout 60s; }
	chain from_lan { tcp dport @doors counter accept; }
	chain forward {
		type filter hook forward priority filter; policy drop;
		iifname vmap { "lan" : jump from_lan, "dmz" : drop }
		update @seen { ip saddr limit rate over 5/second } counter drop
		counter drop comment "default"
	}
}
`
	load := func(script string) {
		t.Helper()
		_, err := Run(t.Context(), script, "-f", "-")
		must(t, err)
	}
	read := func() Image {
		t.Helper()
		i, err := ReadImage("lab")
		must(t, err)
		return i
	}
	load(first)
	was := read()
	load(first)
	if again := read(); again.Digest() != was.Digest() {
		t.Errorf("the same table differs: %q", was.Differences(again))
	}
	for _, same := range []string{
		"add element inet lab seen { 192.0.2.1 timeout 60s }",
		"add element inet lab networks_v4 { 10.0.0.0/8 timeout 60s }",
		"reset counters table inet lab",
	} {
		load(same)
		if again := read(); again.Digest() != was.Digest() {
			t.Errorf("%s: differs: %q", same, was.Differences(again))
		}
	}
	for change, want := range map[string]string{
		"insert rule inet lab forward accept":                             "[rules of chain forward changed]",
		"add rule inet lab from_lan accept":                               "[rules of chain from_lan changed]",
		"flush chain inet lab from_lan":                                   "[rules of chain from_lan gone]",
		"chain inet lab forward { policy accept; }":                       "[chain forward changed]",
		"add chain inet lab extra { type filter hook input priority 0; }": "[chain extra new]",
		"delete element inet lab doors { 80 }":                            "[elements of set doors changed]",
		"add set inet lab more { type ipv4_addr; }":                       "[set more new]",
		"add ct helper inet lab tftp { type \"tftp\" protocol udp; }":     "[object tftp new]",
		"add table inet lab { flags dormant; }":                           "[table changed]",
		"delete ct helper inet lab ftp":                                   "[object ftp gone]",
	} {
		load(first)
		load(change)
		if got := fmt.Sprint(was.Differences(read())); got != want {
			t.Errorf("%s: %s, want %s", change, got, want)
		}
	}
	load("delete table inet lab")
	if i, err := ReadImage("lab"); i != nil || err != nil {
		t.Errorf("of no table: %v %v", i, err)
	}
}

// What a set holds is what was put in, whoever did it and in whichever pieces.
func TestSpans(t *testing.T) {
	fresh(t)
	want := func(set string, interval bool, texts string) {
		t.Helper()
		got, err := Spans("lab", set, interval)
		must(t, err)
		if fmt.Sprint(got) != texts {
			t.Errorf("%s: %v, want %s", set, got, texts)
		}
	}
	want("networks_v4", true, "[{192.0.2.0 192.0.2.255} {198.51.100.7 198.51.100.7}]")
	must(t, Change("lab", []Elements{
		{Set: "networks_v4", Interval: true, Prefixes: prefixes("10.0.0.0/8", "11.0.0.0/8", "255.255.255.255/32", "0.0.0.0/30")},
		{Set: "networks_v6", Interval: true, Timeout: time.Hour, Prefixes: prefixes("2001:db8::/64", "ffff::/16")},
		{Set: "hosts_v4", Prefixes: prefixes("192.0.2.1/32", "192.0.2.2/32", "192.0.2.9/32")},
	}))
	want("networks_v4", true, "[{0.0.0.0 0.0.0.3} {10.0.0.0 11.255.255.255} {192.0.2.0 192.0.2.255} {198.51.100.7 198.51.100.7} {255.255.255.255 255.255.255.255}]")
	want("networks_v6", true, "[{2001:db8:: 2001:db8::ffff:ffff:ffff:ffff} {ffff:: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff}]")
	want("hosts_v4", false, "[{192.0.2.1 192.0.2.2} {192.0.2.9 192.0.2.9}]")
	outer := Merge([]Span{SpanOf(netip.MustParsePrefix("10.0.0.0/8")), SpanOf(netip.MustParsePrefix("11.0.0.0/8")), SpanOf(netip.MustParsePrefix("2001:db8::/32"))})
	for text, in := range map[string]bool{"10.1.0.0/16": true, "10.0.0.0/7": true, "9.0.0.0/8": false, "8.0.0.0/5": false, "2001:db8:1::/48": true, "2001:db9::/48": false} {
		if Cover(outer, []Span{SpanOf(netip.MustParsePrefix(text))}) != in {
			t.Errorf("%s in %v: not %t", text, outer, in)
		}
	}
}
