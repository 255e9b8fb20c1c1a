// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func newLogged() (*Book, *bytes.Buffer) {
	var log bytes.Buffer
	return NewBook(slog.New(slog.NewTextHandler(&log, nil))), &log
}

func TestAFaultIsLoggedOnceAndGoes(t *testing.T) {
	b, log := newLogged()
	b.Fault("firewall", "table deleted")
	b.Fault("clock", "not synchronised")
	b.Fault("firewall", "table deleted")
	if all := b.Faults(); len(all) != 2 || all[0].Key != "firewall" || all[1].Text != "not synchronised" {
		t.Fatalf("faults: %+v", all)
	}
	b.Fault("firewall", "rule inserted")
	since := b.Faults()[0].Since
	b.Fault("firewall", "rule inserted")
	if f := b.Faults()[0]; f.Text != "rule inserted" || f.Since != since {
		t.Errorf("the fault became %+v", f)
	}
	b.Fault("firewall", "")
	b.Clear("nothing")
	if all := b.Faults(); len(all) != 1 || all[0].Key != "clock" {
		t.Errorf("faults: %+v", all)
	}
	if n := strings.Count(log.String(), "part=firewall"); n != 3 {
		t.Errorf("the log names the firewall %d times, want 3 (two faults, one end):\n%s", n, log)
	}
}

func TestRepairsAreBounded(t *testing.T) {
	b, log := newLogged()
	for i := range keptRepairs + 5 {
		b.Repaired("address", fmt.Sprintf("number %d", i))
	}
	last, all := b.Repairs()
	if len(last) != keptRepairs || all != keptRepairs+5 || last[len(last)-1].Text != fmt.Sprintf("number %d", keptRepairs+4) {
		t.Errorf("%d repairs kept of %d, the last %+v", len(last), all, last[len(last)-1])
	}
	if n := strings.Count(log.String(), "part=address"); n != keptRepairs+5 {
		t.Errorf("%d repairs logged", n)
	}
}
