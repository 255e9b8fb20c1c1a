// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Measures and checks the guard alone: a frame is parsed as the router parses it, and the
// guard is asked about it with the reason that user space gives. No packet is sent.
//
// Only internal/testing/guardbench loads this.
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

// The clock of the tests: they turn it themselves. 0 is the kernel's.
struct inquiry {
	__u64 now;    // ns
	__u32 reason; // for which the frames go up
	__u32 spread; // changes the source addresses of each frame by its number in the run, up to this
	__u32 count;  // frames so far
	__u32 ignore; // 1: only what is around the guard, to be taken off its cost
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, 1024U); // BPF_F_MMAPABLE
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inquiry);
} inquiry SEC(".maps");

static __always_inline __u64 guard_clock(void)
{
	__u32 zero = 0;
	struct inquiry *a = bpf_map_lookup_elem(&inquiry, &zero);

	return a && a->now ? a->now : bpf_ktime_get_coarse_ns();
}
#define GUARD_NOW() guard_clock()

#include "guard.h"

// What is written over a frame's source addresses: each number another MAC and another IPv4 address.
static __always_inline void disguise(struct packet *p, __u32 number)
{
	struct ethernet *eth = p->data;
	struct iphdr *ip = p->ip;

	if ((void *)(eth + 1) <= p->end) {
		eth->src[1] = bpf_htons(number >> 16);
		eth->src[2] = bpf_htons(number & 0xffff);
	}
	if (p->protocol == bpf_htons(ETH_P_IP) && (void *)(ip + 1) <= p->end)
		ip->saddr = bpf_htonl(0x0b000000 + number * 7);
}

SEC("xdp")
int guarded(struct xdp_md *ctx)
{
	struct packet p = {
		.ctx = ctx,
		.data = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};
	__u32 zero = 0;
	struct inquiry *a = bpf_map_lookup_elem(&inquiry, &zero);

	if (!a)
		return XDP_ABORTED;
	enum reason why = parse_frame(&p);

	if (why == REASON_NONE)
		why = a->reason;
	if (a->spread)
		disguise(&p, a->count++ % a->spread);
	if (a->ignore)
		return XDP_PASS;
	return guard_admits(&p, why) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
