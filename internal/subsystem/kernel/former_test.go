// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/base/ethtool"
	"minne/internal/model/config"
)

// TestFormerValues: what system.cpus and ethernet changed is as it was before when they are gone from the configuration, also if the
// daemon was another one meanwhile; and what somebody changes afterwards stays.
func TestFormerValues(t *testing.T) {
	plain, err := config.Parse("test", []byte("version: 1\ninterfaces:\n  trunk: {match: {name: eth0}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := card(4, 2)
	p.spread = map[string][]int{"eth0": {1, 1, 0, 0}, "trunk": {1, 1, 0, 0}}
	p.tied = map[int][]int{1: p.cpus, 7: {2}}
	for _, name := range []string{"eth0", "trunk"} {
		p.taken[name][1].CPUs, p.sending[name][0].CPUs = []int{2, 3}, []int{1}
		p.hardware[name+" receive ring"] = 256
	}
	state := func() string {
		return fmt.Sprint(p.serving(), p.spread["trunk"], p.tied, p.hardware["trunk receive ring"])
	}
	before := state()
	options := Options{OwnHost: true, Former: filepath.Join(t.TempDir(), "former.json")}
	start := func() *Kernel {
		k := New(slog.New(slog.DiscardHandler), options)
		k.system = p
		return k
	}
	apply(t, start(), render(t, cpusOf(t, "control: [0]", ", ethernet: {rx-ring: 1024}")))
	if state() == before {
		t.Fatal("nothing was changed")
	}
	k := start()
	apply(t, k, render(t, cpusOf(t, "control: [3]", ", ethernet: {rx-ring: 2048}")))
	apply(t, k, render(t, plain))
	if got := state(); got != before {
		t.Errorf("%s, was %s", got, before)
	}
	if _, err := os.Stat(options.Former); !os.IsNotExist(err) {
		t.Errorf("the note: %v", err)
	}
	p.hardware["trunk receive ring"], p.taken["trunk"][0].CPUs = 512, []int{1}
	changed := state()
	apply(t, k, render(t, plain))
	if got := state(); got != changed {
		t.Errorf("what somebody set was changed: %s, was %s", got, changed)
	}
}

// TestFormerValuesThatAreRefused: a driver that does not go back fails no commit.
func TestFormerValuesThatAreRefused(t *testing.T) {
	p := card(4, 2)
	k := applyTo(t, p, cpusOf(t, "", ""))
	p.filters, p.most = []ethtool.Rule{{Queue: 3}}, 4 // of an operator: the driver keeps the queue that it names
	apply(t, k, render(t, named(map[string]*config.Interface{"trunk": {Match: &config.Match{Name: "eth0"}}})))
	if p.hardware["trunk queues"] != 4 || p.serving() != "4 0-3 0-3 0-3 0-3 tx  tx  tx  tx " {
		t.Error(p.serving())
	}
}

// TestBridgeNetfilterReturns: bridged frames pass the packet filter again, as others may need, when the last bridge is gone.
func TestBridgeNetfilterReturns(t *testing.T) {
	const path = "net/bridge/bridge-nf-call-iptables"
	p := machine()
	p.settings[path] = "1"
	bridge, err := config.Parse("test", []byte("version: 1\ninterfaces:\n  trunk: {match: {name: eth0}}\n  lan: {bridge: {ports: [trunk]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	r := k.round(render(t, bridge))
	if err := r.settings(); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.steps {
		if err := s.do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if p.settings[path] != "0" {
		t.Fatalf("with a bridge %s", p.settings[path])
	}
	apply(t, k, render(t, named(map[string]*config.Interface{"trunk": {Match: &config.Match{Name: "eth0"}}})))
	if p.settings[path] != "1" {
		t.Errorf("without one %s", p.settings[path])
	}
}

// TestASettingThatGoes: a link that goes between opening and reading its setting has none.
func TestASettingThatGoes(t *testing.T) {
	veths(t, "goes")
	fd, err := unix.Open(filepath.Join(sysctlRoot, "net/ipv4/conf/goes/arp_notify"), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, ok, err := readOpened(fd); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	shell(t, "ip link del goes")
	if _, ok, err := readOpened(fd); err != nil || ok {
		t.Errorf("there: %v, %v", ok, err)
	}
}

// A daemon notes one kind of value, and the next one another.
func TestNoteGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "former.json")
	if err := readFormer(path).note("trunk", 2, func(p *formerPort) { once(p.Hardware, ethtool.Queues, 1) }); err != nil {
		t.Fatal(err)
	}
	f := readFormer(path)
	if err := f.note("trunk", 2, func(p *formerPort) { once(p.Interrupts, 30, []int{1}); once(p.Senders, 0, []int{1}) }); err != nil {
		t.Fatal(err)
	}
	if p := readFormer(path).port("trunk", 2); p == nil || p.Hardware[ethtool.Queues] != 1 || len(p.Interrupts) != 1 || len(p.Senders) != 1 {
		t.Errorf("%+v", p)
	}
}
