// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Searches for patterns inside the kernel: the automata of bpf/algo, for checks
// and measurements.
//
//	first   an XDP program as a router has it: a bounded loop takes the first bytes of a packet
//	search  takes bytes from an array, as many as there are, in one run
//
// Only internal/lab/algo/automatonbench loads this. It may use bpf_loop, unlike the
// programs that forward.

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

// Bounds that the verifier can follow; images that need more are refused by the loader.
#define D2FA_GROUPS 16
#define D2FA_DEFAULTS 4
#define D2FA_REPORTS 32
#define HYBRID_TAILS 256
#define HYBRID_MEMORY 256

#include "algo/d2fa.h"
#include "algo/hybrid.h"
#include "bench_run.h"

#define FIRST_BYTES 128 // of a packet that are looked at
#define FOUND_WORDS 256 // 8,192 patterns
#define DATA_BYTES (1 << 22)

const volatile __u32 table_mask = 0; // words of the image, minus 1
const volatile __u32 hybrid = 0;     // the image is a hybrid FA

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, DATA_BYTES);
	__uint(max_entries, 1);
} data SEC(".maps");

// A search under way.
struct streams {
	struct hybrid_run run; // of a D²FA only the heads
	__u32 found[FOUND_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct streams);
} streams SEC(".maps");

// What the loops carry.
struct walk {
	const __u8 *data;
	const __u32 *words;
	struct streams *streams;
	__u32 group, classes, first;
	__u32 byte;             // that active tails take
	__u32 tails, kept;      // where a group's list of them begins, and those that have stayed in it
	__u32 reports;          // where the list of what a head's state finds begins
};

#define TABLE(w) ((struct algo_table){ (w)->words, table_mask })
#define FOUND(w) ((struct d2fa_found){ (w)->streams->found, FOUND_WORDS - 1 })

static __always_inline int begin_walk(struct walk *w)
{
	__u32 zero = 0;

	w->words = bpf_map_lookup_elem(&table, &zero);
	w->streams = bpf_map_lookup_elem(&streams, &zero);
	w->data = bpf_map_lookup_elem(&data, &zero);
	return w->words && w->streams && w->data;
}

SEC("xdp") int first(struct xdp_md *ctx)
{
	const __u8 *byte = (const __u8 *)(long)ctx->data, *end = (const __u8 *)(long)ctx->data_end;
	struct walk w = {};
	__u32 state, classes, i;

	if (!begin_walk(&w))
		return XDP_ABORTED;
	state = d2fa_start(TABLE(&w), 0, FOUND(&w));
	classes = algo_word(TABLE(&w), d2fa_group(TABLE(&w), 0) + D2FA_GROUP_CLASSES);
	for (i = 0; i < FIRST_BYTES; i++) {
		if (byte + i + 1 > end)
			break;
		state = d2fa_step(TABLE(&w), classes, state, byte[i], FOUND(&w));
	}
	w.streams->run.head[0] = state;
	return XDP_PASS;
}

static long step_d2fa(__u32 i, struct walk *w)
{
	__u32 *state = &w->streams->run.head[w->group & (D2FA_GROUPS - 1)];

	*state = d2fa_step(TABLE(w), w->classes, *state, w->data[(w->first + i) & (DATA_BYTES - 1)], FOUND(w));
	return !*state;
}

// The active tails of a group take a byte one after the other; those that go on stay in the list.
static long step_tail(__u32 i, struct walk *w)
{
	__u32 *list = w->streams->run.list, tail = list[(w->tails + i) & (HYBRID_TAILS - 1)];

	if (hybrid_tail_step(TABLE(w), &w->streams->run, tail, w->byte, FOUND(w)))
		list[(w->tails + w->kept++) & (HYBRID_TAILS - 1)] = tail;
	return 0;
}

static long take(__u32 i, struct walk *w)
{
	hybrid_take(TABLE(w), &w->streams->run, w->group, algo_word(TABLE(w), w->reports + i), FOUND(w));
	return 0;
}

static __always_inline void report_head(struct walk *w, __u32 head)
{
	__u32 count;

	if (!(head & D2FA_FINDS))
		return;
	w->reports = d2fa_reports(TABLE(w), head, 0, &count);
	bpf_loop(count, take, w, 0);
}

// hybrid_step, its loops by bpf_loop.
static long step_hybrid(__u32 i, struct walk *w)
{
	__u32 g = w->group & (D2FA_GROUPS - 1), *active = &w->streams->run.active[g], *head = &w->streams->run.head[g];

	w->byte = w->data[(w->first + i) & (DATA_BYTES - 1)];
	if (*active) {
		w->kept = 0;
		bpf_loop(*active, step_tail, w, 0);
		*active = w->kept;
	}
	if (*head)
		*head = d2fa_next(TABLE(w), *head, algo_word(TABLE(w), w->classes + w->byte));
	report_head(w, *head);
	return !*head && !*active;
}

// A run takes run.count bytes from run.first on; run.dependent says that the stream goes on from the run before.
SEC("xdp") int search(struct xdp_md *ctx)
{
	__u32 zero = 0, g, groups;
	struct run *r = bpf_map_lookup_elem(&run, &zero);
	struct walk w = {};

	if (!r || !begin_walk(&w))
		return XDP_ABORTED;
	__u64 before = bpf_ktime_get_ns();

	groups = d2fa_groups(TABLE(&w));
	w.first = r->first;
	for (g = 0; g < D2FA_GROUPS && g < groups; g++) {
		w.group = g;
		w.tails = algo_word(TABLE(&w), d2fa_group(TABLE(&w), g) + HYBRID_GROUP_FIRST);
		w.classes = algo_word(TABLE(&w), d2fa_group(TABLE(&w), g) + D2FA_GROUP_CLASSES);
		if (hybrid) {
			if (!r->dependent) {
				w.streams->run.head[g] = algo_word(TABLE(&w), d2fa_group(TABLE(&w), g) + D2FA_GROUP_START);
				report_head(&w, w.streams->run.head[g]);
			}
			bpf_loop(r->count, step_hybrid, &w, 0);
		} else {
			if (!r->dependent)
				w.streams->run.head[g] = d2fa_start(TABLE(&w), g, FOUND(&w));
			bpf_loop(r->count, step_d2fa, &w, 0);
		}
	}
	r->ns = bpf_ktime_get_ns() - before;
	return XDP_PASS;
}

static long finish_tail(__u32 i, struct walk *w)
{
	hybrid_tail_finish(TABLE(w), &w->streams->run, w->streams->run.list[(w->first + i) & (HYBRID_TAILS - 1)], FOUND(w));
	return 0;
}

// The stream has ended.
SEC("xdp") int finish(struct xdp_md *ctx)
{
	struct walk w = {};
	__u32 g, groups;

	if (!begin_walk(&w))
		return XDP_ABORTED;
	groups = d2fa_groups(TABLE(&w));
	for (g = 0; g < D2FA_GROUPS && g < groups; g++) {
		d2fa_report(TABLE(&w), w.streams->run.head[g], 1, FOUND(&w));
		if (hybrid) {
			w.first = algo_word(TABLE(&w), d2fa_group(TABLE(&w), g) + HYBRID_GROUP_FIRST);
			bpf_loop(w.streams->run.active[g], finish_tail, &w, 0);
		}
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
