// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// What the figures say in words, and what makes them doubtful.

// mostSentences of one kind keep the summary one that people read.
const mostSentences = 4

// Summary says in sentences what was found.
func Summary(r *result.Result) (out []string) {
	left := 0
	for _, kind := range [][]string{
		said(r.Comparisons, comparisonInWords), saidTogether(r.Throughput, func(m result.Throughput) result.Subject { return m.Subject }, throughputInWords),
		saidTogether(r.MRR, func(m result.MRR) result.Subject { return m.Subject }, mrrInWords), said(r.Cost, costInWords), said(r.Loss, lossInWords), said(r.Latency, latencyInWords), said(r.BackToBack, burstInWords),
		said(r.Recovery, recoveryInWords), said(r.Soak, soakInWords), said(r.Energy, energyInWords), said(r.Responsiveness, responsivenessInWords),
	} {
		shown := min(len(kind), mostSentences)
		out, left = append(out, kind[:shown]...), left+len(kind)-shown
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("%d more findings are in the sections below.", left))
	}
	return out
}

// said makes a sentence of every figure that has something to say.
func said[T any](all []T, words func(T) string) (out []string) {
	for _, t := range all {
		if text := words(t); text != "" {
			out = append(out, text)
		}
	}
	return out
}

func saidTogether[T any](all []T, subject func(T) result.Subject, words func([]T) string) []string {
	return said(alikes(all, subject), words)
}

func comparisonInWords(c result.Comparison) string {
	return fmt.Sprintf("%s against %s (%s): %s; ratio %s, 95 %% within %s, while %s against itself is within %s.", c.B, c.A, joined(c.Traffic, size(c.Subject)), c.Verdict, significant(c.Ratio.Median), interval(c.Ratio), c.A, interval(c.SameSame))
}

func mrrInWords(all []result.MRR) string {
	var rates []string
	for _, m := range firstLast(all) {
		rates = append(rates, fmt.Sprintf("%s (%s) with %s", packetRate(m.Mean), bitRate(carried(m.Subject, m.Mean)), size(m.Subject)))
	}
	return fmt.Sprintf("%s, %s: at the greatest load of the tester it forwards %s.", all[0].Device, all[0].Traffic, strings.Join(rates, ", "))
}

func costInWords(c result.Cost) string {
	return fmt.Sprintf("%s takes %s of CPU time for a packet, 95 %% within %s (%s).", c.Device, nanoseconds(c.PerPacket.Median), span(c.PerPacket.Low, c.PerPacket.High, durations), joined(c.Traffic, size(c.Subject)))
}

func latencyInWords(l result.Latency) string {
	if len(l.Loads) == 0 {
		return ""
	}
	p := l.Loads[len(l.Loads)-1]
	return fmt.Sprintf("%s delays half of the frames by at most %s and 99 %% by at most %s at %s (%s); the tester's own share is %s.", l.Device, elapsed(p.P50), elapsed(p.P99), loadName(p.Share), joined(l.Traffic, size(l.Subject)), elapsed(p.Bias))
}

func lossInWords(c result.LossCurve) string {
	if len(c.Points) == 0 {
		return ""
	}
	most, clean := c.Points[0], 0.0
	for _, p := range c.Points {
		if p.Offered > most.Offered {
			most = p
		}
		if p.Loss == 0 {
			clean = max(clean, p.Offered)
		}
	}
	text := "no load that was tried came through without loss"
	if clean > 0 {
		text = "the greatest load without loss is " + packetRate(clean)
	}
	return fmt.Sprintf("%s (%s) loses %s of %s; %s.", c.Device, joined(c.Traffic, size(c.Subject)), percent(most.Loss), packetRate(most.Offered), text)
}

func burstInWords(b result.BackToBack) string {
	if b.Unbounded {
		return fmt.Sprintf("%s (%s) lost no frame of any burst that was tried.", b.Device, joined(b.Traffic, size(b.Subject)))
	}
	return fmt.Sprintf("%s (%s) takes bursts of %s frames without loss: a buffer of %s, corrected %s.", b.Device, joined(b.Traffic, size(b.Subject)), significant(b.Mean), elapsed(b.BufferTime), elapsed(b.Corrected))
}

func recoveryInWords(m result.Recovery) string {
	if m.Outage == 0 {
		return fmt.Sprintf("%s does not stop forwarding (%s, by %s).", m.Device, m.Event, m.Method)
	}
	return fmt.Sprintf("%s stops forwarding for %s (%s, by %s).", m.Device, elapsed(m.Outage), m.Event, m.Method)
}

func soakInWords(m result.Soak) string {
	return fmt.Sprintf("%s under %s for %s: %s.", m.Device, packetRate(m.Load), lasting(lengthOf(m.Series)), strings.TrimSuffix(m.Verdict, "."))
}

