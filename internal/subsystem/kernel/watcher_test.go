// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"minne/internal/model/rib"
)

// model is a listener that only remembers, as the contract of rib.Listener says.
type model struct {
	mu      sync.Mutex
	t       testing.TB
	between bool // Begin was told and End not yet
	now     state
	next    state
	calls   int
	rounds  int // Begin … End
}

// state is everything by identity, as text that says all of it.
type state map[string]string

func (m *model) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.between {
		m.t.Error("Begin within Begin")
	}
	m.between, m.next = true, state{}
}

func (m *model) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.between {
		m.t.Error("End without Begin")
	}
	m.between, m.now = false, m.next
	m.rounds++
}

func (m *model) set(identity, value string, deleted bool) {
	m.calls++
	s := m.now
	if m.between {
		s = m.next
	}
	if deleted {
		delete(s, identity)
		return
	}
	s[identity] = value
}

func (m *model) Links(list []rib.Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range list {
		m.set(fmt.Sprint("link ", l.Index), fmt.Sprintf("%+v", l), l.Deleted)
	}
}

func (m *model) Addresses(list []rib.LinkAddress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range list {
		m.set(fmt.Sprint("address ", a.Address, " on ", a.Interface), "", a.Deleted)
	}
}

func (m *model) Rules(list []rib.Rule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range list {
		m.set(fmt.Sprint("rule ", r.Family, r.Priority, r.Table, r.VRF), "", r.Deleted)
	}
}

// Neighbours keeps those that are resolved: the kernel moves between the others without a word.
func (m *model) Neighbours(list []rib.Neighbour) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range list {
		if n.State == rib.NeighPermanent || n.Deleted {
			m.set(fmt.Sprint("neighbour ", n.Address, " on ", n.Interface), n.MAC.String(), n.Deleted)
		}
	}
}

func (m *model) NextHops(list []rib.NextHopGroup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range list {
		m.set(fmt.Sprint("next hop ", g.ID), fmt.Sprintf("%+v", g), g.Deleted)
	}
}

func (m *model) Routes(list []rib.RouteChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range list {
		r := c.Route
		m.set(fmt.Sprint("route ", r.Prefix, " from ", r.Source, " table ", r.Table, " metric ", r.Metric, " tos ", r.TOS),
			fmt.Sprintf("type %d protocol %d mtu %d nhid %d encap %v hops %v", r.Type, r.Protocol, r.MTU, r.NextHopID, r.Encap, r.Hops), c.Deleted)
	}
}

func (m *model) snapshot() (s state, settled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.now), !m.between
}

// watch runs a watcher until the test ends and waits for its first End.
func watch(t testing.TB) (*Watcher, *model) {
	t.Helper()
	m := &model{t: t}
	w := NewWatcher(slog.New(slog.DiscardHandler), m)
	start(t, w)
	return w, m
}

func start(t testing.TB, w *Watcher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	once := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("watcher: %v", err)
		}
	})
	t.Cleanup(once)
	select {
	case <-w.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("watcher ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("watcher is not ready")
	}
	return once
}

// fresh is the state that a new watcher reads.
func fresh(t testing.TB) state {
	t.Helper()
	m := &model{t: t}
	stop := start(t, NewWatcher(slog.New(slog.DiscardHandler), m))
	stop()
	s, _ := m.snapshot()
	return s
}

// difference lists what the stream told otherwise than a new dump.
func difference(stream, dump state) []string {
	var all []string
	for k, v := range dump {
		if got, ok := stream[k]; !ok {
			all = append(all, "not told: "+k+": "+v)
		} else if got != v {
			all = append(all, "told otherwise: "+k+":\n\t\t"+got+"\n\tis\t"+v)
		}
	}
	for k, v := range stream {
		if _, ok := dump[k]; !ok {
			all = append(all, "gone but told: "+k+": "+v)
		}
	}
	slices.Sort(all)
	return all
}

// agree waits until the stream's state is a new dump's.
func agree(t testing.TB, m *model) {
	t.Helper()
	var left []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		told, settled := m.snapshot()
		if !settled {
			continue
		}
		if left = difference(told, fresh(t)); len(left) == 0 {
			return
		}
	}
	t.Fatalf("the stream never became what a dump shows:\n%s", strings.Join(left, "\n"))
}

