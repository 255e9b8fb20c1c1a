// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Measures and checks the flow table inside the kernel, without packets. The steps of
// `work` are done one after the other for an array of keys; the answers say how each ended.
//
// Only internal/lab/bench/flowbench loads this. All but `single` use bpf_loop, unlike the
// programs that forward.

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "flow_write.h"
#include "flowbench_rivals.h"

// Flows in the array of keys; a power of two.
#define KEYS (1 << 20)

// What a run does with each flow.
#define WORK_NOTHING 0   // only the loop and the key
#define WORK_HASH 1      // the keyed hash of the key
#define WORK_LOOKUP 2    // find the flow of the key
#define WORK_FORWARD 3   // find it and count a packet
#define WORK_INSERT 4    // make the flow
#define WORK_DELETE 5    // find it and delete it
#define WORK_TRANSLATE 6 // find it, count a packet and read the translation
#define WORK_RIVAL 16    // and above: flowbench_rivals.h

const volatile __u32 work = WORK_LOOKUP;

struct flow_pair {
	struct flow_key key[2];
	__u32 number[2]; // of the sides, for RIVAL_KNOWN
	__u64 unused[5]; // two cache lines
};

// One run: written by user space before it, and by the program at its end.
struct run {
	__u32 first;     // first flow; the following ones are taken round the array
	__u32 count;     // flows, at most 1 << 23
	__u32 mask;      // flows in use of the array, minus 1
	__u32 direction; // whose key is looked up, 0 or 1; 2: by turns
	__u32 dependent; // 1: every key depends on the answer before
	__u32 zero;      // 0, which only the loader knows
	__u64 ns;        // result: time of all
	__u64 sum;       // result: of the answers
	__u32 now;       // clock for lookups that count and for inserts
	__u32 flags;     // of flows that are made
	__u64 wrong;     // result: translations that are another flow's
	__u32 base;      // in the array, of flow 0
	__u32 unused;
	__u64 salt;      // for other keys than those of the array: goes into the first word
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); // one for each CPU of a test that uses two
	__type(key, __u32);
	__type(value, struct run);
} run SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KEYS);
	__type(key, __u32);
	__type(value, struct flow_pair);
} pairs SEC(".maps");

// What became of each flow: an enum flow_outcome, or the number of the side that was found, 0 for none.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KEYS);
	__type(key, __u32);
	__type(value, __u64);
} answers SEC(".maps");

struct walk {
	struct run *run;
	__u32 answer; // 1: write the answers down
};

static __always_inline __u32 find(struct run *r, const struct flow_key *key)
{
	struct flow_hit hit;
	struct flow_key out;

	if (!flow_lookup(key, &hit))
		return 0;
	if (work == WORK_LOOKUP)
		return hit.number + (hit.side->packets & r->zero); // an answer that waits for the side
	if (work == WORK_DELETE) {
		flow_delete(&hit);
		return hit.number;
	}
	flow_touch(hit.side, 60, r->now);
	if (work == WORK_FORWARD)
		return hit.number;
	if (!flow_translation(&hit, &out))
		return 0;
	// The test's flows keep the first word of each address through the translation.
	if ((out.src[0] ^ key->src[0]) | (out.dst[0] ^ key->dst[0]))
		r->wrong++;
	return hit.number;
}

static __always_inline __u32 insert(struct run *r, const struct flow_pair *p, __u32 i)
{
	struct flow_new n = {
		.original = p->key[0],
		.reply = p->key[1],
		.now = r->now,
		.flags = r->flags,
	};
	return flow_insert(&n);
}

static __always_inline __u64 do_work(struct run *r, const struct flow_pair *p, __u32 i)
{
	struct flow_key key = p->key[r->direction == 2 ? i & 1 : r->direction & 1];

	key.src[0] ^= r->salt;
	if (r->dependent)
		key.src[0] ^= r->sum & r->zero;
	if (work == WORK_NOTHING)
		return key.src[0] ^ key.src[1] ^ key.dst[0] ^ key.dst[1] ^ key.rest;
	if (work >= WORK_RIVAL)
		return rival(work - WORK_RIVAL, &key, i, p->number[0]);
	if (work == WORK_INSERT)
		return insert(r, p, i);
	if (work == WORK_HASH) {
		struct flow_control *c = flow_controls();
		return c ? flow_hash(&c->secret, &key) : 0;
	}
	return find(r, &key);
}

static long step(__u32 i, struct walk *w)
{
	struct run *r = w->run;
	__u32 at = r->base + ((r->first + i) & r->mask);
	struct flow_pair *p = bpf_map_lookup_elem(&pairs, &at);

	if (!p)
		return 1;

	__u64 got = do_work(r, p, at);

	r->sum += got;
	if (w->answer) {
		__u64 *a = bpf_map_lookup_elem(&answers, &at);
		if (a)
			*a = got;
	}
	return 0;
}

static __always_inline int loop(__u32 which, __u32 answer)
{
	struct run *r = bpf_map_lookup_elem(&run, &which);

	if (!r)
		return XDP_ABORTED;

	struct walk w = { .run = r, .answer = answer };

	r->sum = 0;
	__u64 before = bpf_ktime_get_ns();
	bpf_loop(r->count, step, &w, 0);
	r->ns = bpf_ktime_get_ns() - before;
	return XDP_PASS;
}

// One flow, without bpf_loop: what loads where the program that forwards does.
SEC("xdp") int single(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct run *r = bpf_map_lookup_elem(&run, &zero);

	if (!r)
		return XDP_ABORTED;

	struct walk w = { .run = r, .answer = 1 };

	r->sum = 0;
	step(0, &w);
	return XDP_PASS;
}

SEC("xdp") int bench(struct xdp_md *ctx) { return loop(0, 0); }
SEC("xdp") int bench_beside(struct xdp_md *ctx) { return loop(1, 0); }
SEC("xdp") int answer(struct xdp_md *ctx) { return loop(0, 1); }

char _license[] SEC("license") = "Dual BSD/GPL";