func responsivenessInWords(m result.Responsiveness) string {
	return fmt.Sprintf("%s answers within %s while TCP saturates it, %s when idle (medians); %s round trips a minute under load.", m.Device, elapsed(m.Loaded.P50), elapsed(m.Idle.P50), significant(m.RPM))
}

// alikes puts figures of one device and traffic together, which differ in frame size only.
func alikes[T any](all []T, subject func(T) result.Subject) (out [][]T) {
	index := map[[2]string]int{}
	for _, t := range all {
		key := [2]string{subject(t).Device, subject(t).Traffic}
		i, known := index[key]
		if !known {
			i = len(out)
			index[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	return out
}

// firstLast returns the first and the last of all; with frame sizes in order, the extremes.
func firstLast[T any](all []T) []T {
	if len(all) <= 2 {
		return all
	}
	return []T{all[0], all[len(all)-1]}
}

func throughputInWords(all []result.Throughput) string {
	var parts []string
	goal := ""
	for _, m := range firstLast(all) {
		if b, ok := strictest(m.Bounds); ok {
			goal = b.Goal.Name
			parts = append(parts, boundInWords(m.Subject, b))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %s: throughput (goal %s) %s.", all[0].Device, all[0].Traffic, goal, strings.Join(parts, ", "))
}

func boundInWords(s result.Subject, b result.Bound) string {
	switch {
	case b.Lower <= 0 && b.Upper > 0:
		return fmt.Sprintf("below %s with %s", packetRate(b.Upper), size(s))
	case b.Lower <= 0:
		return "not found with " + size(s)
	case b.Upper <= 0 && !b.Unlimited:
		return fmt.Sprintf("at least %s (%s) with %s, the search had no time to find more", packetRate(b.Lower), bitRate(carried(s, b.Lower)), size(s))
	case b.Upper <= 0:
		return fmt.Sprintf("at least %s (%s) with %s, more than the tester can send", packetRate(b.Lower), bitRate(carried(s, b.Lower)), size(s))
	}
	return fmt.Sprintf("between %s (from %s) with %s", apart(b.Lower, b.Upper, " and ", packetRates), bitRate(carried(s, b.Lower)), size(s))
}

func energyInWords(m result.Energy) string {
	if m.Missing != "" {
		return fmt.Sprintf("Energy of %s: %s.", m.Device, strings.TrimSuffix(m.Missing, "."))
	}
	if len(m.Steps) == 0 {
		return ""
	}
	first, last := m.Steps[0], m.Steps[len(m.Steps)-1]
	return fmt.Sprintf("%s takes %.2f W at %s and %.2f W at %s: %s per packet above idle (%s).", m.Device, first.Watts, packetRate(first.Rate), last.Watts, packetRate(last.Rate), in(m.JoulePerPacket, energies), m.Source)
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
	n, reasons := voided(r.Trials)
	if n > len(r.Trials)/2 {
		out = append(out, "The host took processor time away in most trials: figures of loads and losses show the host more than the devices. Measure again when nothing else runs.")
	}
	if n > 0 {
		out = append(out, fmt.Sprintf("Void trials, which do not count: %d of %d: %s.", n, len(r.Trials), strings.Join(reasons, "; ")))
	}
	if r.Machine.Steal > noisySteal {
		out = append(out, fmt.Sprintf("The machine was noisy: its hypervisor gave %s of the CPU time to others during the measurement.", percent(r.Machine.Steal)))
	}
	if threads := r.Machine.Threads; threads > 0 && r.Machine.Load > noisyLoad*float64(threads) {
		out = append(out, fmt.Sprintf("The machine was busy before the measurement began: load average %s on %d CPUs.", significant(r.Machine.Load), threads))
	}
	return out
}

// figuresIn a reason differ from trial to trial; the reason is the same.
var figuresIn = regexp.MustCompile(`[0-9][0-9.,:]*(?:[mnµ]?s)?(?: (?:[mnµ]?s|%))?\b`)

// voided counts the trials that do not count, with their reasons, most frequent first.
func voided(trials []trial.Result) (n int, reasons []string) {
	times, example := map[string]int{}, map[string]string{}
	for _, t := range trials {
		if t.Void != "" {
			n++
			kind := figuresIn.ReplaceAllString(t.Void, "…")
			times[kind]++
			example[kind] = t.Void
		}
	}
	for kind := range times {
		reasons = append(reasons, kind)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if times[a] != times[b] {
			return times[b] - times[a]
		}
		return strings.Compare(a, b)
	})
	for i, kind := range reasons {
		if times[kind] == 1 {
			reasons[i] = example[kind]
		}
	}
	if len(reasons) > 4 {
		reasons = append(reasons[:4], "…")
	}
	return n, reasons
}
