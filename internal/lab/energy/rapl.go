// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// RAPL is the energy counters that Intel's and AMD's processors keep, shown by
// the kernel below /sys/class/powercap. The counters are in µJ and begin again at
// 0 behind max_energy_range_uj, on a busy server every few minutes.
type rapl struct {
	root  fs.FS
	name  string
	scope string
	zones []*raplZone
}

// raplZone is one counter.
type raplZone struct {
	dir    string
	limit  float64 // µJ; the counter begins again behind it; 0 is unknown
	last   float64 // µJ, the counter when it was read last
	summed float64 // µJ since it was opened
}

// findRAPL returns the platform's counter, when there is one, and the sum of all
// packages' counters. Zones below a package (cores, memory controller) are within
// its counter or, as DRAM is on servers, beside it: DRAM is added.
func findRAPL(root fs.FS) (found []Source, refused []string) {
	dirs, _ := fs.Glob(root, "sys/class/powercap/*:*")
	slices.Sort(dirs)
	var platform, packages, memory []string
	for _, dir := range dirs {
		name := readText(root, dir+"/name")
		switch {
		case strings.Contains(path.Base(dir), "mmio"):
			// The same counters by another way.
		case name == "psys":
			platform = append(platform, dir)
		case strings.HasPrefix(name, "package"):
			packages = append(packages, dir)
		case name == "dram":
			memory = append(memory, dir)
		}
	}
	add := func(scope string, dirs []string) {
		if len(dirs) == 0 {
			return
		}
		s, err := openRAPL(root, scope, dirs)
		if err != nil {
			refused = append(refused, "RAPL: "+err.Error())
			return
		}
		found = append(found, s)
	}
	add("the whole board, as far as its maker wired the counter (preferred over the packages when its figures are plausible)", platform)
	scope := "the processor package only: neither network cards nor power supply"
	if len(memory) > 0 {
		scope = "the processor packages and memory only: neither network cards nor power supply"
	}
	if len(packages) > 0 {
		add(scope, append(packages, memory...))
	}
	return found, refused
}

func openRAPL(root fs.FS, scope string, dirs []string) (*rapl, error) {
	r := &rapl{root: root, scope: scope}
	var names []string
	for _, dir := range dirs {
		now, err := readNumber(root, dir+"/energy_uj")
		if err != nil {
			return nil, err
		}
		limit, _ := readNumber(root, dir+"/max_energy_range_uj") // 0 when missing: unknown
		r.zones = append(r.zones, &raplZone{dir: dir, limit: limit, last: now})
		names = append(names, readText(root, dir+"/name"))
	}
	r.name = "RAPL " + strings.Join(names, " + ")
	return r, nil
}

func (r *rapl) Name() string  { return r.name }
func (r *rapl) Scope() string { return r.scope }

// Read must be called more often than a counter runs around once.
func (r *rapl) Read(context.Context) (Reading, error) {
	out := Reading{Cumulative: true}
	for _, z := range r.zones {
		now, err := readNumber(r.root, z.dir+"/energy_uj")
		if err != nil {
			return Reading{}, err
		}
		if now < z.last {
			if z.limit < z.last {
				return Reading{}, fmt.Errorf("%s/energy_uj ran backwards from %.0f to %.0f, and its range is not known", z.dir, z.last, now)
			}
			z.summed += z.limit - z.last + now
		} else {
			z.summed += now - z.last
		}
		z.last = now
		out.Joules += z.summed / 1e6
	}
	return out, nil
}
