// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Measures and checks the packet classifier and the address sets inside the
// kernel, without packets: one run of a program classifies thousands of keys from an array. The bench programs
// time them; the check programs write every verdict down.
//
// Only internal/lab/bench/classbench loads this. It may use bpf_loop, unlike the
// programs that forward.

#include "bench_run.h"
#include "classify.h"
#include "set.h"

// Keys and answers; a power of two.
#define KEYS (1 << 16)

BENCH_ARRAY(keys, KEYS * sizeof(struct classify_key));
BENCH_ARRAY(answers, KEYS * 4);

// What a loop carries from one lookup to the next.
struct walk {
	const struct classify_key *keys;
	__u32 *answers;
	struct run *run; // its sum is kept there, where the verifier does not follow it
};

static __always_inline void key_of(struct walk *w, __u32 i, struct classify_key *k)
{
	*k = w->keys[(w->run->first + i) & (KEYS - 1)];
	if (w->run->dependent) {
		__u64 nothing = w->run->sum & w->run->zero;

		k->src[0] ^= nothing;
		k->dst[0] ^= nothing;
		k->dport ^= nothing;
	}
}

static long time_loop(__u32 i, struct walk *w)
{
	struct classify_key k;

	key_of(w, i, &k);
	w->run->sum += k.src[0] ^ k.dst[0] ^ k.dport ^ k.sport;
	return 0;
}

static long time4(__u32 i, struct walk *w)
{
	struct classify_key k;

	key_of(w, i, &k);
	w->run->sum += classify(&k, 0);
	return 0;
}

static long time6(__u32 i, struct walk *w)
{
	struct classify_key k;

	key_of(w, i, &k);
	w->run->sum += classify(&k, 1);
	return 0;
}

static long answer(__u32 i, struct walk *w)
{
	__u32 at = i & (KEYS - 1);
	struct classify_key k = w->keys[at];

	w->answers[at] = k.ipv6 ? classify(&k, 1) : classify(&k, 0);
	return 0;
}

// Of a key for the sets, zone is the number of a set.
static long time_set4(__u32 i, struct walk *w)
{
	struct classify_key k;

	key_of(w, i, &k);
	w->run->sum += set_has4(k.zone, k.src[0] >> 32);
	return 0;
}

static long time_set6(__u32 i, struct walk *w)
{
	struct classify_key k;

	key_of(w, i, &k);
	w->run->sum += set_has6(k.zone, k.src[0], k.src[1]);
	return 0;
}

static long answer_set(__u32 i, struct walk *w)
{
	__u32 at = i & (KEYS - 1);
	struct classify_key k = w->keys[at];

	w->answers[at] = k.ipv6 ? set_has6(k.zone, k.src[0], k.src[1]) : set_has4(k.zone, k.src[0] >> 32);
	return 0;
}

BENCH_PROGRAM(bench_loop, time_loop, keys)
BENCH_PROGRAM(bench4, time4, keys)
BENCH_PROGRAM(bench6, time6, keys)
BENCH_PROGRAM(check, answer, keys)
BENCH_PROGRAM(bench_set4, time_set4, keys)
BENCH_PROGRAM(bench_set6, time_set6, keys)
BENCH_PROGRAM(check_set, answer_set, keys)

char _license[] SEC("license") = "Dual BSD/GPL";
