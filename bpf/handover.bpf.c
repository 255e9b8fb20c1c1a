// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Counts frames that found no room in the queue of the CPU that they were handed to (spread.h). The program that hands a frame
// over is told nothing of it; the kernel reports it here.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

const volatile __u32 spread_map = 0; // id of the map of CPUs

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} spread_lost SEC(".maps");

SEC("tp_btf/xdp_cpumap_enqueue")
int BPF_PROG(spread_enqueue, int map, unsigned int processed, unsigned int drops, int cpu)
{
	__u32 zero = 0;
	__u64 *lost = bpf_map_lookup_elem(&spread_lost, &zero);

	if (drops && lost && (__u32)map == spread_map)
		*lost += drops;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
