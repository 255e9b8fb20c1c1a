// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// tree makes a file system of a text per path.
func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// A PC with hyper-threading and frequency scaling.
var pc = map[string]string{
	"proc/cpuinfo": `processor	: 0
vendor_id	: GenuineIntel
model name	: Intel(R) Atom(TM) CPU D510   @ 1.66GHz
cpu MHz		: 1000.000
flags		: fpu vme de

processor	: 1
vendor_id	: GenuineIntel
model name	: Intel(R) Atom(TM) CPU D510   @ 1.66GHz
cpu MHz		: 1661.000
flags		: fpu vme de
`,
	"proc/meminfo":                                                        "MemTotal:        2048000 kB\nMemFree: 1 kB\n",
	"proc/loadavg":                                                        "0.25 0.31 0.38 1/100 2196\n",
	"proc/cmdline":                                                        "BOOT_IMAGE=/vmlinuz ro isolcpus=1 mitigations=off luks.key=abc quiet\n",
	"proc/sys/kernel/osrelease":                                           "6.12.1\n",
	"proc/sys/kernel/version":                                             "#1 SMP\n",
	"proc/sys/net/core/bpf_jit_enable":                                    "1\n",
	"etc/os-release":                                                      "NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n",
	"sys/class/dmi/id/sys_vendor":                                         "Portwell\n",
	"sys/class/dmi/id/product_name":                                       "To Be Filled By O.E.M.\n",
	"sys/class/dmi/id/board_name":                                         "NANO-8044\n",
	"sys/class/dmi/id/product_serial":                                     "S3CRET\n",
	"sys/devices/system/cpu/cpu0/topology/core_id":                        "0\n",
	"sys/devices/system/cpu/cpu0/topology/physical_package_id":            "0\n",
	"sys/devices/system/cpu/cpu1/topology/core_id":                        "0\n",
	"sys/devices/system/cpu/cpu1/topology/physical_package_id":            "0\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq":                "1000000\n",
	"sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq":                "1661000\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":                "schedutil\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_driver":                  "acpi-cpufreq\n",
	"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":                "schedutil\n",
	"sys/devices/system/cpu/cpu1/cpufreq/scaling_driver":                  "acpi-cpufreq\n",
	"sys/devices/system/cpu/cpu0/cache/index0/level":                      "1\n",
	"sys/devices/system/cpu/cpu0/cache/index0/type":                       "Data\n",
	"sys/devices/system/cpu/cpu0/cache/index0/size":                       "24K\n",
	"sys/devices/system/cpu/cpu0/cache/index1/level":                      "2\n",
	"sys/devices/system/cpu/cpu0/cache/index1/type":                       "Unified\n",
	"sys/devices/system/cpu/cpu0/cache/index1/size":                       "1024K\n",
	"sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_list":            "0-1\n",
	"sys/devices/system/cpu/cpu1/cache/index1/level":                      "2\n",
	"sys/devices/system/cpu/cpu1/cache/index1/type":                       "Unified\n",
	"sys/devices/system/cpu/cpu1/cache/index1/size":                       "1024K\n",
	"sys/devices/system/cpu/cpu1/cache/index1/shared_cpu_list":            "0-1\n",
	"sys/devices/system/cpu/vulnerabilities/meltdown":                     "Not affected\n",
	"sys/devices/system/cpu/smt/control":                                  "on\n",
	"sys/devices/system/clocksource/clocksource0/current_clocksource":     "tsc\n",
	"sys/devices/system/clocksource/clocksource0/available_clocksource":   "tsc hpet\n",
	"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":    "4\n",
	"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "4\n",
}

