// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Measures and checks longest prefix match inside the kernel, without packets: the
// structures of bpf/algo beside the router's own. One run of a program looks up thousands
// of keys from an array. The bench programs time them; the answer programs write
// every answer down.
//
// Only internal/lab/algo/lpmbench loads this. It may use bpf_loop, unlike the
// programs that forward.

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "algo/shapeshifting.h"
#include "algo/treebitmap.h"
#include "bench_run.h"
#include "fib.h"

#define AF_INET 2
#define AF_INET6 10

// Keys of both families; a power of two.
#define KEYS (1 << 20)

// What a lookup of this load of the programs asks.
#define ASK_NOTHING 0 // only the loop and the key
#define ASK_FIB 1     // the router's own
#define ASK_KERNEL 2  // bpf_fib_lookup
#define ASK_TREE_BITMAP 3
#define ASK_SHAPE_SHIFTING 4
#define ASK_TRIE 5 // the kernel's map for longest prefix match

const volatile __u32 ask = ASK_NOTHING;
const volatile __u32 ingress = 0;  // ifindex that the kernel's lookup takes the packet to come from
const volatile __u32 lpm_mask = 0; // words of the image, minus 1

// An address in two halves, left-aligned: an IPv4 address is the upper half of hi.
struct key {
	__u64 hi, lo;
};

BENCH_ARRAY(keys, KEYS * 16);
BENCH_ARRAY(answers, KEYS * 4);

// The loader sets the size.
BENCH_ARRAY(lpm_image, 4);

struct trie_key4 {
	__u32 bits;
	__u32 address; // network byte order
};

struct trie_key6 {
	__u32 bits;
	__u32 address[4]; // network byte order
};

// The loader sets the number of entries of the one that is asked.
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct trie_key4);
	__type(value, __u32);
} trie4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct trie_key6);
	__type(value, __u32);
} trie6 SEC(".maps");

// What a loop carries from one lookup to the next.
struct walk {
	void *ctx;
	const void *keys;
	__u32 *answers;
	struct run *run; // its sum is kept there, where the verifier does not follow it
};

// The kernel's answer is the gateway of the next hop, which has the next hop's number in its last 24 bits
// (internal/lab/algo/kernelfib).
#define HOP_OF(gateway) (bpf_ntohl(gateway) & 0xffffff)

static __always_inline __u32 kernel4(struct walk *w, __u32 dst)
{
	struct bpf_fib_lookup p = {
		.family = AF_INET,
		.ifindex = ingress,
		.ipv4_dst = bpf_htonl(dst),
		.tot_len = 60,
	};
	if (bpf_fib_lookup(w->ctx, &p, sizeof(p), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return 0;
	return HOP_OF(p.ipv4_dst);
}

static __always_inline __u32 kernel6(struct walk *w, __u64 hi, __u64 lo)
{
	struct bpf_fib_lookup p = {
		.family = AF_INET6,
		.ifindex = ingress,
		.tot_len = 60,
	};
	__u64 *dst = (__u64 *)p.ipv6_dst;

	dst[0] = bpf_cpu_to_be64(hi);
	dst[1] = bpf_cpu_to_be64(lo);
	if (bpf_fib_lookup(w->ctx, &p, sizeof(p), BPF_FIB_LOOKUP_SKIP_NEIGH))
		return 0;
	return HOP_OF(p.ipv6_dst[3]);
}

static __always_inline __u32 in_trie4(__u32 dst)
{
	struct trie_key4 key = { 32, bpf_htonl(dst) };
	__u32 *hop = bpf_map_lookup_elem(&trie4, &key);

	return hop ? *hop : 0;
}

static __always_inline __u32 in_trie6(__u64 hi, __u64 lo)
{
	struct trie_key6 key = { 128, { bpf_htonl(hi >> 32), bpf_htonl((__u32)hi), bpf_htonl(lo >> 32), bpf_htonl((__u32)lo) } };
	__u32 *hop = bpf_map_lookup_elem(&trie6, &key);

	return hop ? *hop : 0;
}

static __always_inline __u32 lookup4(struct walk *w, __u32 dst)
{
	if (ask == ASK_NOTHING)
		return dst & 1;
	if (ask == ASK_FIB)
		return fib4_lookup(dst);
	if (ask == ASK_KERNEL)
		return kernel4(w, dst);
	if (ask == ASK_TRIE)
		return in_trie4(dst);

	__u32 zero = 0;
	struct algo_table t = { bpf_map_lookup_elem(&lpm_image, &zero), lpm_mask };

	if (!t.words)
		return 0;
	if (ask == ASK_TREE_BITMAP)
		return algo_tbm4_lookup(t, dst);
	return algo_sst4_lookup(t, dst);
}

static __always_inline __u32 lookup6(struct walk *w, __u64 hi, __u64 lo)
{
	if (ask == ASK_NOTHING)
		return hi & 1;
	if (ask == ASK_FIB)
		return fib6_lookup(hi, lo);
	if (ask == ASK_KERNEL)
		return kernel6(w, hi, lo);
	if (ask == ASK_TRIE)
		return in_trie6(hi, lo);

	__u32 zero = 0;
	struct algo_table t = { bpf_map_lookup_elem(&lpm_image, &zero), lpm_mask };

	if (!t.words)
		return 0;
	if (ask == ASK_TREE_BITMAP)
		return algo_tbm6_lookup(t, hi, lo);
	return algo_sst6_lookup(t, hi, lo);
}

static __always_inline const struct key *key_at(struct walk *w, __u32 i)
{
	return (const struct key *)w->keys + (i & (KEYS - 1));
}

static long time4(__u32 i, struct walk *w)
{
	__u32 dst = key_at(w, w->run->first + i)->hi >> 32;

	if (w->run->dependent)
		dst ^= (__u32)w->run->sum & w->run->zero;
	w->run->sum += lookup4(w, dst);
	return 0;
}

static long time6(__u32 i, struct walk *w)
{
	const struct key *k = key_at(w, w->run->first + i);
	__u64 hi = k->hi, lo = k->lo;

	if (w->run->dependent)
		hi ^= w->run->sum & w->run->zero;
	w->run->sum += lookup6(w, hi, lo);
	return 0;
}

static long answer4(__u32 i, struct walk *w)
{
	w->answers[i & (KEYS - 1)] = lookup4(w, key_at(w, i)->hi >> 32);
	return 0;
}

static long answer6(__u32 i, struct walk *w)
{
	const struct key *k = key_at(w, i);

	w->answers[i & (KEYS - 1)] = lookup6(w, k->hi, k->lo);
	return 0;
}

BENCH_PROGRAM(bench4, time4, keys, .ctx = ctx)
BENCH_PROGRAM(bench6, time6, keys, .ctx = ctx)
BENCH_PROGRAM(check4, answer4, keys, .ctx = ctx)
BENCH_PROGRAM(check6, answer6, keys, .ctx = ctx)

char _license[] SEC("license") = "Dual BSD/GPL";
