// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// processors returns the sections of /proc/cpuinfo. Its keys differ by
// architecture, and so does what belongs to a CPU and what to the board: on ARM
// and MIPS facts about the board stand in the first or the last section.
func (f files) processors() (sections []map[string]string) {
	section := map[string]string{}
	for line := range strings.Lines(f.line("proc/cpuinfo") + "\n\n") {
		key, value, ok := strings.Cut(line, ":")
		if ok {
			section[strings.TrimSpace(key)] = strings.TrimSpace(value)
		} else if len(section) > 0 {
			sections = append(sections, section)
			section = map[string]string{}
		}
	}
	return sections
}

// first returns the value of the first key that a section has.
func first(section map[string]string, keys ...string) string {
	for _, k := range keys {
		if v := section[k]; v != "" {
			return v
		}
	}
	return ""
}

// anywhere returns the value of the first key that any section has.
func anywhere(sections []map[string]string, keys ...string) string {
	for _, k := range keys {
		for _, s := range sections {
			if s[k] != "" {
				return s[k]
			}
		}
	}
	return ""
}

// processorName returns the names of the CPUs; boards with fast and slow ones have two.
func (f files) processorName(cpus []map[string]string) string {
	var names []string
	for _, c := range cpus {
		name := armName(c)
		if name == "" {
			// x86; MIPS; RISC-V; PowerPC; LoongArch
			name = first(c, "model name", "cpu model", "uarch", "cpu", "Model Name", "isa")
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

// armParts are processors by ARM's own part numbers (MIDR_EL1), those of small routers.
var armParts = map[uint64]string{
	0x926: "ARM926", 0xb76: "ARM1176", 0xc05: "Cortex-A5", 0xc07: "Cortex-A7", 0xc08: "Cortex-A8", 0xc09: "Cortex-A9",
	0xc0d: "Cortex-A12", 0xc0e: "Cortex-A17", 0xc0f: "Cortex-A15", 0xd03: "Cortex-A53", 0xd04: "Cortex-A35",
	0xd05: "Cortex-A55", 0xd07: "Cortex-A57", 0xd08: "Cortex-A72", 0xd09: "Cortex-A73", 0xd0a: "Cortex-A75",
	0xd0b: "Cortex-A76", 0xd0c: "Neoverse-N1", 0xd0d: "Cortex-A77", 0xd40: "Neoverse-V1", 0xd41: "Cortex-A78",
	0xd46: "Cortex-A510", 0xd49: "Neoverse-N2",
}

// armName names an ARM CPU by its numbers: 64-bit kernels print no other name.
// A part that isn't known keeps its numbers.
func armName(cpu map[string]string) string {
	implementer, part := cpu["CPU implementer"], cpu["CPU part"]
	if implementer == "" || part == "" {
		return ""
	}
	name := fmt.Sprintf("ARM implementer %s part %s", implementer, part)
	if n, err := strconv.ParseUint(part, 0, 64); err == nil && implementer == "0x41" && armParts[n] != "" {
		name = armParts[n]
	}
	if v, r := cpu["CPU variant"], cpu["CPU revision"]; v != "" && r != "" {
		if n, err := strconv.ParseUint(v, 0, 64); err == nil {
			name += fmt.Sprintf(" r%dp%s", n, r)
		}
	}
	return name
}

// model returns what the maker calls the computer.
func (f files) model(cpus []map[string]string) string {
	if dmi := f.dmi(); dmi != "" {
		return dmi
	}
	for _, name := range []string{"proc/device-tree/model", "sys/firmware/devicetree/base/model"} {
		if text := f.line(name); text != "" {
			return text
		}
	}
	// OpenWrt's old MIPS kernels have neither; ARM before the device tree called it "Hardware".
	return anywhere(cpus, "machine", "Model", "Hardware", "system type", "platform")
}

// dmi joins vendor, product and board, without the words that makers leave unfilled.
func (f files) dmi() string {
	var words []string
	for _, name := range []string{"sys_vendor", "product_name", "board_name"} {
		text := f.line("sys/class/dmi/id/" + name)
		switch low := strings.ToLower(text); {
		case text == "", strings.Contains(low, "to be filled"), strings.Contains(low, "default string"),
			low == "system manufacturer", low == "system product name", low == "not applicable", low == "none":
		case slices.Contains(words, text):
		default:
			words = append(words, text)
		}
	}
	return strings.Join(words, " ")
}

// cores counts the cores and their hardware threads that are switched on.
func (f files) cores(cpus []map[string]string) (cores, threads int) {
	seen := map[string]bool{}
	for _, dir := range f.processorDirs() {
		if f.line(dir+"/online") == "0" {
			continue
		}
		threads++
		core := f.line(dir + "/topology/core_id")
		if core == "" {
			core = dir // without topology every CPU is a core
		}
		seen[f.line(dir+"/topology/physical_package_id")+"/"+f.line(dir+"/topology/cluster_id")+"/"+core] = true
	}
	if threads > 0 {
		return len(seen), threads
	}
	for _, c := range cpus {
		if _, ok := c["processor"]; ok {
			threads++
		}
	}
	return threads, threads
}

// virtual names the hypervisor, and is empty on bare metal.
func (f files) virtual(cpus []map[string]string) string {
	if strings.Contains(anywhere(cpus, "vendor_id"), "User Mode Linux") {
		return "User-Mode Linux"
	}
	if text := f.line("sys/hypervisor/type"); text != "" {
		return text
	}
	if text := f.line("proc/device-tree/hypervisor/compatible"); text != "" {
		return text
	}
	board := strings.ToLower(f.dmi())
	for _, known := range []struct{ word, name string }{
		{"qemu", "QEMU/KVM"}, {"kvm", "KVM"}, {"vmware", "VMware"}, {"virtualbox", "VirtualBox"}, {"bhyve", "bhyve"},
		{"xen", "Xen"}, {"microsoft corporation virtual machine", "Hyper-V"}, {"amazon ec2", "Amazon EC2"},
		{"google compute engine", "Google Compute Engine"}, {"parallels", "Parallels"},
	} {
		if strings.Contains(board, known.word) {
			return known.name
		}
	}
	if !slices.Contains(strings.Fields(anywhere(cpus, "flags")), "hypervisor") {
		return ""
	}
	switch clocks := f.line("sys/devices/system/clocksource/clocksource0/available_clocksource"); {
	case strings.Contains(clocks, "kvm-clock"):
		return "KVM"
	case strings.Contains(clocks, "hyperv"):
		return "Hyper-V"
	case strings.Contains(clocks, "xen"):
		return "Xen"
	}
	return "a hypervisor that does not name itself"
}
