// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // schedules are written by it
	testns.Main(m)
}

var update = flag.Bool("update", false, "write testdata/*.nft anew")

func school(t *testing.T) Desired { return rendered(t, "testdata/school.yaml") }

func rendered(t *testing.T, file string) Desired {
	t.Helper()
	cfg, _, err := config.Load(file)
	if err == nil {
		err = config.Check(cfg, config.Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var openings []policy.Opening
	if ssh := cfg.Services.SSH; ssh != nil {
		openings = append(openings, policy.Opening{Text: "SSH", Protocols: []uint8{unix.IPPROTO_TCP}, Port: 22, Interfaces: ssh.Interfaces})
	}
	d, err := Render(cfg, openings, "testdata")
	if err = errors.Join(err, d.Broken); err != nil {
		t.Fatal(err)
	}
	return d
}

func fresh(t *testing.T) *Firewall {
	t.Helper()
	f := newFirewall(t, t.TempDir())
	must(t, f.Apply(t.Context(), Desired{}))
	return f
}

// newFirewall returns one that does nothing by itself when a minute begins, which repairs what a test has just
// damaged, and nothing at all any more when the test is over.
func newFirewall(t *testing.T, dir string) *Firewall {
	f := New(dir, slog.New(slog.DiscardHandler))
	f.after = func(time.Duration, func()) *time.Timer { return time.NewTimer(time.Hour) }
	t.Cleanup(func() {
		f.order.Lock()
		defer f.order.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.desired = Desired{}
		f.watchClock()
		if f.timer != nil {
			f.timer.Stop()
		}
	})
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The table as people read it, and as nft takes it.
func TestText(t *testing.T) {
	for _, name := range []string{"school", "vrf"} {
		file := "testdata/" + name + ".nft"
		got, _ := named(Text(rendered(t, "testdata/"+name+".yaml").Policy))
		if *update {
			must(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if string(want) != got {
			t.Errorf("%s is out of date; after a look: go test ./internal/subsystem/firewall -run TestText -update\n%s", file, config.Diff(want, []byte(got), "committed", "made"))
		}
	}
	if Text(nil) != "" {
		t.Error("no policy makes a table")
	}
}

// A table is loaded once, taken away again, and no other is touched.
func TestApply(t *testing.T) {
	f, d := fresh(t), school(t)
	_, err := nft.Run(t.Context(), "table inet other { chain c { counter; }; }", "-f", "-")
	must(t, err)
	changes, err := f.Plan(t.Context(), d)
	must(t, err)
	if text := fmt.Sprint(changes); !strings.Contains(text, "firewall of 5 zones with 12 rules") {
		t.Errorf("plan: %s", text)
	}
	must(t, f.Apply(t.Context(), d))
	writes := f.Writes()
	must(t, f.Apply(t.Context(), d))
	if f.Writes() != writes {
		t.Error("the second apply wrote")
	}
	if changes, err := f.Plan(t.Context(), d); err != nil || len(changes) > 0 {
		t.Errorf("plan of what is loaded: %v %v", changes, err)
	}
	o, err := f.Observe(t.Context())
	must(t, err)
	if !o.On || o.Problem != "" || len(o.Zones) != 5 || len(o.NAT) != 6 || len(o.Sets) != 3 {
		t.Errorf("observed %+v", o)
	}
	must(t, f.Apply(t.Context(), Desired{}))
	tables, err := nft.Run(t.Context(), "", "list", "tables")
	must(t, err)
	if strings.TrimSpace(tables) != "table inet other" {
		t.Errorf("tables left: %s", tables)
	}
}

// The table for VRFs, and the guard, as the kernel takes them and gives them back.
func TestApplyVRF(t *testing.T) {
	f, d := fresh(t), rendered(t, "testdata/vrf.yaml")
	must(t, f.Apply(t.Context(), d))
	if changes, err := f.Plan(t.Context(), d); err != nil || len(changes) > 0 {
		t.Errorf("plan of what is loaded: %v %v", changes, err)
	}
	guard, err := nft.Run(t.Context(), "", "list", "table", "inet", guardTable)
	must(t, err)
	for _, line := range []string{`meta sdifname "mgmt" counter`, `meta sdifname "red" counter`, `meta sdifname "oob" `} {
		if !strings.Contains(guard, line) {
			t.Errorf("the guard lacks %q:\n%s", line, guard)
		}
	}
	must(t, f.Apply(t.Context(), Desired{}))
}

// A policy that can't be made any more shuts the way after a boot, and leaves a
// running router as it is.
func TestBroken(t *testing.T) {
	f, d := fresh(t), school(t)
	broken := Desired{Broken: errors.New("there is no file")}
	if err := f.Apply(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "there is no file") {
		t.Errorf("error %v", err)
	}
	if text := listGuard(t); !isShut(text) {
		t.Errorf("loaded:\n%s", text)
	}
	must(t, f.Apply(t.Context(), d))
	before, err := loaded()
	must(t, err)
	if err := f.Apply(t.Context(), broken); err == nil {
		t.Error("no error")
	}
	if now, err := loaded(); err != nil || now != before {
		t.Errorf("the table has changed: %v", err)
	}
	if text := listGuard(t); isShut(text) {
		t.Errorf("nothing passes any more:\n%s", text)
	}
}

func listGuard(t *testing.T) string {
	t.Helper()
	text, err := nft.Table(t.Context(), guardTable)
	must(t, err)
	return text
}

// isShut says whether the guard has nothing forwarded, and no rules heard at the router.
func isShut(text string) bool {
	return strings.Contains(text, "hook forward priority filter + 10; policy drop;") && !strings.Contains(text, "0x7fffffff accept") && strings.Contains(text, "0x3fffffff accept")
}

// A kernel without a helper is told of before anything changes.
func TestHelperMissing(t *testing.T) {
	p := &policy.Policy{Helpers: []policy.Helper{{Name: "ftq", Protocol: 6, Port: 21}}}
	if _, err := missingHelpers(t.Context(), p); err == nil || !strings.Contains(err.Error(), "this kernel has no ftq (module nf_conntrack_ftq)") {
		t.Errorf("error %v", err)
	}
	if builtIn("nf_nat_ftq") {
		t.Error("a module that does not exist is there")
	}
}
