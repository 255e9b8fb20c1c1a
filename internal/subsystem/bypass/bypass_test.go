// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestBalancer: services of IPVS are found, the heading of its table alone is none.
func TestBalancer(t *testing.T) {
	const heading = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n"
	for text, found := range map[string]int{heading: 0, heading + "TCP  C0000201:0050 wlc \n  -> C6336402:0050      Masq    1      0          0\n": 1} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "net"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "net/ip_vs"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := settings{root}.read()
		if err != nil || len(s.Families[IPv4]) != found || len(s.Families[IPv6]) != found {
			t.Errorf("%q: %+v, %v", text, s.Families, err)
		}
	}
}

// TestDisciplines: which of them change packets.
func TestDisciplines(t *testing.T) {
	const rate = 125000
	none := func(int, uint32) (attached, error) { return attached{}, nil }
	some := func(int, uint32) (attached, error) { return attached{others: true}, nil }
	ours := func(int, uint32) (attached, error) { return attached{own: true}, nil }
	both := func(int, uint32) (attached, error) { return attached{own: true, others: true}, nil }
	for _, c := range []struct {
		d               discipline
		filters         func(int, uint32) (attached, error)
		ingress, egress int
	}{
		{discipline{kind: "noqueue", parent: tcRoot, rate: math.MaxUint32}, none, 0, 0},
		{discipline{kind: "mq", parent: tcRoot, rate: math.MaxUint32}, none, 0, 0},
		{discipline{kind: "fq_codel", parent: 1, rate: math.MaxUint32}, none, 0, 0},
		{discipline{kind: "fq_codel", parent: tcRoot, rate: math.MaxUint32}, some, 0, 1},
		{discipline{kind: "fq", parent: 1, rate: math.MaxUint32}, none, 0, 0},
		{discipline{kind: "fq", parent: 1, rate: rate}, none, 0, 1},
		{discipline{kind: "cake", parent: tcRoot, rate: math.MaxUint32}, none, 0, 1},
		{discipline{kind: "prio", parent: tcRoot, rate: math.MaxUint32}, none, 0, 1},
		{discipline{kind: "ingress"}, none, 0, 0},
		{discipline{kind: "ingress"}, some, 1, 0},
		{discipline{kind: "ingress"}, ours, 1, 0},
		{discipline{kind: "ingress"}, both, 2, 0},
		{discipline{kind: "clsact"}, some, 1, 1},
		{discipline{kind: "clsact", egress: 7}, none, 0, 1}, // a block that it shares
	} {
		var s State
		if err := c.d.note(&s, c.filters); err != nil || len(s.Ingress[0]) != c.ingress || len(s.Egress[0]) != c.egress {
			t.Errorf("%+v: %+v, %v", c.d, s, err)
		}
	}
}
