// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A device between two ports that fails on purpose, to see that the lab notices:
// it loses, repeats, reorders, damages and delays as many frames as it was told,
// and counts what it did.
//
// `fail` runs on both ports and sends what arrives on one out of the other. It
// changes nothing but what a fault asks for: it is a cable, not a router. Faults
// strike UDP and TCP over IP, each at every n-th such frame of its direction; all
// other frames (ARP, neighbour discovery) pass without being counted.
//
// A direction is served by one receive queue: its counters have one writer.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SIDES 2
#define FRAME 2048 // room for a frame that is held; a power of two

// Faults. Counts are "one frame of so many", 0 is never.
volatile const __u32 side_of[SIDES]; // ifindex of each side
volatile const __u64 drop, duplicate, reorder, corrupt, bad_ttl, bad_header, bad_mac;
volatile const __u64 delay;      // ns that each frame stays
volatile const __u64 outage_at;  // frames before an outage; counts when outage_for is set
volatile const __u64 outage_for; // ns

// What was done in one direction. Written here, read by user space.
struct truth {
	__u64 arrived;
	__u64 dropped;
	__u64 dark;       // lost in the outage
	__u64 duplicated;
	__u64 reordered;
	__u64 corrupted;
	__u64 bad_ttl;
	__u64 bad_header;
	__u64 bad_mac;
	__u64 held;       // 1 while a frame waits to be overtaken
	__u64 slot;       // which of the side's two frames that is
	__u64 overtaken;  // 1 once another frame passed it
	__u64 delay_sum;  // ns that frames really stayed
	__u64 delay_max;
	__u64 outage_end; // ns, CLOCK_MONOTONIC; 0 before the outage
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SIDES);
	__type(key, __u32);
	__type(value, struct truth);
} truths SEC(".maps");

// Ways out, by the side where a frame arrived.
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, SIDES);
	__uint(key_size, 4);
	__uint(value_size, 4);
} once SEC(".maps");

// The same port twice each: a broadcast to such a map repeats the frame.
struct twice {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__uint(value_size, 4);
};
struct twice twice0 SEC(".maps"), twice1 SEC(".maps");

struct frame {
	__u32 length;
	__u8 bytes[FRAME];
};

// Two frames for each side: one that waits, and room for the one that replaces it.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * SIDES);
	__type(key, __u32);
	__type(value, struct frame);
} frames SEC(".maps");

// turn tells whether the n-th frame is one of those that a fault strikes.
static __always_inline int turn(__u64 n, __u64 every)
{
	return every && n % every == every - 1;
}

struct stay {
	__u64 until;
};

static long wait_for_it(__u64 i, struct stay *s)
{
	return bpf_ktime_get_ns() >= s->until;
}

// keep spends the frame's time, on this core: nothing is more exact.
static __always_inline void keep(struct truth *t)
{
	__u64 from = bpf_ktime_get_ns(), took;
	struct stay s = { .until = from + delay };

	bpf_loop(1 << 23, wait_for_it, &s, 0);
	took = bpf_ktime_get_ns() - from;
	t->delay_sum += took;
	if (took > t->delay_max)
		t->delay_max = took;
}

// dark tells whether the device forwards nothing now.
static __always_inline int dark(struct truth *t)
{
	__u64 now;

	if (!outage_for || t->arrived <= outage_at)
		return 0;
	now = bpf_ktime_get_ns();
	if (!t->outage_end)
		t->outage_end = now + outage_for;
	return now < t->outage_end;
}

// adjust changes a checksum for a 16-bit word that changed (RFC 1624).
static __always_inline __u16 adjust(__u16 check, __u16 from, __u16 to)
{
	__u32 sum = (__u16)~check + (__u16)~from + to;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

// spoil_header does what was asked for to the headers.
static __always_inline int spoil_header(struct xdp_md *ctx, struct truth *t, __u64 n)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip4 = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);
	int v4;

	if ((void *)(ip4 + 1) > end)
		return -1;
	v4 = eth->h_proto == bpf_htons(ETH_P_IP);
	if (!v4 && (void *)(ip6 + 1) > end)
		return -1;
	if (turn(n, bad_mac)) {
		eth->h_dest[5] ^= 0x55;
		t->bad_mac++;
	}
	if (turn(n, bad_ttl)) {
		if (v4) {
			__u16 *word = (__u16 *)&ip4->ttl, before = *word;

			ip4->ttl--;
			ip4->check = adjust(ip4->check, before, *word);
		} else {
			ip6->hop_limit--;
		}
		t->bad_ttl++;
	}
	if (v4 && turn(n, bad_header)) {
		ip4->check ^= 0x5555;
		t->bad_header++;
	}
	return 0;
}

