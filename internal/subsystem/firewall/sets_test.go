// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/nft"
)

// Live elements stay over a change of the table and a new daemon, until their time is up.
func TestSets(t *testing.T) {
	f, d := fresh(t), school(t)
	must(t, f.Apply(t.Context(), d))
	change := func(q SetChange, want SetChanged, words string) {
		t.Helper()
		got, err := f.ChangeSet(q)
		if got != want || (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %+v, %v; want %+v, %q", q, got, err, want, words)
		}
	}
	change(SetChange{Set: "blocked", Add: []string{"192.0.2.1", "2001:db8:1::/64", "192.0.2.1"}}, SetChanged{Added: 2}, "")
	change(SetChange{Set: "blocked", Add: []string{"192.0.2.1"}, Timeout: time.Minute}, SetChanged{}, "")
	change(SetChange{Set: "web", Add: []string{"10.3.0.11"}}, SetChanged{Added: 1}, "")
	change(SetChange{Set: "blocked", Add: []string{"198.51.100.7"}}, SetChanged{}, "")
	change(SetChange{Set: "blocked", Add: []string{"192.0.2.9", "198.51.0.0/16"}}, SetChanged{}, "overlaps 198.51.100.0/24")
	change(SetChange{Set: "blocked", Add: []string{"192.0.2.0/24"}}, SetChanged{}, "overlaps 192.0.2.1")
	change(SetChange{Set: "blocked", Delete: []string{"198.51.100.0/24"}}, SetChanged{}, "comes from the configuration")
	change(SetChange{Set: "blocked", Delete: []string{"10.0.0.1"}}, SetChanged{}, "")
	change(SetChange{Set: "doors", Add: []string{"10.0.0.1"}}, SetChanged{}, "holds ports")
	change(SetChange{Set: "web", Add: []string{"10.0.0.0/8"}}, SetChanged{}, "single addresses")
	change(SetChange{Set: "web", Add: []string{"web"}}, SetChanged{}, "neither an address nor a prefix")

	kernel := func(set, element string) bool {
		text, err := nft.Run(t.Context(), "", "list", "set", "inet", tableName, set)
		must(t, err)
		return strings.Contains(text, element)
	}
	if !kernel("blocked_v4", "192.0.2.1 timeout 1m") || kernel("blocked_v4", "192.0.2.9") || !kernel("blocked_v6", "2001:db8:1::/64 timeout 1h") || !kernel("web_v4", "10.3.0.11") {
		t.Error("the kernel's sets are not what was asked for")
	}
	again := newFirewall(t, filepath.Dir(f.live.path))
	must(t, again.Apply(t.Context(), Desired{}))
	must(t, again.Apply(t.Context(), d))
	if !kernel("blocked_v4", "192.0.2.1 timeout") || !kernel("web_v4", "10.3.0.11") {
		t.Error("live elements are gone after a reload")
	}
	list, err := again.Elements("web")
	must(t, err)
	if fmt.Sprint(list) != "[{10.3.0.10 false <nil>} {2001:db8:3::10 false <nil>} {10.3.0.11 true <nil>}]" {
		t.Errorf("elements %v", list)
	}
	again.live.expire(again.live.now() + 2*time.Hour)
	if len(again.live.sets) != 1 {
		t.Errorf("live elements after two hours: %v", again.live.sets)
	}
}

// heard is a listener that writes down what it hears.
type heard struct {
	f     *Firewall
	words chan string
}

func (h heard) SetChanged(name string, added, deleted []netip.Prefix) {
	h.words <- fmt.Sprint(name, " +", added, " -", deleted, " now ", len(h.f.LiveElements(name)))
}

func (h heard) ConnectionsEnded() { h.words <- "ended" }
func (h heard) ForceChanged()     {}

func (h heard) want(t *testing.T, words string) {
	t.Helper()
	select {
	case got := <-h.words:
		if got != words {
			t.Errorf("heard %q, want %q", got, words)
		}
	case <-time.After(time.Minute):
		t.Errorf("heard nothing, want %q", words)
	}
}

