// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/affinity"
	"minne/internal/model/config"
)

// cpusOf is a router with one port, and what its section cpus says.
func cpusOf(t *testing.T, text, port string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test", []byte("version: 1\nsystem: {cpus: {"+text+"}}\ninterfaces:\n  trunk: {match: {name: eth0}"+port+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// card is a machine of four CPUs whose port has queues with an interrupt each, of which some are in use.
func card(most, inUse int) *pretended {
	p := machine()
	p.cpus = []int{0, 1, 2, 3}
	p.hardware = map[string]int{"eth0 queues": inUse, "trunk queues": inUse, "most": most}
	p.taken, p.sending = map[string][]affinity.Interrupt{}, map[string][]affinity.Sender{}
	for _, name := range []string{"eth0", "trunk"} { // before and after it has its name
		for q := range most {
			p.taken[name] = append(p.taken[name], affinity.Interrupt{Number: 40 + q, Queue: q, Direction: affinity.Both, CPUs: p.cpus})
			p.sending[name] = append(p.sending[name], affinity.Sender{Queue: q})
		}
	}
	return p
}

func (p *pretended) serving() string {
	var list []string
	for _, i := range p.taken["trunk"] {
		list = append(list, affinity.List(i.CPUs))
	}
	for _, s := range p.sending["trunk"] {
		list = append(list, "tx "+affinity.List(s.CPUs))
	}
	return fmt.Sprint(p.hardware["trunk queues"], " ", strings.Join(list, " "))
}

// TestCPUsOfQueues: queue n is served by forwarding CPU n, in both directions, and put back after a hand.
func TestCPUsOfQueues(t *testing.T) {
	for _, c := range []struct {
		text, port  string
		most, inUse int
		want        string
	}{
		{"", "", 4, 1, "4 0 1 2 3 tx 0 tx 1 tx 2 tx 3"},
		{"control: [3]", "", 4, 4, "3 0 1 2 0 tx 0 tx 1 tx 2 tx "},
		{"control: [0]", "", 4, 2, "4 1 1 2 3 tx 0 tx 1 tx 2 tx 3"}, // CPU 3 needs a queue of its number
		{"forwarding: [2-3], control: [0-3]", "", 4, 4, "4 2 3 2 3 tx 0 tx 1 tx 2 tx 3"},
		{"control: [0-3]", "", 4, 4, "4 0 1 2 3 tx 0 tx 1 tx 2 tx 3"},                        // nothing is left to forward alone
		{"", "", 2, 2, "2 0 1 tx 0,2 tx 1,3"},                                                // fewer queues than CPUs
		{"forwarding: [1]", ", ethernet: {queues: 3}", 4, 1, "3 1 1 1 1 tx 0 tx 1 tx 2 tx "}, // the section ethernet wins
		{"forwarding: [0-1]", ", ethernet: {queues: 6}", 6, 6, "6 0 1 0 1 0 1 tx 0 tx 1 tx 2 tx 3 tx  tx "},
	} {
		p := card(c.most, c.inUse)
		k := applyTo(t, p, cpusOf(t, c.text, c.port))
		if got := p.serving(); got != c.want {
			t.Errorf("%q%s: %s, want %s", c.text, c.port, got, c.want)
		}
		if rep := reassert(t, k); len(rep.Repaired) != 0 {
			t.Errorf("%q: again: %+v", c.text, rep)
		}
		p.taken["trunk"][0].CPUs = []int{0, 1, 2, 3}
		if rep := reassert(t, k); len(rep.Repaired) != 1 || rep.Repaired[0].Text != "CPUs of the queues of trunk were changed" || p.serving() != c.want {
			t.Errorf("%q: report %+v, %s", c.text, rep, p.serving())
		}
	}
}

// TestFlowsOverQueues: a card spreads flows over the queues of CPUs that forward, and over no others.
func TestFlowsOverQueues(t *testing.T) {
	for _, c := range []struct {
		text  string
		was   []int // before
		inUse int
		want  []int
	}{
		{"control: [0]", even(8, 4), 4, []int{1, 2, 3, 1, 2, 3, 1, 2}},
		{"control: [3]", even(8, 4), 4, even(8, 3)}, // there are as many queues as CPUs that forward
		{"control: [0]", even(8, 2), 2, []int{1, 2, 3, 1, 2, 3, 1, 2}},
		{"control: [3]", []int{3, 3, 3, 3, 0, 0, 0, 0}, 4, even(8, 3)},                    // of a hand before
		{"control: [3]", []int{0, 1, 1, 1, 2, 2, 2, 2}, 3, []int{0, 1, 1, 1, 2, 2, 2, 2}}, // an operator's weights
		{"control: [3]", nil, 4, nil},
	} {
		p := card(4, c.inUse)
		if c.was != nil {
			p.spread = map[string][]int{"eth0": c.was, "trunk": c.was}
		}
		k := applyTo(t, p, cpusOf(t, c.text, ""))
		if got := p.spread["trunk"]; !slices.Equal(got, c.want) {
			t.Errorf("%s, was %v: %v, want %v", c.text, c.was, got, c.want)
		}
		if rep := reassert(t, k); len(rep.Repaired) != 0 {
			t.Errorf("%q: again: %+v", c.text, rep)
		}
	}
	p := card(4, 4)
	p.spread = map[string][]int{"eth0": even(8, 4), "trunk": even(8, 4)}
	k := applyTo(t, p, cpusOf(t, "control: [0]", ""))
	p.spread["trunk"][0] = 0
	if rep := reassert(t, k); len(rep.Repaired) != 1 || slices.Contains(p.spread["trunk"], 0) {
		t.Errorf("report %+v, %v", rep, p.spread["trunk"])
	}
}

// TestCPUsOfPrograms: those that run anywhere go to the CPUs for control, and no others.
func TestCPUsOfPrograms(t *testing.T) {
	p := card(4, 4)
	p.tied = map[int][]int{1: p.cpus, 7: {2}, 9: p.cpus}
	k := applyTo(t, p, cpusOf(t, "control: [0-1]", ""))
	if fmt.Sprint(p.tied) != "map[1:[0 1] 7:[2] 9:[0 1]]" || p.serving() != "4 2 3 2 3 tx 0 tx 1 tx 2 tx 3" {
		t.Errorf("%v, %s", p.tied, p.serving())
	}
	p.tied[12] = p.cpus
	if rep := reassert(t, k); len(rep.Repaired) != 1 || rep.Repaired[0].Text != "programs ran on the CPUs that forward" || fmt.Sprint(p.tied[12]) != "[0 1]" {
		t.Errorf("report %+v, %v", rep, p.tied)
	}
}

// A CPU that is not there is refused before anything is changed; without the section all stays.
func TestCPUsThatAreNot(t *testing.T) {
	p := card(4, 1)
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	before := p.serving()
	err := k.Apply(context.Background(), render(t, cpusOf(t, "forwarding: [2-5]", "")))
	if err == nil || !strings.Contains(err.Error(), "system.cpus: this machine has the CPUs 0-3, and not 4-5") {
		t.Errorf("%v", err)
	}
	cfg, err := config.Parse("test", []byte("version: 1\ninterfaces:\n  trunk: {match: {name: eth0}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	applyTo(t, p, cfg)
	if p.serving() != before {
		t.Errorf("%s, was %s", p.serving(), before)
	}
}

// With a real driver, which has queues and no interrupts.
func TestCPUsOfAVeth(t *testing.T) {
	online, err := affinity.Here.Online()
	if err != nil || len(online) < 2 {
		t.Fatalf("CPUs %v, %v: expected two", online, err)
	}
	shell(t, "ip link add eth0 numrxqueues 4 numtxqueues 4 type veth peer name eth0p && ip link set eth0p up")
	t.Cleanup(func() { shell(t, "ip link del eth0p") })
	k := New(slog.New(slog.DiscardHandler))
	apply(t, k, render(t, cpusOf(t, "forwarding: [0-1]", "")))
	if got := shell(t, "ethtool -l trunk"); !strings.Contains(got, "RX:\t\t2\nTX:\t\t2\n") {
		t.Error(got)
	}
	// /sys is of the network namespace in which it was mounted.
	out := shell(t, "cat /sys/class/net/trunk/queues/tx-[01]/xps_cpus")
	var masks []string
	for mask := range strings.FieldsSeq(out) {
		cpus, err := affinity.ParseMask(mask)
		if err != nil {
			t.Fatal(err)
		}
		masks = append(masks, affinity.List(cpus))
	}
	if !slices.Equal(masks, []string{"0", "1"}) {
		t.Errorf("senders %v", masks)
	}
	for _, p := range queues(t, k) {
		if p.Port != "trunk" {
			continue
		}
		if len(p.Queues) != 2 || !slices.Equal(p.Queues[1].TransmitCPUs, []int{1}) || p.Queues[0].ReceiveDrops == nil || p.Queues[0].ReceiveCPUs != nil {
			t.Errorf("%+v", p)
		}
		return
	}
	t.Error("the port is not among those with queues")
}

func queues(t *testing.T, k *Kernel) []PortQueues {
	t.Helper()
	list, err := k.Queues(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestImbalance: of what the queues have counted.
func TestImbalance(t *testing.T) {
	for want, packets := range map[float64][]uint64{1: {5, 5}, 2: {10, 0}, 1.5: {3, 1, 2}, 0: {0, 0}} {
		var list []Queue
		for _, n := range packets {
			list = append(list, Queue{ReceivePackets: &n})
		}
		if got := imbalance(list); got != want {
			t.Errorf("%v: %v, want %v", packets, got, want)
		}
	}
	if got := imbalance([]Queue{{ReceivePackets: new(uint64)}, {}}); got != 0 {
		t.Errorf("a queue that is not counted: %v", got)
	}
}
