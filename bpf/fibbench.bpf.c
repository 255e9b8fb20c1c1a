// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Measures and checks the FIB structures inside the kernel, without packets:
// one run of a program looks up thousands of keys from an array. The bench
// programs time them; the answer programs write every answer down.
//
// Only internal/lab/bench/fibbench loads this. It may use bpf_loop, unlike the
// programs that forward.

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bench_run.h"
#include "fib.h"

#define AF_INET 2
#define AF_INET6 10

// Keys per family and answers; a power of two.
#define KEYS (1 << 20)

// What a lookup of this load of the programs asks.
#define ASK_NOTHING 0 // only the loop and the key
#define ASK_IMAGE 1
#define ASK_KERNEL 2 // bpf_fib_lookup

const volatile __u32 ask = ASK_IMAGE;
const volatile __u32 ingress = 0; // ifindex that the kernel's lookup takes the packet to come from

struct key6 {
	__u64 hi, lo;
};

BENCH_ARRAY(keys4, KEYS * 4);
BENCH_ARRAY(keys6, KEYS * 16);
BENCH_ARRAY(answers, KEYS * 2);

// What a loop carries from one lookup to the next.
struct walk {
	void *ctx;
	const void *keys;
	__u16 *answers;
	struct run *run; // its sum is kept there, where the verifier does not follow it
};

static __always_inline __u32 lookup4(struct walk *w, __u32 dst)
{
	if (ask == ASK_NOTHING)
		return dst & 1;
	if (ask == ASK_IMAGE)
		return fib4_lookup(dst);

	struct bpf_fib_lookup p = {
		.family = AF_INET,
		.ifindex = ingress,
		.ipv4_dst = bpf_htonl(dst),
		.tot_len = 60,
	};
	return bpf_fib_lookup(w->ctx, &p, sizeof(p), BPF_FIB_LOOKUP_SKIP_NEIGH) == 0 ? 1 : 0;
}

static __always_inline __u32 lookup6(struct walk *w, __u64 hi, __u64 lo)
{
	if (ask == ASK_NOTHING)
		return hi & 1;
	if (ask == ASK_IMAGE)
		return fib6_lookup(hi, lo);

	struct bpf_fib_lookup p = {
		.family = AF_INET6,
		.ifindex = ingress,
		.tot_len = 60,
	};
	__u64 *dst = (__u64 *)p.ipv6_dst;

	dst[0] = bpf_cpu_to_be64(hi);
	dst[1] = bpf_cpu_to_be64(lo);
	return bpf_fib_lookup(w->ctx, &p, sizeof(p), BPF_FIB_LOOKUP_SKIP_NEIGH) == 0 ? 1 : 0;
}

static long time4(__u32 i, struct walk *w)
{
	__u32 dst = ((const __u32 *)w->keys)[(w->run->first + i) & (KEYS - 1)];

	if (w->run->dependent)
		dst ^= (__u32)w->run->sum & w->run->zero;
	w->run->sum += lookup4(w, dst);
	return 0;
}

static long time6(__u32 i, struct walk *w)
{
	const struct key6 *k = (const struct key6 *)w->keys + ((w->run->first + i) & (KEYS - 1));
	__u64 hi = k->hi, lo = k->lo;

	if (w->run->dependent)
		hi ^= w->run->sum & w->run->zero;
	w->run->sum += lookup6(w, hi, lo);
	return 0;
}

static long answer4(__u32 i, struct walk *w)
{
	__u32 at = i & (KEYS - 1);

	w->answers[at] = lookup4(w, ((const __u32 *)w->keys)[at]);
	return 0;
}

static long answer6(__u32 i, struct walk *w)
{
	__u32 at = i & (KEYS - 1);
	const struct key6 *k = (const struct key6 *)w->keys + at;

	w->answers[at] = lookup6(w, k->hi, k->lo);
	return 0;
}

BENCH_PROGRAM(bench4, time4, keys4, .ctx = ctx)
BENCH_PROGRAM(bench6, time6, keys6, .ctx = ctx)
BENCH_PROGRAM(check4, answer4, keys4, .ctx = ctx)
BENCH_PROGRAM(check6, answer6, keys6, .ctx = ctx)

char _license[] SEC("license") = "Dual BSD/GPL";
