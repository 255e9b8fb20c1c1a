// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/testing/testdisk"
)

const slotSize = 6 << 20

var (
	public, private, _ = ed25519.GenerateKey(nil)
	_, stranger, _     = ed25519.GenerateKey(nil)
)

// system is an upgrade file.
func system(version string, built int64, size int, key ed25519.PrivateKey, change func(*slot.System)) []byte {
	payload := make([]byte, size)
	random := rand.NewChaCha8([32]byte{byte(built), byte(size)})
	random.Read(payload)
	s := slot.System{Version: version, Arch: runtime.GOARCH, Built: time.Unix(built, 0), Schema: 1}
	if change != nil {
		change(&s)
	}
	s, err := slot.Describe(s, bytes.NewReader(payload))
	if err != nil {
		panic(err)
	}
	trailer, err := slot.Seal(s, key)
	if err != nil {
		panic(err)
	}
	return append(payload, trailer...)
}

// stick is a medium with version 1 in slot a, and in b what is given.
type stick struct {
	power       *testdisk.Power
	state, a, b *testdisk.Disk
	Medium
}

func newStick(t testing.TB, inB []byte) *stick {
	t.Helper()
	p := &testdisk.Power{Left: -1, Rand: rand.New(rand.NewPCG(1, 2))}
	s := &stick{power: p, state: testdisk.New(p, 1<<20), a: testdisk.New(p, slotSize), b: testdisk.New(p, slotSize)}
	for d, file := range map[*testdisk.Disk][]byte{s.a: system("1", 1000, 3<<20, private, nil), s.b: inB} {
		if file != nil {
			copy(d.Stable, file[:len(file)-slot.TrailerSize])
			copy(d.Stable[slotSize-slot.TrailerSize:], file[len(file)-slot.TrailerSize:])
		}
	}
	if err := slot.StoreState(s.state, slot.State{Slot: "a"}); err != nil {
		t.Fatal(err)
	}
	s.Medium = Medium{Booted: "a", State: "state", Slots: map[string]string{"a": "a", "b": "b"}, Open: func(path string) (Device, error) {
		return map[string]*testdisk.Disk{"state": s.state, "a": s.a, "b": s.b}[path], nil
	}}
	return s
}

// boot does what GRUB and the initramfs do, and returns what runs then.
func (s *stick) boot(t testing.TB) slot.System {
	t.Helper()
	state, err := slot.LoadState(s.state)
	if err != nil {
		t.Fatalf("GRUB can't read the boot state: %v", err)
	}
	first := state.Slot
	s.Trial = state.Try != ""
	if s.Trial {
		first, state.Try = state.Try, ""
		if err := slot.StoreState(s.state, state); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{first, slot.Other(first)} {
		if held, err := s.Holds(name, true); err == nil {
			s.Booted = name
			s.Trial = s.Trial && name == first
			return held.System
		}
	}
	t.Fatal("nothing boots")
	return slot.System{}
}

// reset cuts the power and gives it back.
func (s *stick) reset() {
	for _, d := range []*testdisk.Disk{s.state, s.a, s.b} {
		d.Fail()
	}
	s.power.Left = -1
}

func write2(t testing.TB, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "minne-2.upgrade")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, name string) *Source {
	t.Helper()
	s, err := Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var options = Options{Keys: []ed25519.PublicKey{public}}

// works is a router that has what is told of it, from one look on.
type works struct {
	has         Works
	from, looks int
}

func (w *works) Works(context.Context, []netip.Addr) (Works, error) {
	if w.looks++; w.looks <= w.from {
		return Works{}, errors.New("no daemon yet")
	}
	return w.has, nil
}

func TestUpgradeIsTriedAndKept(t *testing.T) {
	s := newStick(t, nil)
	promised := ""
	o := options
	o.Promised = func(to slot.System, target string) error { promised = to.Version + target; return nil }
	target, err := s.Install(t.Context(), open(t, write2(t, system("2", 2000, 4<<20+17, private, nil))), o)
	if err != nil || target != "b" || promised != "2b" {
		t.Fatalf("installed to %q with promise %q: %v", target, promised, err)
	}
	if got := s.boot(t); got.Version != "2" || !s.Trial {
		t.Fatalf("booted %+v, trial %v: expected a trial of 2", got, s.Trial)
	}
	if _, err := s.Install(t.Context(), open(t, write2(t, system("3", 3000, 1<<20, private, nil))), options); !errors.Is(err, ErrTrial) {
		t.Errorf("an upgrade during a trial: %v", err)
	}
	p := Promise{Within: time.Minute, Works: Works{Interfaces: []string{"wan"}, Sessions: []string{"BGP 192.0.2.1"}}}
	if err := s.FinishTrial(t.Context(), &works{has: p.Works, from: 1}, p); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := s.boot(t); got.Version != "2" || s.Trial {
			t.Fatalf("booted %+v, trial %v: expected 2 for good", got, s.Trial)
		}
	}
	// And back.
	if target, to, err := s.Undo(options); err != nil || target != "a" || to.Version != "1" {
		t.Fatalf("undo to %q %+v: %v", target, to, err)
	}
	if got := s.boot(t); got.Version != "1" || !s.Trial {
		t.Fatalf("booted %+v after the undo", got)
	}
	if got := s.boot(t); got.Version != "2" {
		t.Fatalf("a trial that was not found good lasted: %+v", got)
	}
}