// The listener hears what changes, and that the time of an element is up, and nothing else.
func TestListener(t *testing.T) {
	f, d := fresh(t), school(t)
	must(t, f.Apply(t.Context(), d))
	h := heard{f, make(chan string, 100)}
	f.Listen(h)
	change := func(q SetChange) {
		t.Helper()
		_, err := f.ChangeSet(q)
		must(t, err)
	}
	change(SetChange{Set: "web", Add: []string{"10.3.0.11", "10.3.0.10", "10.3.0.12"}})
	h.want(t, "web +[10.3.0.11/32 10.3.0.12/32] -[] now 2")
	change(SetChange{Set: "web", Add: []string{"10.3.0.11"}, Timeout: time.Hour}) // another time, no other element
	change(SetChange{Set: "web", Delete: []string{"10.3.0.11", "10.3.0.13"}})
	h.want(t, "web +[] -[10.3.0.11/32] now 1")
	change(SetChange{Set: "web", Delete: []string{"10.3.0.12"}, Add: []string{"10.3.0.12"}})
	change(SetChange{Set: "web", Add: []string{"10.3.0.14", "10.3.0.15"}, Timeout: 50 * time.Millisecond})
	h.want(t, "web +[10.3.0.14/32 10.3.0.15/32] -[] now 3")
	change(SetChange{Set: "web", Add: []string{"10.3.0.15"}, Timeout: time.Hour}) // may come too late
	for heardAll := 0; heardAll < 2; {
		select {
		case got := <-h.words:
			heardAll += strings.Count(got[strings.Index(got, "-["):], "10.3.0.14/32") * 2
			if strings.HasPrefix(got, "web +[] -[]") {
				t.Errorf("heard %q", got)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing was heard when an element's time was up")
		}
	}
	if list := f.LiveElements("web"); !slices.Contains(list, netip.MustParsePrefix("10.3.0.15/32")) || slices.Contains(list, netip.MustParsePrefix("10.3.0.14/32")) {
		t.Errorf("live elements %v", list)
	}
}

// A journal that was cut short loses its last change; the next one writes it anew.
func TestJournal(t *testing.T) {
	dir, d := t.TempDir(), school(t)
	path := filepath.Join(dir, "sets.journal")
	f := newFirewall(t, dir)
	must(t, f.Apply(t.Context(), Desired{}))
	must(t, f.Apply(t.Context(), d))
	for i := range 3 {
		_, err := f.ChangeSet(SetChange{Set: "web", Add: []string{fmt.Sprintf("10.3.1.%d", i)}})
		must(t, err)
	}
	text, err := os.ReadFile(path)
	must(t, err)
	if n := strings.Count(string(text), "\n"); n != 1+3 || !strings.HasPrefix(string(text), bootHead) {
		t.Errorf("%d lines for the boot and 3 changes", n)
	}
	must(t, os.WriteFile(path, text[:len(text)-5], 0o600))
	again := newFirewall(t, dir)
	must(t, again.Apply(t.Context(), Desired{}))
	must(t, again.Apply(t.Context(), d))
	if list := again.LiveElements("web"); len(list) != 2 {
		t.Errorf("live elements %v", list)
	}
	_, err = again.ChangeSet(SetChange{Set: "web", Add: []string{"10.3.1.9"}})
	must(t, err)
	again = newFirewall(t, dir)
	again.desired = d
	if list := again.LiveElements("web"); len(list) != 3 {
		t.Errorf("live elements %v", list)
	}
}

// A journal of what has come and gone does not grow without end.
func TestJournalIsWrittenAnew(t *testing.T) {
	l, err := readLedger(filepath.Join(t.TempDir(), "sets.journal"), newKernelClocks())
	must(t, err)
	list := make([]netip.Prefix, 1000)
	for i := range list {
		list[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	}
	hour := until{at: l.now() + time.Hour}
	must(t, l.write(record{Set: "b", Add: list[:1], Until: hour}))
	for range 30 {
		must(t, l.write(record{Set: "a", Add: list}))
		must(t, l.write(record{Set: "a", Delete: list}))
	}
	must(t, l.write(record{Set: "a", Add: list[5:7]}))
	text, err := os.ReadFile(l.path)
	must(t, err)
	if len(text) > 15*2*spare {
		t.Errorf("the journal of 3 elements has %d bytes", len(text))
	}
	again, err := readLedger(l.path, newKernelClocks())
	must(t, err)
	if u, _ := again.set("b").Get(list[0]); u != hour || !slices.Equal(again.sorted("a"), list[5:7]) {
		t.Errorf("read %v and %v", again.sorted("b"), again.sorted("a"))
	}
}
