// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"

	"minne/internal/base/diagnosis"
)

// The tree stands on 80 columns, with the summary in front and what to do below each finding.
func TestDoctor(t *testing.T) {
	checks := []diagnosis.Outcome{{Name: "wan", Result: diagnosis.OK, Text: "up, 1000 Mbit/s", Then: []diagnosis.Outcome{
		{Name: "gateway", Result: diagnosis.Failed, Text: "198.51.100.1 does not answer ARP or ND: is it on this link, in the same VLAN, and switched on?", Fix: "minne show neighbors",
			Then: []diagnosis.Outcome{{Name: "DNS", Result: diagnosis.Skipped, Text: "not checked: gateway failed"}}}}}}
	var b strings.Builder
	s := NewScreen(&b, 80, false)
	if err := Doctor(s, DoctorView{Counts: diagnosis.Count(checks), Checks: checks}); err != nil {
		t.Fatal(err)
	}
	const want = `failed: 1 of 2 checks; warnings 0, skipped 1

wan: ok; up, 1000 Mbit/s
  gateway: failed; 198.51.100.1 does not answer ARP or ND: is it on this link,
    in the same VLAN, and switched on?
    -> minne show neighbors
    DNS: skipped; not checked: gateway failed
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	if err := Doctor(s, DoctorView{Counts: diagnosis.Counts{OK: 3}}); err != nil || !strings.HasPrefix(b.String(), "ok: 3 checks; skipped 0\n") {
		t.Errorf("%q, %v", b.String(), err)
	}
}
