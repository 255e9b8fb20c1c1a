// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math/bits"
	"strconv"

	"minne/internal/model/config"
)

// How many connections the kernel keeps, and how long.

// connectionBytes is what conntrack takes for a connection with counters, times and translation, on 64 bits: 256 for
// struct nf_conn in its slab, up to 128 for its extensions, and a place in the hash.
const connectionBytes = 400

// connectionMemory is the part of the memory that connections may take by default, and how many there are at
// most, by profile. The kernel's own limit is as low as 2,048 with 256 MB.
var connectionMemory = map[config.SysctlProfile]struct {
	part uint64
	most int
}{
	"small":  {32, 1 << 16},
	"router": {16, 1 << 20},
	"server": {8, 1 << 22},
}

// leastBuckets of the hash: the kernel makes full pages of 8 bytes each, of up to 64 KiB.
const leastBuckets = 8192

// defaultConnections is how many connections there may be on a machine with so many bytes of memory: a power of two.
func defaultConnections(profile config.SysctlProfile, memory uint64) int {
	m, ok := connectionMemory[profile]
	if !ok {
		m = connectionMemory["router"]
	}
	n := max(memory/m.part/connectionBytes, 1024)
	return min(1<<(bits.Len64(n)-1), m.most)
}

// buckets of the hash for so many connections: one each, as the kernel has it; a power of two, so that the kernel
// rounds nothing.
func buckets(connections int) int {
	return max(1<<bits.Len(uint(connections-1)), leastBuckets)
}

// connectionSysctls are the size and the timeouts of conntrack, for a configuration with zones. Without connections.max
// the size only grows: what the operator has set by other means stays.
func connectionSysctls(cfg *config.Config, memory uint64) (list []Sysctl) {
	if !cfg.Zoned() {
		return nil
	}
	asked := config.Connections{}
	if cfg.Connections != nil {
		asked = *cfg.Connections
	}
	most := asked.Max
	if most == 0 {
		most = defaultConnections(cfg.System.SysctlProfile, memory)
	}
	set := func(name string, value int) *Sysctl {
		list = append(list, Sysctl{Path: "net/netfilter/" + name, Value: strconv.Itoa(value), Lent: true})
		return &list[len(list)-1]
	}
	// The hash first: with more connections than places, each packet's is looked for longer.
	b := set("nf_conntrack_buckets", buckets(most))
	b.Machine, b.Least = true, asked.Max == 0
	m := set("nf_conntrack_max", most)
	m.Machine, m.Least = true, asked.Max == 0
	for _, t := range asked.Timeouts.All() {
		for _, name := range t.Settings {
			if t.Value != 0 {
				set(name, t.Value.Seconds())
			}
		}
	}
	return list
}
