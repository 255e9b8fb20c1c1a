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
