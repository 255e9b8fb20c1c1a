// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"minne/internal/base/machine"
	"minne/internal/base/thread"
	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/device"
	"minne/internal/lab/platform/native"
	"minne/internal/lab/platform/peers"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

// Options say what to measure.
type Options struct {
	Name       string   // of the platform; empty: its CPU's
	Algorithms []string // as Names returns them
	Data       Data
	CPU        int           // to stay on; below 0: any
	Seconds    float64       // of measuring altogether; what must be done once in any case may take longer
	Rounds     int           // how often each workload's turn comes
	Repeat     int           // repetitions of each measurement in a round, by turns with the workload's other ones
	Limit      time.Duration // of everything but the check and the matrix; what does not fit is left out. 0: none
	Estimate   bool          // say what the machine can route
	Check      bool          // compare that with a lab on this machine
	Matrix     bool          // measure transfers through the kernel
	Means      device.Means  // of the lab
	Peers      string        // directory of peers' programs; empty: none are asked
	NativeOnly string        // why nothing is measured in eBPF; empty: it is
	Command    []string
	Minne      result.Build
	Progress   func(string)
}

// Measure runs the benchmark. A wrong answer is an error, and there is no result.
func Measure(ctx context.Context, o Options) (*Result, error) {
	begin := time.Now()
	r := &Result{Schema: Schema, Name: o.Name, Command: o.Command, Started: begin.UTC().Truncate(time.Second), Minne: o.Minne, Machine: machine.Read(), Rounds: o.Rounds}
	r.Name = cmp.Or(r.Name, r.Machine.CPU)
	dir, err := os.MkdirTemp("", "minne-platform-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b := &builder{dir: dir, algorithms: o.Algorithms, progress: o.Progress, result: r, limit: limit{begin, o.Limit}, cpu: o.CPU}
	if o.NativeOnly == "" {
		b.install = kernelfib.Install(o.Means.Load)
	}
	if err := b.all(o.Data); err != nil {
		return nil, err
	}
	r.phase(begin, "data and tables")
	release, err := thread.Stay(o.CPU)
	if err != nil {
		return nil, err
	}
	defer release()
	m := &measurement{Options: o, result: r, builder: b}
	defer m.close()
	if err := m.load(); err != nil {
		return nil, err
	}
	if err := m.loadPeers(ctx); err != nil {
		return nil, err
	}
	r.phase(begin, "loading and comparing answers")
	if err := m.rounds(ctx); err != nil {
		return nil, err
	}
	m.finish()
	r.phase(begin, "measuring")
	if o.Estimate {
		if err := r.estimate(ctx, o.Means, b.routesUsed, o.Check, o.Progress); err != nil {
			return nil, err
		}
		r.phase(begin, "estimate")
	}
	if o.Matrix {
		if err := r.transfers(ctx, o.Means, o.Progress); err != nil {
			return nil, err
		}
		r.phase(begin, "matrix")
	}
	r.Seconds = math.Round(time.Since(begin).Seconds()*10) / 10
	return r, nil
}

// measurement is one run.
type measurement struct {
	Options
	program *native.Program // nil: this minne has none
	result  *Result
	builder *builder
	side    *kernelSide
	lanes   []*lane
	power   meter
}

// lane is a workload in one place, with the times of all ways to ask it.
type lane struct {
	*workload
	where string
	// again marks a second measurement of the lane before, for the noise.
	again     bool
	contender contender // of eBPF
	session   *peers.Session
	times     []*series
	watts     []float64
}

// series are the times of one way of asking, ns per key or byte: some of each round.
type series struct {
	asking
	ns []float64
}

func (m *measurement) close() {
	for _, l := range m.lanes {
		if l.contender != nil && !l.again {
			l.contender.close()
		}
		if l.session != nil {
			_ = l.session.Close() // it has said what was wrong, if anything was
		}
	}
	if m.side != nil {
		m.side.close()
	}
	if m.program != nil {
		_ = m.program.Close() // frees memory; what ran has ended
	}
}

// loadNative makes the native program ready. Without it there still is eBPF, for who may use that.
func (m *measurement) loadNative() (err error) {
	if m.program, err = native.Load(); err != nil {
		if m.NativeOnly != "" {
			return fmt.Errorf("nothing can be measured: not in eBPF, because %s; nor natively: %w", m.NativeOnly, err)
		}
		m.result.Notes = append(m.result.Notes, fmt.Sprintf("Nothing is measured natively: %v.", err))
		return nil
	}
	for i, w := range m.builder.workloads {
		if w.native == "" {
			continue
		}
		m.lanes = append(m.lanes, &lane{workload: w, where: Native})
		if i == 0 {
			m.lanes = append(m.lanes, &lane{workload: w, where: Native, again: true})
		}
	}
	return nil
}

// load loads eBPF programs, compares their answers, and orders the lanes: the first one of each place comes twice.
func (m *measurement) load() error {
	if err := m.loadNative(); err != nil {
		return err
	}
	if m.NativeOnly != "" {
		m.result.Notes = append(m.result.Notes, "Nothing is measured in eBPF: "+m.NativeOnly+".")
		return nil
	}
	var err error
	if m.side, err = newKernelSide(); err != nil {
		m.result.Notes = append(m.result.Notes, fmt.Sprintf("Nothing is measured in eBPF: %v.", err))
		return nil
	}
	first := true
	for _, w := range m.builder.workloads {
		if w.inKernel == nil {
			continue
		}
		m.Progress("load " + w.name() + " into the kernel")
		c, err := w.inKernel(m.side)
		if err != nil {
			m.result.Missing = append(m.result.Missing, fmt.Sprintf("%s in eBPF: %v", w.name(), err))
			continue
		}
		m.lanes = append(m.lanes, &lane{workload: w, where: EBPF, contender: c})
		if first {
			m.lanes = append(m.lanes, &lane{workload: w, where: EBPF, contender: c, again: true})
		}
		first = false
		if err := compare(w, c); err != nil {
			return err
		}
	}
	return nil
}

// compare compares the answers of eBPF with the reference's.
func compare(w *workload, c contender) error {
	for i, s := range w.sets {
		got, err := c.check(i)
		if err != nil {
			return fmt.Errorf("search %s in eBPF: %w", w.name(), err)
		}
		if got != s.checksum {
			return &wrongAnswer{EBPF, w.name(), s.name, got, s.checksum}
		}
	}
	return nil
}

// rounds measures all lanes once in each round.
func (m *measurement) rounds(ctx context.Context) error {
	m.power.open(ctx, &m.result.Power)
	counter, err := openCycles()
	if err != nil {
		m.result.Clock.Missing = err.Error()
	}
	done, err := m.turns(ctx)
	if err != nil {
		return err
	}
	m.result.Rounds, m.result.Repetitions = done, done*m.Repeat
	if counter == nil {
		return nil
	}
	if m.result.Clock.GHz, err = counter.gigahertz(); err != nil {
		m.result.Clock.Missing = err.Error()
	}
	return nil
}

// turns measures until all rounds are done or no time is left, and returns how many were begun.
func (m *measurement) turns(ctx context.Context) (done int, err error) {
	each := m.Seconds / float64(m.Rounds) / float64(max(1, len(m.lanes)))
	share := allRounds
	if m.Estimate {
		share = roundsShare
	}
	var longest time.Duration
	for round := range m.Rounds {
		if round > 0 && m.builder.limit.late(share, longest) {
			m.result.Notes = append(m.result.Notes, fmt.Sprintf("This machine is slow or busy: %s fitted in the time instead of %d.", counted(round, "round"), m.Rounds))
			return round, nil
		}
		m.Progress(fmt.Sprintf("round %d of %d", round+1, m.Rounds))
		lanes := slices.Clone(m.lanes)
		if round%2 == 1 {
			slices.Reverse(lanes)
		}
		begin := time.Now()
		for _, l := range lanes {
			if m.builder.limit.late(share, 0) {
				continue
			}
			if err := m.measure(ctx, l, each); err != nil {
				return round, err
			}
		}
		longest = max(longest, time.Since(begin))
	}
	return m.Rounds, nil
}

func (m *measurement) measure(ctx context.Context, l *lane, seconds float64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ends := m.power.begin(ctx)
	defer func() { l.watts = append(l.watts, ends()) }()
	switch l.where {
	case EBPF:
		return l.ask(seconds, m.Repeat)
	case Other:
		return l.askPeer(seconds, m.Repeat)
	}
	spec := native.Spec{Algorithm: l.native, Image: l.table, Seconds: seconds, Repetitions: m.Repeat, CPU: native.Any, Hot: hotKeys}
	if m.CPU >= 0 {
		spec.CPU = m.CPU
	}
	for _, s := range l.sets {
		spec.Sets = append(spec.Sets, s.file)
	}
	a, err := m.program.Run(ctx, spec)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name(), err)
	}
	for i, s := range l.sets {
		if got := a.Sets[i].Checksum; got != s.checksum {
			return &wrongAnswer{Native, l.name(), s.name, got, s.checksum}
		}
	}
	for _, f := range a.Figures {
		l.add(asking{f.Set, f.Access, f.Order, f.Per}, f.Repetitions...)
	}
	return nil
}