// churn writes random changes for ip(8). Many fail in the kernel: that is part of it. With events,
// links and addresses come and go too, which makes the watcher look at everything again.
func churn(r *rand.Rand, n int, events bool) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	dev := func() string { return pick("c0", "c1", "c2") }
	v4 := func() string { return fmt.Sprintf("10.9.%d.0/24", r.IntN(4)) }
	v6 := func() string { return fmt.Sprintf("2001:db8:9:%d::/64", r.IntN(4)) }
	gw4 := func() string { i := r.IntN(3); return fmt.Sprintf("10.%d.0.%d", i, 2+r.IntN(3)) }
	gw6 := func() string { i := r.IntN(3); return fmt.Sprintf("2001:db8:%d::%d", i, 2+r.IntN(3)) }
	verb := func() string { return pick("add", "append", "prepend", "replace", "del", "change") }
	metric := func() string { return pick("", " metric 7", " metric 9 proto static") }
	hops := func(gw func() string) string {
		text := ""
		for range 2 + r.IntN(3) {
			text += fmt.Sprintf(" nexthop via %s weight %d", gw(), 1+r.IntN(3))
		}
		return text
	}
	id := func() int { return 100 + r.IntN(5) }
	var b strings.Builder
	for range n {
		what := r.IntN(24)
		if !events && (what == 20 || what == 21) {
			continue
		}
		switch what {
		case 0, 1, 2:
			fmt.Fprintf(&b, "route %s %s via %s%s\n", verb(), v4(), gw4(), metric())
		case 3, 4:
			fmt.Fprintf(&b, "route %s %s%s %s\n", verb(), v4(), metric(), hops(gw4))
		case 5:
			fmt.Fprintf(&b, "route %s %s %s%s\n", verb(), pick("blackhole", "unreachable", "prohibit"), v4(), metric())
		case 6:
			fmt.Fprintf(&b, "route %s %s dev %s%s\n", verb(), v4(), dev(), metric())
		case 7:
			fmt.Fprintf(&b, "route %s %s via %s tos 0x10 mtu 1400\n", verb(), v4(), gw4())
		case 8, 9, 10, 11:
			fmt.Fprintf(&b, "-6 route %s %s via %s%s\n", pick("add", "append", "replace", "del"), v6(), gw6(), metric())
		case 12, 13:
			fmt.Fprintf(&b, "-6 route %s %s%s %s\n", pick("add", "append", "replace", "del"), v6(), metric(), hops(gw6))
		case 14:
			fmt.Fprintf(&b, "-6 route %s %s %s%s\n", pick("add", "append", "replace", "del"), pick("blackhole", "unreachable"), v6(), metric())
		case 15:
			fmt.Fprintf(&b, "-6 route %s %s dev %s%s\n", pick("add", "append", "replace", "del"), v6(), dev(), metric())
		case 16:
			fmt.Fprintf(&b, "nexthop replace id %d via %s dev %s\n", id(), gw4(), dev())
			fmt.Fprintf(&b, "nexthop replace id %d group %d/%d\n", 200+r.IntN(2), id(), id())
		case 17:
			fmt.Fprintf(&b, "nexthop del id %d\n", pick2(r, id(), 200+r.IntN(2)))
		case 18:
			fmt.Fprintf(&b, "route %s %s nhid %d%s\n", pick("add", "replace"), v4(), pick2(r, id(), 200+r.IntN(2)), metric())
		case 19:
			fmt.Fprintf(&b, "nexthop replace id %d via %s dev %s\n", 300+r.IntN(2), gw6(), dev())
			fmt.Fprintf(&b, "-6 route %s %s nhid %d%s\n", pick("add", "replace"), v6(), 300+r.IntN(2), metric())
			fmt.Fprintf(&b, "%s\n", pick("nexthop del id 300", "nexthop list"))
		case 20:
			fmt.Fprintf(&b, "link set %s %s\n", pick("c0", "c1", "c0p", "c1p"), pick("down", "up", "up"))
		case 21:
			i := r.IntN(3)
			fmt.Fprintf(&b, "addr %s 10.%d.0.1/24 dev c%d\naddr %s 10.7.%d.1/24 dev %s\n", pick("add", "del"), i, i, pick("add", "del"), r.IntN(2), dev())
			fmt.Fprintf(&b, "route add 10.8.%d.0/24 via %s src 10.7.%d.1\n", r.IntN(3), gw4(), r.IntN(2))
			fmt.Fprintf(&b, "addr add 10.%d.0.1/24 dev c%d\n", i, i)
		case 22:
			fmt.Fprintf(&b, "rule %s pref %d from 10.9.%d.0/24 table 77\n", pick("add", "del"), 500+r.IntN(2), r.IntN(3))
			fmt.Fprintf(&b, "neigh %s %s lladdr 02:00:00:00:00:%02x dev %s\n", pick("replace", "replace", "del"), gw4(), r.IntN(4), dev())
		case 23:
			fmt.Fprintf(&b, "-6 route %s %s from 2001:db8:5::/48 via %s\n", pick("add", "replace", "del"), v6(), gw6())
		}
	}
	return b.String()
}

func pick2(r *rand.Rand, a, b int) int {
	if r.IntN(2) == 0 {
		return a
	}
	return b
}

// churnLinks makes the links and addresses that churn speaks of.
func churnLinks(t testing.TB) {
	veths(t, "c0", "c1", "c2")
	shell(t, "ip link set lo up")
	for i := range 3 {
		shell(t, fmt.Sprintf("ip link set c%[1]d up; ip addr add 10.%[1]d.0.1/24 dev c%[1]d; ip addr add 2001:db8:%[1]d::1/64 dev c%[1]d nodad", i))
	}
	shell(t, "sysctl -qw net.ipv6.conf.c0.keep_addr_on_down=1 net.ipv6.conf.c1.keep_addr_on_down=1")
	t.Cleanup(func() {
		for _, line := range []string{"ip route flush table main", "ip -6 route flush table main", "ip nexthop flush",
			"ip rule flush; ip rule add pref 32766 table main; ip rule add pref 32767 table default"} {
			exec.Command("sh", "-c", line).Run()
		}
	})
}

// TestStreamTellsWhatADumpShows is the property that the fast path lives by: whatever happened, the
// state built from notifications is the one that a new dump shows.
func TestStreamTellsWhatADumpShows(t *testing.T) {
	churnLinks(t)
	_, m := watch(t)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		batch := churn(r, 60, seed%2 == 0)
		cmd := exec.Command("ip", "-force", "-batch", "-")
		cmd.Stdin = strings.NewReader(batch)
		cmd.Run() // some lines are refused
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Log(batch)
				}
			}()
			agree(t, m)
		})
		if t.Failed() {
			return
		}
	}
	if m.rounds != 1 {
		t.Errorf("%d full dumps, expected the stream to do without", m.rounds)
	}
}