// A Raspberry Pi-like board with two kinds of cores and no DMI.
var board = map[string]string{
	"proc/cpuinfo": `processor	: 0
BogoMIPS	: 108.00
CPU implementer	: 0x41
CPU variant	: 0x0
CPU part	: 0xd08
CPU revision	: 3

processor	: 1
CPU implementer	: 0x41
CPU variant	: 0x1
CPU part	: 0xd05
CPU revision	: 0

Revision	: c03111
Serial		: 10000000deadbeef
Model		: Raspberry Pi 4 Model B Rev 1.1
`,
	"proc/device-tree/model":                               "Raspberry Pi 4 Model B Rev 1.1\x00",
	"proc/sys/kernel/osrelease":                            "6.12.20+rpt-rpi-v8\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "1500000\n",
	"sys/devices/system/cpu/cpu0/topology/core_id":         "0\n",
	"sys/devices/system/cpu/cpu1/topology/core_id":         "1\n",
	"sys/devices/platform/soc/soc:firmware/get_throttled":  "50005\n",
	"sys/class/thermal/cooling_device0/type":               "cpufreq-cpu0\n",
	"sys/class/thermal/cooling_device0/cur_state":          "0\n",
	"sys/class/thermal/cooling_device1/type":               "pwm-fan\n",
	"sys/class/thermal/cooling_device1/cur_state":          "0\n",
	"proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\n",
}

// An OpenWrt router with a MIPS processor.
var mips = map[string]string{
	"proc/cpuinfo": `system type		: Atheros AR7161 rev 2
machine			: Ubiquiti RouterStation Pro
processor		: 0
cpu model		: MIPS 24Kc V7.4
`,
	"usr/lib/os-release": "NAME=\"OpenWrt\"\nVERSION=\"24.10\"\n",
	"proc/meminfo":       "MemTotal:         125000 kB\n",
}

// The virtual machine that Minne was developed on: no DMI, no frequencies.
var vm = map[string]string{
	"proc/cpuinfo": `processor	: 0
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) Processor
cpu MHz		: 2300.000
flags		: fpu tsc hypervisor
`,
	"sys/devices/system/cpu/cpu0/topology/core_id":                      "0\n",
	"sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc\n",
	"proc/cmdline": "console=ttyS0 init=/x -- --auth-token hello\n",
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, architecture string
		files              map[string]string
		want               Machine
	}{
		{"PC", "x86_64", pc, Machine{
			Model: "Portwell NANO-8044", CPU: "Intel(R) Atom(TM) CPU D510   @ 1.66GHz", Architecture: "x86_64",
			Cores: 1, Threads: 2, MHz: []float64{1000, 1661}, Governor: "schedutil (acpi-cpufreq)",
			Caches: []string{"L1d 24 KiB", "L2 1 MiB for CPUs 0-1"}, MemoryBytes: 2048000 << 10, Kernel: "6.12.1 #1 SMP",
			CommandLine: "isolcpus=1 mitigations=off",
			System:      "Debian GNU/Linux 13 (trixie)", Mitigations: map[string]string{"meltdown": "Not affected"},
			Settings: map[string]string{"net.core.bpf_jit_enable": "1", "smt": "on"}, Clock: "tsc", Load: 0.25,
		}},
		{"ARM board", "aarch64", board, Machine{
			Model: "Raspberry Pi 4 Model B Rev 1.1", CPU: "Cortex-A72 r0p3 and Cortex-A55 r1p0", Architecture: "aarch64",
			Cores: 2, Threads: 2, MHz: []float64{1500}, Kernel: "6.12.20+rpt-rpi-v8",
		}},
		{"MIPS router", "mips", mips, Machine{
			Model: "Ubiquiti RouterStation Pro", CPU: "MIPS 24Kc V7.4", Architecture: "mips", Cores: 1, Threads: 1,
			MemoryBytes: 125000 << 10, System: "OpenWrt",
		}},
		{"RISC-V board", "riscv64", map[string]string{
			"proc/cpuinfo":                       "processor\t: 0\nhart\t: 1\nisa\t: rv64imafdc\nmmu\t: sv39\nuarch\t: sifive,u74-mc\n",
			"sys/firmware/devicetree/base/model": "StarFive VisionFive V2\x00",
		}, Machine{Model: "StarFive VisionFive V2", CPU: "sifive,u74-mc", Architecture: "riscv64", Cores: 1, Threads: 1}},
		{"virtual machine", "x86_64", vm, Machine{
			Virtual: "KVM", CPU: "Intel(R) Xeon(R) Processor", Architecture: "x86_64", Cores: 1, Threads: 1,
			MHz: []float64{2300},
		}},
		{"nothing at all", "", nil, Machine{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := read(tree(c.files), c.architecture); !reflect.DeepEqual(got, c.want) {
				t.Errorf("read\n%+v, expected\n%+v", got, c.want)
			}
		})
	}
}