// ask times an eBPF contender in all ways, each as often as there is time for.
func (l *lane) ask(seconds float64, repetitions int) error {
	all := l.contender.asks()
	for range repetitions {
		for _, a := range all {
			var ns []float64
			begin := time.Now()
			for len(ns) == 0 || time.Since(begin).Seconds() < seconds/float64(repetitions*len(all)) {
				took, err := l.contender.time(a)
				if err != nil {
					return fmt.Errorf("time %s in eBPF: %w", l.name(), err)
				}
				ns = append(ns, took)
			}
			l.add(a, statistics.Median(ns))
		}
	}
	return nil
}

func (l *lane) add(a asking, ns ...float64) {
	for _, s := range l.times {
		if s.asking == a {
			s.ns = append(s.ns, ns...)
			return
		}
	}
	l.times = append(l.times, &series{a, ns})
}

// finish turns times into rows.
func (m *measurement) finish() {
	idle := m.result.Power.Idle
	for i, l := range m.lanes {
		if len(l.times) == 0 {
			m.missing(l)
			continue
		}
		if l.again {
			m.result.Noise = append(m.result.Noise, noise(m.lanes[i-1], l))
			continue
		}
		for _, s := range l.times {
			row := Row{
				Algorithm: l.algorithm, Holds: l.holds, Where: l.where, Keys: l.sets[s.set].name, Access: s.access, Order: s.order, Per: s.per,
				Ns: statistics.Interval(s.ns), Memory: l.memory, Checksum: l.sets[s.set].checksum,
			}
			row.Rate = 1e3 / row.Ns.Median
			row.Cycles = row.Ns.Median * m.result.Clock.GHz
			if watts := statistics.Median(l.watts); idle > 0 && watts > idle {
				row.NanoJoules = (watts - idle) * row.Ns.Median
			}
			m.result.Rows = append(m.result.Rows, row)
		}
	}
	if m.result.Machine.Load > 0.5 {
		m.result.Notes = append(m.result.Notes, fmt.Sprintf("The machine was not idle: its load was %.1f when the benchmark began.", m.result.Machine.Load))
	}
}

// missing notes a lane that no time was left for.
func (m *measurement) missing(l *lane) {
	if !l.again {
		m.result.Missing = append(m.result.Missing, fmt.Sprintf("%s, %s: %v", l.name(), l.where, errLate))
	}
}

// noise is what the same workload's two measurements of each round differ by, over all ways of asking.
func noise(a, b *lane) Noise {
	var ratios []float64
	for i, s := range a.times {
		for round := range min(len(s.ns), len(b.times[i].ns)) { // the last round may have been cut short
			ratios = append(ratios, s.ns[round]/b.times[i].ns[round])
		}
	}
	return Noise{What: a.where + ", " + a.name(), Ratio: statistics.Interval(ratios)}
}
