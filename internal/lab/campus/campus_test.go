// SPDX-License-Identifier: Apache-2.0

package campus

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"minne/internal/model/config"
)

func TestShareLeavesEachISPSomethingOfItsOwn(t *testing.T) {
	var table, v6 []netip.Prefix
	for i := range 2000 {
		table = append(table, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), 0}), 24))
		v6 = append(v6, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x2a, 0, byte(i >> 8), byte(i)}), 48))
	}
	table = append(table, v6...)
	s, err := share(table)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.common) != len(table)*18/20 || len(s.a) != len(table)*19/20 || len(s.b) != len(s.a) {
		t.Errorf("common %d, A %d, B %d of %d", len(s.common), len(s.a), len(s.b), len(table))
	}
	own := func(all []netip.Prefix, c customer) bool {
		for _, p := range all {
			if p.Contains(c.host4.Addr()) || p.Contains(c.host6.Addr()) {
				return true
			}
		}
		return false
	}
	if !own(s.a, s.hostA) || own(s.b, s.hostA) || !own(s.b, s.hostB) || own(s.a, s.hostB) {
		t.Errorf("customers %+v and %+v are not in a prefix of their ISP alone", s.hostA, s.hostB)
	}
	if _, err := share(table[:10]); err == nil {
		t.Error("a table that is too small was shared")
	}
}

func TestTheBordersFileIsRight(t *testing.T) {
	for _, description := range []string{"", "something else"} {
		for _, p := range []pace{native, emulated} {
			c := Campus{pace: p}
			if _, err := config.Parse("border.yaml", []byte(c.BorderConfig(description))); err != nil {
				t.Error(err)
			}
			if description != "" && c.BorderConfig(description) == c.BorderConfig("") {
				t.Error("the description makes no difference")
			}
		}
	}
}

func TestNumberGroupsDigits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{{0, "0"}, {7, "7"}, {999, "999"}, {1000, "1,000"}, {901899, "901,899"}, {1234567, "1,234,567"}, {2.5, "2.5"}, {0.123, "0.12"}, {143.4, "143"}} {
		if got := number(c.v); got != c.want {
			t.Errorf("%v: %s, expected %s", c.v, got, c.want)
		}
	}
}

func TestReportMarksWhatFailed(t *testing.T) {
	var progress, table bytes.Buffer
	r := NewReport(&progress)
	r.Step("looking")
	r.Add(Row{Topic: "one", What: "good", Value: 1500, Unit: "Mbit/s"})
	if r.Failed() {
		t.Error("failed without a failure")
	}
	r.Add(Row{Topic: "two", What: "bad", Unit: "ok", Failed: "no answer"})
	if !r.Failed() {
		t.Error("a failure was not noticed")
	}
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ONE", "✓ good", "1,500 Mbit/s", "✗ bad", "no: no answer"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	if !strings.Contains(progress.String(), "looking") {
		t.Errorf("progress %q", progress.String())
	}
}
