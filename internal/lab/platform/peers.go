// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"minne/internal/lab/algo/dataset"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/platform/peers"
	"minne/internal/subsystem/fastpath/automaton"
)

// peerInput is what peers that do a task are asked.
type peerInput struct {
	task   peers.Task
	family string // of the report
	holds  string
	sets   []*set
	// table writes what a peer makes its table from, and returns the sets with the right answers, as far as there is one.
	table func(context.Context, peers.Peer, string) ([]*set, error)
}

func (b *builder) routesForPeers(f lpm.Family, routes []lpm.Route, holds string, sets []*set) {
	task := peers.IPv4
	if f == lpm.IPv6 {
		task = peers.IPv6
	}
	b.forPeers = append(b.forPeers, peerInput{task, "routes", holds, sets, func(_ context.Context, _ peers.Peer, name string) ([]*set, error) {
		return sets, writeTable(name, func(w io.Writer) error { return peers.WriteRoutes(w, routes) })
	}})
}

// keysForPeers: every filter has false positives of its own, so there is no right answer; only members must be found.
func (b *builder) keysForPeers(members, strangers [][]byte, holds string) error {
	var sets []*set
	for i, s := range []*set{{name: "random", origin: dataset.Random}, {name: "in table", origin: dataset.InTable}} {
		keys := [][][]byte{strangers, members}[i]
		content, err := dataset.Keys(s.origin, keys[:min(len(keys), askedKeys)])
		if err != nil {
			return err
		}
		if s.file, err = store(b.dir, fmt.Sprintf("peer-members-%d", i), content); err != nil {
			return err
		}
		sets = append(sets, s)
	}
	b.forPeers = append(b.forPeers, peerInput{peers.Filter, "filters", holds, sets, func(_ context.Context, _ peers.Peer, name string) ([]*set, error) {
		content, err := dataset.Keys(dataset.InTable, members)
		if err != nil {
			return nil, err
		}
		return sets, os.WriteFile(name, content, 0o600)
	}})
	return nil
}

// patternsForPeers: found are the patterns of each record. Those that a peer can't search for are not asked of it.
func (b *builder) patternsForPeers(patterns []automaton.Pattern, found [][]int, holds, payload string) {
	for _, in := range b.forPeers {
		if in.holds == holds {
			return // another automaton's
		}
	}
	sets := []*set{{name: "payload", file: payload}}
	b.forPeers = append(b.forPeers, peerInput{peers.Patterns, "patterns", holds, sets, func(ctx context.Context, p peers.Peer, name string) ([]*set, error) {
		write := func(refused map[int]string) error {
			return writeTable(name, func(w io.Writer) error { return peers.WritePatterns(w, p, patterns, refused) })
		}
		if err := write(nil); err != nil {
			return nil, err
		}
		refused, err := peers.Refused(ctx, p, name)
		if err != nil {
			return nil, err
		}
		if len(refused) > 0 {
			b.note("%v does not support %s of %s; it searches for the others.", p, counted(len(refused), "pattern"), holds)
			if err := write(refused); err != nil {
				return nil, err
			}
		}
		var sum dataset.Checksum
		for _, numbers := range found {
			var known []int
			for _, n := range numbers {
				if _, is := refused[n]; !is {
					known = append(known, n)
				}
			}
			sum.AddRecord(known)
		}
		return []*set{{name: "payload", file: payload, checksum: sum.String()}}, nil
	}})
}

func writeTable(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// loadPeers starts all peers that can be asked, with their tables built, and compares their answers.
func (m *measurement) loadPeers(ctx context.Context) error {
	if m.Peers == "" {
		return nil
	}
	list, err := peers.Available(ctx, m.Peers)
	if err != nil {
		m.result.Missing = append(m.result.Missing, err.Error())
	}
	if len(list) == 0 && err == nil {
		return fmt.Errorf("--peers %s: no programs there: scripts/peers.sh makes them", m.Peers)
	}
	for i, in := range m.builder.forPeers {
		for _, p := range list {
			if p.Task != in.task {
				continue
			}
			if p.Slow != "" {
				m.result.Missing = append(m.result.Missing, fmt.Sprintf("%v (%s): %s", p, in.holds, p.Slow))
				continue
			}
			if err := m.loadPeer(ctx, p, in, filepath.Join(m.builder.dir, fmt.Sprintf("peer-%d-%s", i, p.Algorithm))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *measurement) loadPeer(ctx context.Context, p peers.Peer, in peerInput, table string) error {
	m.Progress(fmt.Sprintf("build %v (%s)", p, in.holds))
	right, err := in.table(ctx, p, table)
	if err != nil {
		return err
	}
	inputs := peers.Inputs{Table: table, CPU: m.CPU, Hot: hotKeys}
	for _, s := range right {
		inputs.Sets = append(inputs.Sets, s.file)
	}
	session, err := peers.Open(ctx, p, inputs)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.result.Missing = append(m.result.Missing, fmt.Sprintf("%s: %v", in.holds, err))
		return nil
	}
	w := &workload{algorithm: p.String(), holds: in.holds, memory: session.Bytes, build: time.Duration(session.BuildSeconds * 1e9)}
	m.lanes = append(m.lanes, &lane{workload: w, where: Other, session: session})
	for i, s := range right {
		got := session.Sets[i]
		answered := &set{name: s.name, origin: s.origin, file: s.file, checksum: got.Checksum}
		w.sets = append(w.sets, answered)
		if s.checksum != "" && s.checksum != got.Checksum {
			return &wrongAnswer{Other, w.name(), s.name, got.Checksum, s.checksum}
		}
		if p.Task == peers.Filter && s.origin == dataset.InTable && int(got.Sum) != got.Count {
			return fmt.Errorf("%s finds %d of its %d keys", w.name(), got.Sum, got.Count)
		}
		if p.Task == peers.Filter && s.origin == dataset.Random {
			w.detail = fmt.Sprintf("%.3f %% false positives", 100*float64(got.Sum)/float64(got.Count))
		}
	}
	m.result.Tables = append(m.result.Tables, Table{Algorithm: w.algorithm, Holds: w.holds, Used: w.memory, Memory: w.memory, BuildMs: w.build.Seconds() * 1e3, Detail: w.detail})
	m.result.peer(Peer{w.algorithm, p.Version, in.family})
	return nil
}

// peer notes one, once.
func (r *Result) peer(p Peer) {
	for _, known := range r.Peers {
		if known == p {
			return
		}
	}
	r.Peers = append(r.Peers, p)
}

// peersOf are the names of those in a part of the report.
func (r *Result) peersOf(family string) (names []string) {
	for _, p := range r.Peers {
		if p.Family == family {
			names = append(names, p.Algorithm)
		}
	}
	return names
}

// askPeer times a peer in all its ways.
func (l *lane) askPeer(seconds float64, repetitions int) error {
	ways := l.session.Ways
	for range repetitions {
		ns, err := l.session.Round(time.Duration(seconds / float64(repetitions*len(ways)) * 1e9))
		if err != nil {
			return err
		}
		for i, w := range ways {
			l.add(asking{w.Set, w.Access, w.Order, w.Per}, ns[i])
		}
	}
	return nil
}
