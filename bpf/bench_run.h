// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// One run of a benchmark's program: how many lookups it makes in one call, of
// which keys, and what they took. User space shares it with the program by memory.
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

// Written by user space before a run, and by the program at its end.
struct run {
	__u32 first;     // first key; the following ones are taken round the array
	__u32 count;     // lookups, at most 1 << 23
	__u32 dependent; // 1: every key depends on the answer before
	__u32 zero;      // 0, which only the loader knows
	__u64 ns;        // result: time of all lookups
	__u64 sum;       // result: of the answers
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run);
} run SEC(".maps");

// BENCH_ARRAY is memory of so many bytes that a benchmark shares with user space.
#define BENCH_ARRAY(name, bytes)                                                 \
	struct {                                                                 \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                \
		__uint(map_flags, BPF_F_MMAPABLE);                               \
		__uint(key_size, 4);                                             \
		__uint(value_size, bytes);                                       \
		__uint(max_entries, 1);                                          \
	} name SEC(".maps")

// BENCH_PROGRAM takes a step for each lookup of a run and measures the time of all. The file that
// uses it has an array `answers` and a `struct walk` with at least keys, answers and run, which
// is what a step gets; further fields of it are initialised by what follows the array of keys.
#define BENCH_PROGRAM(name, step, key_array, ...)                                \
	SEC("xdp") int name(struct xdp_md *ctx)                                  \
	{                                                                        \
		__u32 zero = 0;                                                  \
		struct run *r = bpf_map_lookup_elem(&run, &zero);                \
		void *list = bpf_map_lookup_elem(&key_array, &zero);             \
		void *out = bpf_map_lookup_elem(&answers, &zero);                \
                                                                                 \
		if (!r || !list || !out)                                         \
			return XDP_ABORTED;                                      \
                                                                                 \
		struct walk w = {                                                \
			.keys = list, .answers = out, .run = r, ##__VA_ARGS__    \
		};                                                               \
		r->sum = 0;                                                      \
		__u64 before = bpf_ktime_get_ns();                               \
                                                                                 \
		bpf_loop(r->count, step, &w, 0);                                 \
		r->ns = bpf_ktime_get_ns() - before;                             \
		return XDP_PASS;                                                 \
	}
