// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"fmt"
	"math"

	"minne/internal/lab/report"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

// What a network card's driver takes for a packet can't be measured without the card. These are cycles of a core.
const (
	// NativeDriver is driver and redirect with XDP in the driver. On one core whose counter says 3.80 GHz, between two ports of a
	// ConnectX-5, 8.65 million packets a second were redirected by a program that only swaps MAC addresses: 440
	// cycles. T. Høiland-Jørgensen et al., The eXpress Data Path, CoNEXT 2018; the figures are in the repository of the
	// paper, github.com/tohojo/xdp-paper, benchmarks/bench05_xdp_redirect.org and, the counter, bench04_fwd.org.
	NativeDriver = 440
	// GenericDriver is a driver that knows no XDP: each packet gets an skb first, and is sent as one. The same core
	// forwarded 1.74 million packets a second by Linux alone with one route (bench04_fwd.org): 2,190 cycles, which
	// include what the fast path spares, so this is rather too much.
	GenericDriver = 2190
)

// frameBits are those of a frame of 64 bytes on the wire, with preamble and gap.
const frameBits = (64 + 20) * 8

// Parts are what an estimate is made of: ns of one core for a packet.
type Parts struct {
	Program float64 `json:"program_ns"` // the fast path's program for one flow, everything in the caches
	Rules   float64 `json:"rules_ns"`   // what it takes more with the rules, for packets that differ
	Random  float64 `json:"random_ns"`  // a lookup in the whole table that all further work waits for, as a packet's does
	Routes  int     `json:"routes"`
	RuleSet int     `json:"rules"`
	GHz     float64 `json:"ghz"`
	Clock   string  `json:"clock"` // where GHz is from
}

// PerPacket is what a packet takes when what is around the program takes so many ns. A lookup counts in full: that of
// the program's own measurement, of one address again and again, meets no branch that it does not know and waits for
// nothing.
func (p Parts) PerPacket(around float64) float64 {
	return p.Program + p.Random + p.Rules + around
}

// Estimate is what the platform can route, on one core.
type Estimate struct {
	Text    string  `json:"text"`
	Parts   Parts   `json:"parts"`
	Native  float64 `json:"native_pps"`  // with XDP in the card's driver
	Generic float64 `json:"generic_pps"` // with a driver that knows no XDP
	Limit   string  `json:"limited_by"`
	Checks  []Check `json:"checks,omitempty"`
}

// Check compares the sum of parts with a lab on this machine.
type Check struct {
	What      string          `json:"what"`
	Estimated float64         `json:"estimated_ns"` // per packet
	Measured  result.Interval `json:"measured_ns"`
	Error     float64         `json:"error"` // estimated by measured, minus 1
}

func check(what string, estimated float64, measured result.Interval) Check {
	return Check{what, estimated, measured, estimated/measured.Median - 1}
}

// NewEstimate works out an estimate from parts.
func NewEstimate(p Parts, checks []Check) (*Estimate, error) {
	if !(p.Program > 0 && p.GHz > 0) {
		return nil, errors.New("no estimate: the fast path's program was not measured")
	}
	driver := NativeDriver / p.GHz
	e := &Estimate{Parts: p, Checks: checks, Native: 1e9 / p.PerPacket(driver), Generic: 1e9 / p.PerPacket(GenericDriver/p.GHz)}
	most := 0.0
	for _, part := range []struct {
		name string
		ns   float64
	}{
		{"memory latency: lookups wait for the table", p.Random}, {"the firewall's rules", p.Rules},
		{"the fast path's own program", p.Program}, {"the card's driver, which is assumed", driver},
	} {
		if part.ns > most {
			most, e.Limit = part.ns, part.name
		}
	}
	e.Text = e.words(driver)
	return e, nil
}

