// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// What the figures say in words, and what makes them doubtful.

// mostSentences keeps the summary one that people read.
const mostSentences = 14

// Summary says in sentences what was found.
func Summary(r *result.Result) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, c := range r.Comparisons {
		say("%s against %s (%s): %s; ratio %s, 95 %% within %s, while %s against itself is within %s.", c.B, c.A, joined(c.Traffic, size(c.Subject)), c.Verdict, significant(c.Ratio.Median), interval(c.Ratio), c.A, interval(c.SameSame))
	}
	for _, m := range r.Throughput {
		sayThroughput(m, say)
	}
	for _, m := range r.MRR {
		say("%s forwards %s at the greatest load of the tester (%s).", m.Device, packetRate(m.Mean), joined(m.Traffic, size(m.Subject)))
	}
	for _, c := range r.Cost {
		say("%s takes %s of CPU time for a packet, 95 %% within %s (%s).", c.Device, nanoseconds(c.PerPacket.Median), span(c.PerPacket.Low, c.PerPacket.High, durations), joined(c.Traffic, size(c.Subject)))
	}
	for _, l := range r.Latency {
		if n := len(l.Loads); n > 0 {
			p := l.Loads[n-1]
			say("%s delays half of the frames by at most %s and 99 %% by at most %s at %s (%s); the tester's own share is %s.", l.Device, elapsed(p.P50), elapsed(p.P99), loadName(p.Share), joined(l.Traffic, size(l.Subject)), elapsed(p.Bias))
		}
	}
	for _, m := range r.Recovery {
		say("%s stops forwarding for %s at a %s.", m.Device, elapsed(m.Outage), m.Event)
	}
	for _, m := range r.Soak {
		say("%s under %s for %s: %s.", m.Device, packetRate(m.Load), lasting(lengthOf(m.Series)), strings.TrimSuffix(m.Verdict, "."))
	}
	for _, m := range r.Energy {
		sayEnergy(m, say)
	}
	for _, m := range r.Responsiveness {
		say("%s answers within %s while TCP saturates it, %s when idle (medians); %s round trips a minute under load.", m.Device, elapsed(m.Loaded.P50), elapsed(m.Idle.P50), significant(m.RPM))
	}
	if len(out) > mostSentences {
		rest := len(out) - mostSentences
		out = append(out[:mostSentences], fmt.Sprintf("%d more findings are in the sections.", rest))
	}
	return out
}

func sayThroughput(m result.Throughput, say func(string, ...any)) {
	b, ok := strictest(m.Bounds)
	if !ok {
		return
	}
	subject := joined(m.Traffic, size(m.Subject))
	switch {
	case b.Lower <= 0:
		say("%s met the goal %s at no load (%s).", m.Device, b.Goal.Name, subject)
	case b.Upper <= 0:
		say("%s forwards at least %s by the goal %s (%s); the tester can't send enough to find its limit.", m.Device, packetRate(b.Lower), b.Goal.Name, subject)
	default:
		say("%s forwards between %s by the goal %s (%s), %s.", m.Device, strings.Replace(span(b.Lower, b.Upper, packetRates), " to ", " and ", 1), b.Goal.Name, subject, bitRate(carried(m.Subject, b.Lower)))
	}
}

func sayEnergy(m result.Energy, say func(string, ...any)) {
	if m.Missing != "" {
		say("Energy of %s: %s.", m.Device, strings.TrimSuffix(m.Missing, "."))
		return
	}
	if len(m.Steps) == 0 {
		return
	}
	first, last := m.Steps[0], m.Steps[len(m.Steps)-1]
	say("%s takes %.2f W at %s and %.2f W at %s: %s per packet above idle (%s).", m.Device, first.Watts, packetRate(first.Rate), last.Watts, packetRate(last.Rate), in(m.JoulePerPacket, energies), m.Source)
}

// The machine is called noisy when more than so much of the time of its CPUs went to others.
const (
	noisySteal = 0.02
	noisyLoad  = 0.5 // running programs per CPU before the measurement began
)

// Doubts says what makes the figures incomplete or uncertain; the report shows it first.
func Doubts(r *result.Result) (out []string) {
	if r.Partial != "" {
		out = append(out, "This report is partial: "+r.Partial+".")
	}
	if n, reasons := voided(r.Trials); n > 0 {
		out = append(out, fmt.Sprintf("%d of %d trials were void and do not count: %s.", n, len(r.Trials), strings.Join(reasons, "; ")))
	}
	if r.Machine.Steal > noisySteal {
		out = append(out, fmt.Sprintf("The machine was noisy: its hypervisor gave %s of the CPU time to others during the measurement.", percent(r.Machine.Steal)))
	}
	if threads := r.Machine.Threads; threads > 0 && r.Machine.Load > noisyLoad*float64(threads) {
		out = append(out, fmt.Sprintf("The machine was busy before the measurement began: load average %s on %d CPUs.", significant(r.Machine.Load), threads))
	}
	return out
}

// voided counts the trials that do not count, with their reasons, most frequent first.
func voided(trials []trial.Result) (n int, reasons []string) {
	times := map[string]int{}
	for _, t := range trials {
		if t.Void != "" {
			n++
			times[t.Void]++
		}
	}
	for reason := range times {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if times[a] != times[b] {
			return times[b] - times[a]
		}
		return strings.Compare(a, b)
	})
	if len(reasons) > 4 {
		reasons = append(reasons[:4], "…")
	}
	return n, reasons
}