func TestTrialThatFailsFallsBack(t *testing.T) {
	for name, r := range map[string]*works{
		"the daemon never answers":    {from: 1 << 30},
		"a session does not come":     {has: Works{Interfaces: []string{"wan"}}},
		"an interface does not come":  {has: Works{Sessions: []string{"BGP 192.0.2.1"}}},
		"the gateway does not answer": {has: Works{Interfaces: []string{"wan"}, Sessions: []string{"BGP 192.0.2.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStick(t, nil)
			if _, err := s.Install(t.Context(), open(t, write2(t, system("2", 2000, 1<<20, private, nil))), options); err != nil {
				t.Fatal(err)
			}
			s.boot(t)
			p := Promise{Within: 50 * time.Millisecond, Works: Works{Interfaces: []string{"wan"}, Sessions: []string{"BGP 192.0.2.1"}, Hosts: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
			err := s.FinishTrial(t.Context(), r, p)
			if err == nil {
				t.Fatal("found good")
			}
			if got := s.boot(t); got.Version != "1" || s.Trial {
				t.Errorf("booted %+v: expected the old system", got)
			}
			if status, err := s.Status(filepath.Join(t.TempDir(), "none")); err != nil || status.Slots[0].Boots != "next" || !status.Slots[0].Running || status.Trial {
				t.Errorf("status %+v, %v", status, err)
			}
		})
	}
}

// TestPowerCutAnywhere cuts the power after every single write and sync of an upgrade, many
// times each, for unsynchronised sectors land by chance: the router must boot a whole system.
func TestPowerCutAnywhere(t *testing.T) {
	files := map[string]string{"2": write2(t, system("2", 2000, 4<<20+17, private, nil)), "3": write2(t, system("3", 3000, 3<<20+512, private, nil))}
	moments, kept := 0, map[string]int{}
	for cut := 0; ; cut++ {
		whole := false
		for chance := range 8 {
			s := newStick(t, system("0", 500, 2<<20, private, nil))
			s.power.Rand = rand.New(rand.NewPCG(uint64(cut), uint64(chance)))
			s.power.Left = cut
			_, err := s.Install(t.Context(), open(t, files["2"]), options)
			if err != nil && !errors.Is(err, testdisk.ErrPower) {
				t.Fatal(err)
			}
			whole = err == nil
			s.reset()
			moments++
			first := s.boot(t)
			if first.Version != "1" && first.Version != "2" {
				t.Fatalf("cut %d, chance %d: booted %+v", cut, chance, first)
			}
			if second := s.boot(t); second.Version != "1" { // nobody found the trial good
				t.Fatalf("cut %d, chance %d: booted %+v after the trial", cut, chance, second)
			}
			kept[first.Version]++
			// A later upgrade works, whatever was left behind.
			s.Trial = false
			if _, err := s.Install(t.Context(), open(t, files["3"]), options); err != nil {
				t.Fatalf("cut %d, chance %d: the next upgrade: %v", cut, chance, err)
			}
			if next := s.boot(t); next.Version != "3" {
				t.Fatalf("cut %d, chance %d: booted %+v: expected 3", cut, chance, next)
			}
		}
		if whole {
			break
		}
	}
	t.Logf("%d power cuts: the old system booted %d times, the new one %d times", moments, kept["1"], kept["2"])
	if moments < 50 || kept["1"] == 0 || kept["2"] == 0 {
		t.Errorf("%d moments, %v: the power was not cut where it matters", moments, kept)
	}
}

// A router that is well begins to count its starts anew, and nothing else of the boot state changes.
func TestWell(t *testing.T) {
	s := newStick(t, nil)
	for _, c := range []struct{ was, is slot.State }{
		{slot.State{Slot: "a", Starts: "2", Failed: "b", Why: slot.NeverWell}, slot.State{Slot: "a", Failed: "b", Why: slot.NeverWell}},
		{slot.State{Slot: "b", Try: "a"}, slot.State{Slot: "b", Try: "a"}},
	} {
		if err := errors.Join(slot.StoreState(s.state, c.was), s.Well()); err != nil {
			t.Fatal(err)
		}
		if got, err := slot.LoadState(s.state); err != nil || got != c.is {
			t.Errorf("%+v became %+v, %v", c.was, got, err)
		}
	}
	var text strings.Builder
	if status, err := s.Status(filepath.Join(t.TempDir(), "none")); err != nil || status.Print(&text) != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "did not get well") {
		t.Errorf("no slot failed: %s", &text)
	}
	s.b = testdisk.New(s.power, slotSize)
	file := system("2", 2000, 1<<20, private, nil)
	copy(s.b.Stable, file[:len(file)-slot.TrailerSize])
	copy(s.b.Stable[slotSize-slot.TrailerSize:], file[len(file)-slot.TrailerSize:])
	if err := slot.StoreState(s.state, slot.State{Slot: "a", Failed: "b", Why: slot.NeverWell}); err != nil {
		t.Fatal(err)
	}
	if status, err := s.Status(filepath.Join(t.TempDir(), "none")); err != nil || status.Print(&text) != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "boots when the other one can't, did not get well in three starts") {
		t.Errorf("it is not said that slot b failed: %s", &text)
	}
}

func TestRefused(t *testing.T) {
	good := system("2", 2000, 1<<20, private, nil)
	flipped := bytes.Clone(good)
	flipped[5000] ^= 1
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"an unsigned file":         {system("2", 2000, 1<<20, nil, nil), "not signed"},
		"another's signature":      {system("2", 2000, 1<<20, stranger, nil), "not signed by a trusted key"},
		"another architecture":     {system("2", 2000, 1<<20, private, func(s *slot.System) { s.Arch = "pdp11" }), "this router is " + runtime.GOARCH},
		"an older version":         {system("0", 500, 1<<20, private, nil), "--downgrade"},
		"too big for the slot":     {system("2", 2000, slotSize, private, nil), "medium is too small"},
		"a flipped bit in payload": {flipped, "SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStick(t, system("0", 500, 2<<20, private, nil))
			before := bytes.Clone(s.b.Stable)
			_, err := s.Install(t.Context(), open(t, write2(t, c.file)), options)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: expected %q", err, c.says)
			}
			if name != "a flipped bit in payload" && !bytes.Equal(before, s.b.Stable) {
				t.Error("the other slot was touched")
			}
			if got := s.boot(t); got.Version != "1" || s.Trial {
				t.Errorf("booted %+v", got)
			}
		})
	}
	for name, file := range map[string][]byte{
		"a short file": good[:100], "a cut file": good[:len(good)-100], "words behind": append(bytes.Clone(good), good[len(good)-slot.TrailerSize:]...), "nothing": nil,
	} {
		if _, err := Open(t.Context(), write2(t, file)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for _, name := range []string{"ftp://example.org/x", filepath.Join(t.TempDir(), "none")} {
		if _, err := Open(t.Context(), name); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	s := newStick(t, nil)
	if _, _, err := s.Undo(options); err == nil || !strings.Contains(err.Error(), "no system to fall back to") {
		t.Errorf("undo without another system: %v", err)
	}
	older := options
	older.Downgrade = true
	if _, err := s.Install(t.Context(), open(t, write2(t, system("0", 500, 1<<20, private, nil))), older); err != nil {
		t.Errorf("a wanted downgrade: %v", err)
	}
	s.b.Broken = true
	if _, err := s.Install(t.Context(), open(t, write2(t, good)), options); err == nil {
		t.Error("a worn-out medium was written")
	}
	if got := s.boot(t); got.Version != "1" {
		t.Errorf("booted %+v from a worn-out medium", got)
	}
}

// A set of the running system is lost only when it is named.
func TestSetsAreKept(t *testing.T) {
	with := func(names ...string) func(*slot.System) {
		return func(s *slot.System) {
			s.Layers = []slot.Layer{{Name: slot.Base}}
			for _, name := range names {
				s.Layers = append(s.Layers, slot.Layer{Name: name})
			}
		}
	}
	upgrade := func(t *testing.T, change func(*slot.System), without ...string) (*stick, error) {
		s := newStick(t, nil)
		running := system("1", 1000, 3<<20, private, with("wifi", "snmp"))
		copy(s.a.Stable[slotSize-slot.TrailerSize:], running[len(running)-slot.TrailerSize:])
		o := options
		o.Without = without
		_, err := s.Install(t.Context(), open(t, write2(t, system("2", 2000, 1<<20, private, change))), o)
		return s, err
	}
	for name, c := range map[string]struct {
		change  func(*slot.System)
		without []string
		says    string
	}{
		"a base alone":  {nil, nil, "lacks what the running system has: wifi,snmp: build it with ./dev image --with wifi,snmp, or add --without wifi,snmp"},
		"one of them":   {with("wifi"), nil, "--without snmp to lose it"},
		"another named": {with("wifi"), []string{"wifi"}, "--without snmp to lose it"},
	} {
		s, err := upgrade(t, c.change, c.without...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v: expected %q", name, err, c.says)
		}
		if len(bytes.Trim(s.b.Stable, "\x00")) > 0 {
			t.Errorf("%s: the other slot was touched", name)
		}
	}
	for name, c := range map[string]struct {
		change  func(*slot.System)
		without []string
	}{
		"all and more": {with("lldp", "snmp", "wifi"), nil},
		"named":        {nil, []string{"snmp", "wifi"}},
	} {
		s, err := upgrade(t, c.change, c.without...)
		if err != nil || s.boot(t).Version != "2" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOverHTTP(t *testing.T) {
	file := system("2", 2000, 3<<20+5, private, nil)
	cut := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == "/missing":
			http.NotFound(w, q)
		case q.URL.Path == "/whole":
			w.Write(file)
		case q.URL.Path == "/page":
			http.ServeContent(w, q, "", time.Time{}, strings.NewReader(strings.Repeat("<html>", 5000)))
		case cut && q.Header.Get("Range") == "":
			w.Header().Set("Content-Length", fmt.Sprint(len(file)))
			w.Write(file[:1<<20])
		default:
			http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(file))
		}
	}))
	defer server.Close()
	s := newStick(t, nil)
	if _, err := s.Install(t.Context(), open(t, server.URL+"/minne-2"), options); err != nil {
		t.Fatal(err)
	}
	if got := s.boot(t); got.Version != "2" {
		t.Errorf("booted %+v", got)
	}
	for path, says := range map[string]string{"/missing": "404", "/whole": "download the file", "/page": "expected an upgrade file"} {
		if _, err := Open(t.Context(), server.URL+path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v: expected %q", path, err, says)
		}
	}
	cut = true
	s = newStick(t, nil)
	if _, err := s.Install(t.Context(), open(t, server.URL+"/minne-2"), options); err == nil || !strings.Contains(err.Error(), "1048576 of") {
		t.Errorf("a download that was cut: %v", err)
	}
	if got := s.boot(t); got.Version != "1" {
		t.Errorf("booted %+v", got)
	}
}

func TestPromiseIsKeptWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "upgrade.json")
	want := Promise{To: slot.System{Version: "2"}, Slot: "b", Within: time.Minute, Outcome: Pending, Works: Works{Hosts: []netip.Addr{netip.MustParseAddr("2001:db8::1")}}}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadPromise(path)
	if err != nil || got.To.Version != "2" || got.Works.Hosts[0] != want.Works.Hosts[0] || got.Within != want.Within {
		t.Errorf("%+v, %v", got, err)
	}
	// Written, booted once, and here we are in slot a again: it fell back before it could say why.
	s := newStick(t, nil)
	status, err := s.Status(path)
	if err != nil || status.Last == nil || status.Last.Outcome != FellBack || status.Slots[1].Problem == "" {
		t.Errorf("%+v, %v", status, err)
	}
	var text strings.Builder
	if err := status.Print(&text); err != nil || !strings.Contains(text.String(), "fell back") || !strings.Contains(text.String(), "* slot a  version 1") {
		t.Errorf("%s, %v", &text, err)
	}
}