func TestReadHere(t *testing.T) {
	m := Read()
	if m.Threads < runtime.NumCPU() || m.MemoryBytes == 0 || m.Architecture == "" || m.Kernel == "" || m.System == "" {
		t.Errorf("this machine is %+v", m)
	}
	const control = "net.ipv4.tcp_congestion_control"
	if text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control"); err != nil || m.Settings[control] != strings.TrimSpace(string(text)) {
		t.Errorf("%s is %q, the file holds %q, %v", control, m.Settings[control], text, err)
	}
}

func TestOnlyParametersOfSpeedAreTold(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", ""},
		{"ro quiet mitigations=off", "mitigations=off"},
		{`wifi_psk=hunter2 isolcpus=1,2 dm.PassPhrase="isolcpus=3 nohz" nospectre_v2`, "isolcpus=1,2 nospectre_v2"},
		{"root=/dev/sda1 processor.max_cstate=1 mitigationsx=1", "processor.max_cstate=1"},
		{"nohz_full=1-3 -- nosmt", "nohz_full=1-3"},
	} {
		if got := speaking(c.line); got != c.want {
			t.Errorf("%q became %q, expected %q", c.line, got, c.want)
		}
	}
}

func TestWatch(t *testing.T) {
	root := tree(board)
	w := startWatch(root)
	set := func(name, text string) { root[name] = &fstest.MapFile{Data: []byte(text)} }

	if notes := w.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "under-voltage now, throttled now, under-voltage since") {
		t.Errorf("a board that reports under-voltage: %q", notes)
	}
	// Of 1,000 ticks the board itself used 500 and the hypervisor took 100.
	set("proc/stat", "cpu  300 0 100 1200 0 100 200 100 0 0\ncpu0 300 0 100 1200 0 100 200 100 0 0\n")
	set("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "600000\n")
	set("sys/class/thermal/cooling_device0/cur_state", "3\n")
	set("sys/class/thermal/cooling_device1/cur_state", "9\n")
	set("sys/devices/platform/soc/soc:firmware/get_throttled", "0\n")
	if busy, steal := w.Busy(), w.Steal(); busy != 0.5 || steal != 0.1 {
		t.Errorf("busy %v and steal %v, expected 0.5 and 0.1", busy, steal)
	}
	want := []string{
		"The hypervisor took 10.0 % of the CPUs' time for others during this run.",
		"The CPU's frequency changed: 1500 MHz at the start, 600 MHz at the end (fastest CPU).",
		"A device slows down to cool: cpufreq-cpu0 (cooling_device0) is 3 steps further than at the start.",
	}
	if got := w.Notes(); !reflect.DeepEqual(got, want) {
		t.Errorf("notes\n%q, expected\n%q", got, want)
	}
}

func TestWatchThrottling(t *testing.T) {
	root := tree(pc)
	w := startWatch(root)
	if notes := w.Notes(); len(notes) > 0 {
		t.Errorf("nothing happened, but the notes are %q", notes)
	}
	root["sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"] = &fstest.MapFile{Data: []byte("9\n")}
	notes := w.Notes()
	if len(notes) != 1 || !strings.Contains(notes[0], "cpu0 core_throttle_count rose by 5") {
		t.Errorf("after throttling the notes are %q", notes)
	}
	if w.Steal() != 0 || w.Busy() != 0 {
		t.Errorf("without /proc/stat: busy %v, steal %v", w.Busy(), w.Steal())
	}
}

func TestCPUTimesWrong(t *testing.T) {
	for _, text := range []string{"", "cpu  1 x 3\ncpu0 1 1 1\n", "intr 5\n"} {
		if got, err := CPUTimes(fs.FS(tree(map[string]string{"proc/stat": text}))); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
