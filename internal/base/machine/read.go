// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is the computer on which something was measured. What could not be read is empty.
type Machine struct {
	Hostname     string            `json:"hostname,omitempty"` // only when asked for: reports are shared
	Model        string            `json:"model,omitempty"`    // DMI or device tree
	Virtual      string            `json:"virtual,omitempty"`  // the hypervisor; empty on bare metal
	CPU          string            `json:"cpu"`
	Architecture string            `json:"architecture"`
	Cores        int               `json:"cores"`
	Threads      int               `json:"threads"`
	MHz          []float64         `json:"mhz,omitempty"` // of every CPU, at the start
	Governor     string            `json:"governor,omitempty"`
	Caches       []string          `json:"caches,omitempty"` // "L1d 32 KiB", …
	MemoryBytes  uint64            `json:"memory_bytes"`
	Kernel       string            `json:"kernel"`
	CommandLine  string            `json:"kernel_command_line,omitempty"` // the parameters that bear on speed
	System       string            `json:"system"`                        // distribution
	Mitigations  map[string]string `json:"mitigations,omitempty"`         // vulnerability: state
	Settings     map[string]string `json:"settings,omitempty"`            // sysctls that matter: bpf_jit_enable …
	Clock        string            `json:"clocksource,omitempty"`
	Load         float64           `json:"load_average"` // one minute, at the start
	Steal        float64           `json:"steal"`        // share of time taken by the hypervisor during the run, 0…1
}

// Read describes this computer. It never fails: what can't be read is empty.
func Read() Machine {
	var u unix.Utsname
	unix.Uname(&u) //nolint:errcheck // fails only for a bad pointer
	return read(os.DirFS("/"), unix.ByteSliceToString(u.Machine[:]))
}

// read describes the computer whose files are under root.
func read(root fs.FS, architecture string) Machine {
	f := files{root}
	cpus := f.processors()
	m := Machine{
		Model:        f.model(cpus),
		CPU:          f.processorName(cpus),
		Architecture: architecture,
		MHz:          f.frequencies(cpus),
		Governor:     f.governor(),
		Caches:       f.caches(),
		MemoryBytes:  f.memory(),
		Kernel:       strings.TrimSpace(f.line("proc/sys/kernel/osrelease") + " " + f.line("proc/sys/kernel/version")),
		CommandLine:  speaking(f.line("proc/cmdline")),
		System:       f.system(),
		Mitigations:  f.directory("sys/devices/system/cpu/vulnerabilities"),
		Settings:     f.settings(),
		Clock:        f.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Load:         f.load(),
	}
	m.Virtual = f.virtual(cpus)
	m.Cores, m.Threads = f.cores(cpus)
	return m
}

// files are a root directory whose files may all be missing.
type files struct{ fs.FS }

// line returns the text of a small file without the white space and NULs (the
// device tree's) around it.
func (f files) line(name string) string {
	// Of the FS itself, which reads at once: /proc/sys answers only the first read.
	text, err := fs.ReadFile(f.FS, name)
	if err != nil {
		return ""
	}
	return string(bytes.Trim(text, " \t\r\n\x00"))
}

// number returns the number that a file begins with.
func (f files) number(name string) (n float64, ok bool) {
	fields := strings.Fields(f.line(name))
	if len(fields) == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(fields[0], 64)
	return n, err == nil
}