// spoil_payload inverts the last byte of the frame.
static __always_inline void spoil_payload(struct xdp_md *ctx, struct truth *t)
{
	__u32 last = bpf_xdp_get_buff_len(ctx) - 1;
	__u8 b;

	if (bpf_xdp_load_bytes(ctx, last, &b, 1))
		return;
	b ^= 0xff;
	if (!bpf_xdp_store_bytes(ctx, last, &b, 1))
		t->corrupted++;
}

// bounded shows the verifier that a length is below FRAME; lengths from there on become others.
static __always_inline __u64 bounded(__u64 length)
{
	asm volatile("%0 &= %1" : "+r"(length) : "i"(FRAME - 1));
	return length;
}

// swap holds this frame back and sends in its place the one that was held before.
static __always_inline int swap(struct xdp_md *ctx, struct truth *t, __u32 side)
{
	__u64 whole = bpf_xdp_get_buff_len(ctx), length = bounded(whole);
	__u32 out_of = 2 * side + (t->slot & 1), into = out_of ^ 1;
	struct frame *in = bpf_map_lookup_elem(&frames, &into);
	struct frame *out = bpf_map_lookup_elem(&frames, &out_of);
	int was_held = t->held;

	if (!in || !out || length != whole || length < ETH_HLEN)
		return XDP_ABORTED;
	if (bpf_xdp_load_bytes(ctx, 0, in->bytes, length))
		return XDP_ABORTED;
	in->length = length;
	t->slot = into & 1;
	t->held = 1;
	if (!was_held)
		return XDP_DROP;
	if (bpf_xdp_adjust_tail(ctx, (int)out->length - (int)length))
		return XDP_ABORTED;
	length = bounded(out->length);
	if (length < ETH_HLEN || bpf_xdp_store_bytes(ctx, 0, out->bytes, length))
		return XDP_ABORTED;
	t->reordered += t->overtaken;
	t->overtaken = 0;
	return XDP_REDIRECT;
}

// ours tells whether faults may strike a frame.
static __always_inline int ours(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip4 = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);
	__u8 protocol;

	if ((void *)(ip4 + 1) > end)
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		protocol = ip4->protocol;
	} else {
		if (eth->h_proto != bpf_htons(ETH_P_IPV6) || (void *)(ip6 + 1) > end)
			return 0;
		protocol = ip6->nexthdr;
	}
	return protocol == IPPROTO_UDP || protocol == IPPROTO_TCP;
}

SEC("xdp")
int fail(struct xdp_md *ctx)
{
	__u32 side = ctx->ingress_ifindex == side_of[0] ? 0 : 1;
	struct truth *t = bpf_map_lookup_elem(&truths, &side);
	__u64 n;

	if (!t)
		return XDP_ABORTED;
	if (!ours(ctx))
		return bpf_redirect_map(&once, side, 0);
	n = t->arrived++;
	if (delay)
		keep(t);
	if (dark(t)) {
		t->dark++;
		return XDP_DROP;
	}
	if (turn(n, drop)) {
		t->dropped++;
		return XDP_DROP;
	}
	if (spoil_header(ctx, t, n))
		return XDP_ABORTED;
	if (turn(n, corrupt))
		spoil_payload(ctx, t);
	if (turn(n, duplicate)) {
		t->duplicated++;
		return side ? bpf_redirect_map(&twice1, 0, BPF_F_BROADCAST) : bpf_redirect_map(&twice0, 0, BPF_F_BROADCAST);
	}
	if (reorder && turn(n, reorder) && t->held) {
		t->overtaken = 1;
	} else if (reorder) {
		int what = swap(ctx, t, side);

		if (what != XDP_REDIRECT)
			return what;
	}
	return bpf_redirect_map(&once, side, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
