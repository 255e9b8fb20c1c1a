// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/result"
)

// fact is a line of "what, on what, when".
type fact struct{ Name, Value string }

type factList []fact

// add leaves out what is not known.
func (l *factList) add(name, format string, args ...any) {
	if value := strings.TrimSpace(fmt.Sprintf(format, args...)); value != "" {
		*l = append(*l, fact{name, value})
	}
}

func runFacts(r *result.Result) (l factList) {
	l.add("Measured", "%s", timeSpan(r))
	l.add("Minne", "%s", joined(r.Minne.Version, prefixed("commit ", r.Minne.Commit), r.Minne.Go))
	l.add("Machine", "%s", joined(r.Machine.Model, r.Machine.CPU, threads(r.Machine), prefixed("Linux ", r.Machine.Kernel), prefixed("virtual: ", r.Machine.Virtual)))
	l.add("Tester", "%s", joined(r.Tester.Topology, r.Tester.Mode, r.Tester.Transmit, r.Tester.Receive))
	l.add("Repeat it with", "%s", shellWords(r.Command))
	return l
}

func threads(m machine.Machine) string {
	if m.Threads == 0 {
		return ""
	}
	return fmt.Sprintf("%d threads", m.Threads)
}

func timeSpan(r *result.Result) string {
	if r.Started.IsZero() {
		return ""
	}
	text := r.Started.UTC().Format("2 January 2006, 15:04 UTC")
	if r.Ended.After(r.Started) {
		text += ", " + lasting(r.Ended.Sub(r.Started))
	}
	return text
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// shellWords writes a command so that a shell reads the same words.
func shellWords(words []string) string {
	var out []string
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n\"'`$\\|&;<>()*?[]#~!{}") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

func machineFacts(m machine.Machine) (l factList) {
	l.add("Host", "%s", m.Hostname)
	l.add("Model", "%s", m.Model)
	if m.Virtual != "" {
		l.add("Virtual", "yes, %s", m.Virtual)
	}
	l.add("CPU", "%s", joined(m.CPU, m.Architecture))
	if m.Cores > 0 {
		l.add("Cores", "%d cores, %d threads", m.Cores, m.Threads)
	}
	if lo, hi, ok := bounds(m.MHz); ok {
		text := fmt.Sprintf("%.0f MHz", lo)
		if hi-lo >= 1 {
			text = fmt.Sprintf("%.0f to %.0f MHz", lo, hi)
		}
		l.add("Frequency at the start", "%s", joined(text, prefixed("governor ", m.Governor)))
	}
	l.add("Caches", "%s", strings.Join(m.Caches, ", "))
	if m.MemoryBytes > 0 {
		l.add("Memory", "%.1f GiB", float64(m.MemoryBytes)/(1<<30))
	}
	l.add("System", "%s", m.System)
	l.add("Kernel", "%s", m.Kernel)
	l.add("Kernel command line", "%s", m.CommandLine)
	l.add("Clock source", "%s", m.Clock)
	l.add("Load average at the start", "%.2f", m.Load)
	l.add("Time taken by the hypervisor", "%s", percent(m.Steal))
	l.add("Settings", "%s", pairs(m.Settings))
	l.add("Mitigations", "%s", pairs(m.Mitigations))
	return l
}

func pairs(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+": "+v)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func testerFacts(t result.Tester) (l factList) {
	l.add("Topology", "%s", t.Topology)
	l.add("Mode", "%s", t.Mode)
	l.add("Transmit", "%s", t.Transmit)
	l.add("Receive", "%s", t.Receive)
	if t.Batch > 0 {
		l.add("Frames per turn", "%d", t.Batch)
	}
	l.add("CPUs", "%s", strings.Join(t.CPUs, ", "))
	for _, p := range t.Ports {
		speed := ""
		if p.Speed > 0 {
			speed = bitRate(float64(p.Speed))
		}
		l.add("Port "+p.Name, "%s", joined(p.Role, p.Driver, p.Bus, p.MAC, speed))
	}
	if t.MaxRate > 0 {
		l.add("Sends at most", "%s", packetRate(t.MaxRate))
	}
	if t.BiasNS > 0 {
		l.add("Latency of the tester alone", "%s", joined(nanoseconds(t.BiasNS)+" median", at99(t.BiasNS99)))
	}
	if t.LineRate > 0 {
		l.add("Line rate", "%s", bitRate(t.LineRate))
	} else {
		l.add("Line rate", "none: the ports are not real cables")
	}
	return l
}

func deviceTable(all []result.Device) table {
	t := table{Columns: columns(left("device", "kind", "version", "configuration", "its SHA-256", "binary's SHA-256"), right("IPv4 routes", "IPv6 routes"), left("remark"))}
	for _, d := range all {
		t.add(d.Name, d.Kind, d.Version, d.Config, d.ConfigHash, d.BinaryHash, grouped(float64(d.Routes4)), grouped(float64(d.Routes6)), d.Remark)
	}
	return t
}

// trialTable lists the first trials with their raw counters.
func trialTable(r *result.Result, most int) table {
	t := table{Columns: columns(right("trial"), left("device", "traffic", "purpose"), right("load", "duration", "intended", "sent", "received", "lost", "duplicated", "reordered", "wrong", "50 %", "99 %", "gaps", "in gaps"), left("void"))}
	for i, x := range r.Trials[:min(most, len(r.Trials))] {
		load := "greatest"
		if x.Rate > 0 {
			load = packetRate(x.Rate)
		}
		t.add(grouped(float64(i+1)), x.Device, x.Traffic, x.Purpose, load, elapsed(max(x.Elapsed, 0)), count(x.Intended), count(x.Sent), count(x.Received), count(x.Lost()), count(x.Duplicated), count(x.Reordered),
			count(x.Corrupted+x.BadTTL+x.BadHeader+x.BadMAC), delay(x.Latency.Quantile(0.5)), delay(x.Latency.Quantile(0.99)), count(x.Gaps), delay(x.GapTime), x.Void)
	}
	return t
}

// delay leaves out what was not measured.
func delay(d time.Duration) string {
	if d == 0 {
		return none
	}
	return elapsed(d)
}

// at99 is empty when the figure is not known.
func at99(ns float64) string {
	if ns == 0 {
		return ""
	}
	return nanoseconds(ns) + " at 99 %"
}
