// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The firewall's tables: what happens to the packets of each zone pair, and what each rule
// has counted. internal/subsystem/fastpath/filter has the words, classify.h the rules.
//
// There are two of everything. control.policy says which one is in force: it is
// read once for a packet, and the writer fills the other before it changes that
// word, so that no packet meets a mix of two firewalls.
#ifndef MINNE_POLICY_H
#define MINNE_POLICY_H

#include "classify.h"
#include "maps.h"
#include "set.h"
#include "stages.h"

// Set before loading where there is a firewall. In the program of a router without, the verifier drops all
// that is about it.
const volatile __u32 firewall_build = 0;

// control.policy
enum policy_flags {
	POLICY_BUFFER = 1,      // which of the two
	POLICY_ON = 2,
	POLICY_KERNEL = 4,      // the kernel decides everything
	POLICY_BEGINNINGS = 16, // what belongs to no known connection is the kernel's
	POLICY_TRANSLATES = 32, // connections may be translated
	POLICY_MSS = 64,        // the kernel lowers the segment size of SYNs
	POLICY_ICMP = 128,      // the kernel counts every packet of ICMP, for a limit
};

#define MAX_ZONES 64

// A pair of zones, in one word: bits 0…7 its number for the classifier, 8…15 PAIR_, 16…23
// how many sets it is tested for, from 24 on eight bits for each: bits 0…6 the set, bit 7 whether
// the destination is asked about.
#define PAIR_KNOWN 1
#define PAIR_STATELESS 2
#define PAIR_NUMBER(word) ((word) & 0xff)
#define PAIR_FLAGS(word) ((word) >> 8 & 0xff)
#define PAIR_TESTS(word) ((word) >> 16 & 0xff)
#define PAIR_TEST(word, i) ((word) >> (24 + 8 * (i)) & 0xff)
#define PAIR_MAX_TESTS 3
#define PAIR_DESTINATION 0x80

#define PAIR_NUMBERS 256

struct policy_pairs {
	__u64 pair[2 * MAX_ZONES * MAX_ZONES]; // [buffer][from][to]
	__u32 sole[2 * 2 * PAIR_NUMBERS];      // [buffer][IPv6][number]: the verdict on all packets, or 0 for "the rules tell"
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct policy_pairs);
} policy_pairs SEC(".maps");

// Packets that a rule decided here. Bytes are of the IP packets, as nftables counts. The loader makes
// room for POLICY_COUNTERS in each buffer when there is a firewall.
#define POLICY_COUNTERS 16384

struct tally {
	__u64 packets;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} policy_counts SEC(".maps");

// When a packet of a rule last went up to be logged, ns, by counter.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} policy_logged SEC(".maps");

// Verdicts of the classifier (filter.Verdict).
#define VERDICT_ACTION(word) ((word) & 3)
#define VERDICT_LOG 4
#define VERDICT_SOLE 8 // in policy_pairs only: keeps the word from being 0
#define VERDICT_COUNTER(word) ((word) >> 16)
#define VERDICT_KERNEL 0
#define VERDICT_PERMIT 1
#define VERDICT_DROP 2

#define LOG_INTERVAL 100000000ULL // ns; filter.LogInterval

static __always_inline __u64 policy_pair(__u32 policy, __u32 from, __u32 to)
{
	__u32 zero = 0;
	struct policy_pairs *pairs = bpf_map_lookup_elem(&policy_pairs, &zero);
	__u32 at = (policy & POLICY_BUFFER) << 12 | (from & (MAX_ZONES - 1)) << 6 | (to & (MAX_ZONES - 1));

	return pairs ? pairs->pair[at] : 0;
}

// policy_sole is the verdict on all packets of a pair by its number; 0 when its rules look at more.
static __always_inline __u32 policy_sole(__u32 policy, __u32 number, __u32 ipv6)
{
	__u32 zero = 0;
	struct policy_pairs *pairs = bpf_map_lookup_elem(&policy_pairs, &zero);
	__u32 at = (policy & POLICY_BUFFER) << 9 | ipv6 << 8 | (number & (PAIR_NUMBERS - 1));

	return pairs ? pairs->sole[at] : 0;
}

static __always_inline void policy_count(__u32 policy, __u32 verdict, __u32 bytes)
{
	__u32 at = (policy & POLICY_BUFFER) * POLICY_COUNTERS + VERDICT_COUNTER(verdict);
	struct tally *t = VERDICT_COUNTER(verdict) ? bpf_map_lookup_elem(&policy_counts, &at) : 0;

	if (t) {
		t->packets++;
		t->bytes += bytes;
	}
}

// policy_logs says whether it is this packet's turn to be logged.
static __always_inline int policy_logs(__u32 verdict)
{
	__u32 at = VERDICT_COUNTER(verdict);
	__u64 *logged, last, now;

	if (!(verdict & VERDICT_LOG) || trace_build)
		return 0;
	logged = bpf_map_lookup_elem(&policy_logged, &at);
	if (!logged)
		return 1;
	last = *(volatile __u64 *)logged;
	now = bpf_ktime_get_coarse_ns();
	return now - last >= LOG_INTERVAL && __sync_val_compare_and_swap(logged, last, now) == last;
}

// tested4 is the number of a pair for a packet by the sets that its source or destination (host byte
// order) is in. A global function, as all here that are not small: the verifier reads it once.
__attribute__((weak)) __noinline __u32 tested4(__u64 pair, __u32 src, __u32 dst)
{
	__u32 number = PAIR_NUMBER(pair);

	for (__u32 i = 0; i < PAIR_MAX_TESTS && i < PAIR_TESTS(pair); i++) {
		__u32 test = PAIR_TEST(pair, i);

		if (set_has4(test & (SET_MAX - 1), test & PAIR_DESTINATION ? dst : src))
			number += 1 << i;
	}
	return number;
}

// What the classifier is asked.
struct question {
	struct classify_key key;
	__u64 pair;
	__u32 policy;
	__u32 reserved;
};

// That about the packet at hand; each build of the program has its own.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct question);
} questions SEC(".maps");

// tested6 is tested4 for a question.
static __always_inline __u32 tested6(const struct question *q)
{
	__u32 number = PAIR_NUMBER(q->pair);

	for (__u32 i = 0; i < PAIR_MAX_TESTS && i < PAIR_TESTS(q->pair); i++) {
		__u32 test = PAIR_TEST(q->pair, i);
		const __u64 *address = test & PAIR_DESTINATION ? q->key.dst : q->key.src;

		if (set_has6(test & (SET_MAX - 1), address[0], address[1]))
			number += 1 << i;
	}
	return number;
}

static __always_inline __u32 ask(struct question *q, __u32 ipv6)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&classify_image, &zero);
	struct classify_buffer b = { .mask = classify_mask };

	if (!image)
		return 0;
	b.at = image + (q->policy & POLICY_BUFFER) * ((b.mask + 1) << 2);
	return classify_in(b, &q->key, ipv6);
}

// ask4 is the classifier's verdict; key.zone is the number that tested4 gave.
__attribute__((weak)) __noinline __u32 ask4(struct question *q)
{
	return q ? ask(q, 0) : 0;
}

__attribute__((weak)) __noinline __u32 ask6(struct question *q)
{
	__u32 sole;

	if (!q)
		return 0;
	q->key.zone = tested6(q);
	sole = policy_sole(q->policy, q->key.zone, 1);
	return sole ? sole : ask(q, 1);
}

#endif
