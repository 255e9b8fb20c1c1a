// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// CPUTime is how long the CPUs together have done what since the computer
// started, in the kernel's ticks (/proc/stat, proc_stat(5)).
type CPUTime struct {
	Busy  uint64 // user, system and interrupts
	Idle  uint64 // also waiting for a disk
	Steal uint64 // other tenants of the hypervisor had the CPU
	CPUs  int
}

// CPUTimes reads the times of all CPUs from a root directory.
func CPUTimes(root fs.FS) (CPUTime, error) {
	text, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return CPUTime{}, err
	}
	var t CPUTime
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || !strings.HasPrefix(f[0], "cpu"):
		case f[0] != "cpu":
			t.CPUs++
		default:
			var n [8]uint64 // user nice system idle iowait irq softirq steal; guest times are within user and nice
			for i := range min(len(f)-1, len(n)) {
				if n[i], err = strconv.ParseUint(f[i+1], 10, 64); err != nil {
					return CPUTime{}, fmt.Errorf("/proc/stat: %w", err)
				}
			}
			t.Busy, t.Idle, t.Steal = n[0]+n[1]+n[2]+n[5]+n[6], n[3]+n[4], n[7]
		}
	}
	if t.CPUs == 0 {
		return CPUTime{}, fmt.Errorf("/proc/stat names no CPU")
	}
	return t, nil
}

// Since returns the shares of the time between two readings, 0…1 of all CPUs:
// busy with this machine's own work, and taken by the hypervisor.
func (t CPUTime) Since(before CPUTime) (busy, steal float64) {
	// iowait may run backwards (proc_stat(5)); so little that it is nothing.
	since := func(now, then uint64) float64 { return float64(max(now, then) - then) }
	b, i, s := since(t.Busy, before.Busy), since(t.Idle, before.Idle), since(t.Steal, before.Steal)
	if all := b + i + s; all > 0 {
		return b / all, s / all
	}
	return 0, 0
}

// Watch compares a machine after a measurement with itself before.
type Watch struct {
	root   fs.FS
	before state
}

// state is what changes while a machine works.
type state struct {
	times     CPUTime
	mhz       []float64
	governor  string
	throttled map[string]float64 // counters of throttling, by what they count
	cooling   map[string]float64 // how far devices are slowed down to cool, by name
	firmware  string             // a Raspberry Pi's flags of throttling, hexadecimal
}

// StartWatch begins to watch this machine. It takes nothing but two glances.
func StartWatch() *Watch { return startWatch(os.DirFS("/")) }

func startWatch(root fs.FS) *Watch { return &Watch{root: root, before: look(root)} }

// Steal returns the share of the CPUs' time that the hypervisor took since the watch began, 0…1.
func (w *Watch) Steal() float64 {
	_, steal := w.shares()
	return steal
}

// Busy returns the share of the CPUs' time since the watch began that was used
// by this machine's own work, whoever's it was, 0…1.
func (w *Watch) Busy() float64 {
	busy, _ := w.shares()
	return busy
}

func (w *Watch) shares() (busy, steal float64) {
	now, err := CPUTimes(w.root)
	if err != nil {
		return 0, 0
	}
	return now.Since(w.before.times)
}

// Amounts from which on a change is worth a word.
const (
	noteSteal     = 0.01
	noteFrequency = 0.05
)

// Notes returns what happened since the watch began that a reader of the figures must know, in words.
func (w *Watch) Notes() (notes []string) {
	now := look(w.root)
	if _, steal := now.times.Since(w.before.times); steal >= noteSteal {
		notes = append(notes, fmt.Sprintf("The hypervisor took %.1f %% of the CPUs' time for others during this run.", steal*100))
	}
	if text := frequencyChange(w.before.mhz, now.mhz); text != "" {
		notes = append(notes, text)
	}
	if now.governor != w.before.governor {
		notes = append(notes, fmt.Sprintf("The frequency governor was changed during this run from %s to %s.", w.before.governor, now.governor))
	}
	notes = append(notes, grown(w.before.throttled, now.throttled, "The CPU was throttled during this run: %s rose by %.0f.")...)
	notes = append(notes, grown(w.before.cooling, now.cooling, "A device slows down to cool: %s is %.0f steps further than at the start.")...)
	if text := firmwareFlags(now.firmware); text != "" {
		notes = append(notes, text)
	}
	return notes
}

func look(root fs.FS) state {
	f := files{root}
	s := state{mhz: f.frequencies(f.processors()), governor: f.governor(), throttled: map[string]float64{}, cooling: map[string]float64{}}
	s.times, _ = CPUTimes(root) // without it the shares are 0
	for _, dir := range f.processorDirs() {
		for _, name := range []string{"core_throttle_count", "package_throttle_count"} {
			if n, ok := f.number(dir + "/thermal_throttle/" + name); ok {
				s.throttled[path.Base(dir)+" "+name] = n
			}
		}
	}
	devices, _ := fs.Glob(f, "sys/class/thermal/cooling_device*")
	for _, dir := range devices {
		kind := f.line(dir + "/type")
		if n, ok := f.number(dir + "/cur_state"); ok && !strings.Contains(strings.ToLower(kind), "fan") {
			s.cooling[kind+" ("+path.Base(dir)+")"] = n
		}
	}
	s.firmware = f.line("sys/devices/platform/soc/soc:firmware/get_throttled")
	return s
}

// frequencyChange tells when the frequencies at the end are others than at the start.
func frequencyChange(before, after []float64) string {
	if len(before) == 0 || len(after) == 0 {
		return ""
	}
	was, is := slices.Max(before), slices.Max(after)
	if was == 0 || is > was*(1-noteFrequency) && is < was*(1+noteFrequency) {
		return ""
	}
	return fmt.Sprintf("The CPU's frequency changed: %.0f MHz at the start, %.0f MHz at the end (fastest CPU).", was, is)
}

func grown(before, after map[string]float64, format string) (notes []string) {
	for name, n := range after {
		if n > before[name] {
			notes = append(notes, fmt.Sprintf(format, name, n-before[name]))
		}
	}
	slices.Sort(notes)
	return notes
}

// firmwareFlags says what a Raspberry Pi's firmware reports (vcgencmd get_throttled).
func firmwareFlags(text string) string {
	flags, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
	if err != nil || flags == 0 {
		return ""
	}
	var words []string
	for _, f := range []struct {
		bit  int
		word string
	}{
		{0, "under-voltage now"}, {1, "frequency capped now"}, {2, "throttled now"}, {3, "soft temperature limit now"},
		{16, "under-voltage since it started"}, {17, "frequency was capped"}, {18, "was throttled"}, {19, "soft temperature limit was reached"},
	} {
		if flags>>f.bit&1 == 1 {
			words = append(words, f.word)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "The board's firmware reports: " + strings.Join(words, ", ") + "."
}
