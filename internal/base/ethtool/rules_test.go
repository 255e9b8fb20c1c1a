// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/hex"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestRulesAsTheKernelReadsThem: the structure of linux/ethtool.h on machines with 64 bits, and headers in network order.
func TestRulesAsTheKernelReadsThem(t *testing.T) {
	var r ruleRequest
	for what, c := range map[string][2]uintptr{
		"fs":                {unsafe.Offsetof(r.spec), 16},
		"fs.h_u":            {unsafe.Offsetof(r.spec.header), 4},
		"fs.m_u":            {unsafe.Offsetof(r.spec.mask), 76},
		"fs.ring_cookie":    {unsafe.Offsetof(r.spec.cookie), 152},
		"fs.location":       {unsafe.Offsetof(r.spec.location), 160},
		"rule_cnt":          {unsafe.Offsetof(r.count), 184},
		"rule_locs":         {unsafe.Offsetof(r.locations), 188},
		"without rule_locs": {unsafe.Sizeof(flowHash{}), 192},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", what, c[0], c[1])
		}
	}
	tcp, udp := uint8(unix.IPPROTO_TCP), uint8(unix.IPPROTO_UDP)
	for words, c := range map[string]struct {
		m    Match
		kind uint32
		at   int
		head string
	}{
		"tcp4 dst-port 179":          {Match{Protocol: tcp, Port: 179}, 1, 10, "00b3"},
		"tcp4 src-port 179":          {Match{Protocol: tcp, Source: 179}, 1, 8, "00b3"},
		"udp4 dst-port 3784":         {Match{Protocol: udp, Port: 3784}, 2, 10, "0ec8"},
		"tcp6 dst-port 22":           {Match{IPv6: true, Protocol: tcp, Port: 22}, 5, 34, "0016"},
		"udp6 src-port 5 dst-port 6": {Match{IPv6: true, Protocol: udp, Source: 5, Port: 6}, 6, 32, "00050006"},
		"ip4 l4proto 89":             {Match{Protocol: 89}, 13, 14, "59"},
		"ip6 l4proto 58 type 135":    {Match{IPv6: true, Protocol: 58, ICMPType: 135}, 14, 32, "87"},
		"ether proto 0x0806":         {Match{EtherType: 0x806}, 18, 12, "0806"},
	} {
		s := c.m.spec()
		if got := hex.EncodeToString(s.header[c.at:]); c.m.String() != words || s.kind != c.kind || !strings.HasPrefix(got, c.head) {
			t.Errorf("%s: %s, kind %d, %s", words, c.m, s.kind, got)
		}
		if got := s.match(); got != c.m {
			t.Errorf("%s is read as %s", words, got)
		}
		s.mask[0] = 0xff
		if got := s.match(); got != (Match{}) {
			t.Errorf("%s with an address as well is read as %s", words, got)
		}
		s = c.m.spec()
		s.extensionMask[2] = 0xff
		if got := s.match(); got != (Match{}) {
			t.Errorf("%s with a MAC as well is read as %s", words, got)
		}
	}
}

// TestRulesThatADriverHasNot: with a real one.
func TestRulesThatADriverHasNot(t *testing.T) {
	run(t, "ip", "link", "add", "plain", "type", "veth", "peer", "name", "plain0")
	t.Cleanup(func() { run(t, "ip", "link", "del", "plain") })
	tool, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	if _, _, err := tool.Rules("plain"); !Lacks(err) {
		t.Errorf("%v", err)
	}
	if err := tool.AddRule("plain", Match{EtherType: 0x806}, 0); !Lacks(err) {
		t.Errorf("%v", err)
	}
}