// directory returns the lines of all files in a directory, by name; nil when there are none.
func (f files) directory(name string) map[string]string {
	out := map[string]string{}
	entries, _ := fs.ReadDir(f, name) // a directory that is missing has none
	for _, e := range entries {
		if text := f.line(path.Join(name, e.Name())); text != "" {
			out[e.Name()] = text
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// processorDirs returns the directories of the CPUs in their numbers' order.
func (f files) processorDirs() []string {
	dirs, _ := fs.Glob(f, "sys/devices/system/cpu/cpu[0-9]*")
	slices.SortFunc(dirs, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return dirs
}

// frequencies returns the present frequency of every CPU in MHz.
func (f files) frequencies(cpus []map[string]string) (mhz []float64) {
	for _, dir := range f.processorDirs() {
		if kHz, ok := f.number(dir + "/cpufreq/scaling_cur_freq"); ok {
			mhz = append(mhz, kHz/1e3)
		}
	}
	if len(mhz) > 0 {
		return mhz
	}
	for _, c := range cpus {
		text := strings.TrimSuffix(first(c, "cpu MHz", "clock"), "MHz") // PowerPC: "clock : 800.000000MHz"
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			mhz = append(mhz, v)
		}
	}
	return mhz
}

// governor returns what chooses the frequencies, with its driver; of several, all.
func (f files) governor() string {
	var all []string
	for _, dir := range f.processorDirs() {
		g, driver := f.line(dir+"/cpufreq/scaling_governor"), f.line(dir+"/cpufreq/scaling_driver")
		if driver != "" {
			g += " (" + driver + ")"
		}
		if g != "" && !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	return strings.Join(all, ", ")
}

// caches returns the caches of every kind of CPU, such as "L1d 32 KiB" and, when
// several CPUs share one, "L2 1 MiB for CPUs 0-3".
func (f files) caches() (all []string) {
	for _, dir := range f.processorDirs() {
		indexes, _ := fs.Glob(f, dir+"/cache/index[0-9]*")
		slices.Sort(indexes)
		for _, index := range indexes {
			text := f.cache(index, path.Base(dir))
			if text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

func (f files) cache(dir, cpu string) string {
	level, size := f.line(dir+"/level"), f.line(dir+"/size")
	if level == "" || size == "" {
		return ""
	}
	text := "L" + level
	switch f.line(dir + "/type") {
	case "Data":
		text += "d"
	case "Instruction":
		text += "i"
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(size, "K")); err == nil {
		size = fmt.Sprintf("%d KiB", kib)
		if kib >= 1024 && kib%512 == 0 {
			size = fmt.Sprintf("%g MiB", float64(kib)/1024)
		}
	}
	text += " " + size
	if shared := f.line(dir + "/shared_cpu_list"); shared != "" && shared != strings.TrimPrefix(cpu, "cpu") {
		text += " for CPUs " + shared
	}
	return text
}

func (f files) memory() uint64 {
	for line := range strings.Lines(f.line("proc/meminfo")) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseUint(fields[1], 10, 64) // what is no number is 0: unknown
			return kib << 10
		}
	}
	return 0
}

func (f files) load() float64 {
	n, _ := f.number("proc/loadavg")
	return n
}

// system returns the distribution's name for itself (os-release(5)).
func (f files) system() string {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		var named string
		for line := range strings.Lines(f.line(name)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			value = strings.Trim(value, `"'`)
			switch key {
			case "PRETTY_NAME":
				return value
			case "NAME":
				named = value
			}
		}
		if named != "" {
			return named
		}
	}
	return ""
}

// settings are what changes the cost of a packet and differs from machine to machine.
func (f files) settings() map[string]string {
	out := map[string]string{}
	for _, name := range []string{
		"net/core/bpf_jit_enable", "net/core/bpf_jit_harden", "net/core/netdev_budget", "net/core/netdev_budget_usecs",
		"net/core/dev_weight", "net/core/default_qdisc", "net/core/rmem_max", "net/core/wmem_max",
		"net/ipv4/tcp_congestion_control", "kernel/bpf_stats_enabled", "kernel/nmi_watchdog",
	} {
		if text := f.line("proc/sys/" + name); text != "" {
			out[strings.ReplaceAll(name, "/", ".")] = text
		}
	}
	for name, file := range map[string]string{
		"smt":                   "sys/devices/system/cpu/smt/control",
		"isolated CPUs":         "sys/devices/system/cpu/isolated",
		"boost":                 "sys/devices/system/cpu/cpufreq/boost",
		"intel_pstate.no_turbo": "sys/devices/system/cpu/intel_pstate/no_turbo",
		"transparent hugepages": "sys/kernel/mm/transparent_hugepage/enabled",
		"preemption":            "sys/kernel/debug/sched/preempt",
	} {
		if text := f.line(file); text != "" {
			out[name] = text
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