// words says it in plain words.
func (e *Estimate) words(driver float64) string {
	p := e.Parts
	rules := ""
	if p.RuleSet > 0 {
		rules = fmt.Sprintf(" and %s rules", grouped(p.RuleSet))
	}
	text := fmt.Sprintf("One core routes about %s of 64-byte packets (%s) with a table of %s routes%s, limited most by %s. "+
		"A packet takes %.0f ns: program %.0f, waiting for the table %.0f, rules %.0f (measured); driver %.0f (assumed: %d cycles with XDP in the driver, %s). "+
		"With a driver without XDP (assumed: %d cycles) it is about %s.",
		millions(e.Native), gigabits(e.Native*frameBits), grouped(p.Routes), rules, e.Limit,
		1e9/e.Native, p.Program, p.Random, p.Rules, driver, NativeDriver, p.Clock, GenericDriver, millions(e.Generic))
	if len(e.Checks) == 0 {
		return text + " To check this sum on this machine use --check-estimate."
	}
	worst := 0.0
	for _, c := range e.Checks {
		worst = math.Max(worst, math.Abs(c.Error))
	}
	return text + fmt.Sprintf(" Compared with a lab on this machine, whose ports are veth, the sum of parts is off by up to %.0f %%.", 100*worst)
}

func millions(pps float64) string {
	if pps < 1e5 {
		return report.Significant(pps/1e3) + " kpps"
	}
	return fmt.Sprintf("%.2g Mpps", pps/1e6)
}

func gigabits(bps float64) string { return fmt.Sprintf("%.2g Gbit/s on the wire", bps/1e9) }

// lookupParts takes the lookups of an estimate from the rows of a result: those of the table that the router uses.
func (r *Result) lookupParts() (p Parts, err error) {
	for _, row := range r.Rows {
		if row.Algorithm != RangeTable || row.Where != EBPF || row.Keys != "in table" {
			continue
		}
		if row.Access == "all" && row.Order == "dependent" {
			p.Random = row.Ns.Median
		}
	}
	if p.Random == 0 {
		return p, errors.New("no estimate: it needs the lookups of the range table in eBPF (root, and range among --algorithms)")
	}
	p.GHz, p.Clock = r.clock()
	return p, nil
}

// usualGHz stands where nothing tells the clock.
const usualGHz = 2

// clock is the CPU's frequency, and where that is from.
func (r *Result) clock() (ghz float64, from string) {
	switch mhz := statistics.Median(r.Machine.MHz); {
	case r.Clock.GHz > 0:
		return r.Clock.GHz, fmt.Sprintf("%.2f GHz counted", r.Clock.GHz)
	case mhz > 0:
		return mhz / 1e3, fmt.Sprintf("%.2f GHz as the kernel reports", mhz/1e3)
	}
	return usualGHz, fmt.Sprintf("%d GHz assumed", usualGHz)
}

// estimateSection shows the parts and the checks.
func (e *Estimate) section() report.Section {
	s := report.Section{ID: "estimate", Title: "What it can route", Method: "The sum of what a packet takes of one core: the fast path's program by BPF_PROG_TEST_RUN, what rules add for random packets, " +
		"what a lookup takes that all waits for, and the driver, which is assumed. As many cores route as many times that, when the card spreads packets over them."}
	parts := report.Table{Columns: columns([]string{"part"}, "ns per packet")}
	for _, row := range []struct {
		name string
		ns   float64
	}{
		{"program, one packet again and again", e.Parts.Program},
		{fmt.Sprintf("%s rules, packets that differ", grouped(e.Parts.RuleSet)), e.Parts.Rules},
		{fmt.Sprintf("waiting for the table of %s routes", grouped(e.Parts.Routes)), e.Parts.Random},
		{"driver with XDP (assumed)", NativeDriver / e.Parts.GHz}, {"instead: driver without XDP (assumed)", GenericDriver / e.Parts.GHz},
	} {
		parts.Rows = append(parts.Rows, []string{row.name, report.Significant(row.ns)})
	}
	s.Tables = []report.Table{parts}
	if len(e.Checks) > 0 {
		t := report.Table{Title: "The same sums with the lab's ports in place of a driver, against the lab", Columns: columns([]string{"load"}, "estimated", "measured", "95 % interval", "error")}
		for _, c := range e.Checks {
			t.Rows = append(t.Rows, []string{c.What, report.Nanoseconds(c.Estimated), report.Nanoseconds(c.Measured.Median),
				report.Significant(c.Measured.Low) + " to " + report.Significant(c.Measured.High), fmt.Sprintf("%+.0f %%", 100*c.Error)})
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}
