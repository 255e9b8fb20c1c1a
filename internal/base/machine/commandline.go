// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"slices"
	"strings"
)

// tuning are the kernel parameters that change how fast a machine forwards
// (Documentation/admin-guide/kernel-parameters.txt). A name that ends in * stands
// for all that begin so.
var tuning = []string{
	"isolcpus", "nohz", "nohz_full", "rcu_nocbs", "rcu_nocb_poll", "irqaffinity", "threadirqs", "preempt", "skew_tick",
	"mitigations", "spectre*", "nospectre*", "spec_*", "l1tf", "mds", "tsx*", "retbleed", "srbds", "mmio_stale_data", "pti", "nopti", "kpti", "gather_data_sampling", "reg_file_data_sampling",
	"idle", "intel_idle.*", "processor.*", "intel_pstate", "amd_pstate", "cpufreq.*", "cpuidle*", "nosmt", "maxcpus", "nr_cpus",
	"hugepages*", "hugepagesz", "default_hugepagesz", "transparent_hugepage", "numa*", "iommu*", "intel_iommu", "amd_iommu", "swiotlb",
	"clocksource", "tsc", "hpet", "nowatchdog", "nmi_watchdog", "nosoftlockup", "audit", "selinux", "apparmor", "pcie_aspm", "pci",
}

// speaking returns the parameters of a kernel command line that bear on figures. All
// others stay at home: reports are shared, and a command line may hold keys,
// addresses and serial numbers.
func speaking(line string) string {
	words := parameters(line)
	if end := slices.Index(words, "--"); end >= 0 { // what follows are init's
		words = words[:end]
	}
	words = slices.DeleteFunc(words, func(w string) bool {
		name, _, _ := strings.Cut(w, "=")
		return !slices.ContainsFunc(tuning, func(t string) bool {
			prefix, any := strings.CutSuffix(t, "*")
			return name == t || any && strings.HasPrefix(name, prefix)
		})
	})
	return strings.Join(words, " ")
}

// parameters splits a command line as the kernel does: blanks within double quotes don't part.
func parameters(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted || r == '\t' || r == '\n'
	})
}
