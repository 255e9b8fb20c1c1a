// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// minne capture: a copy of packets and verdicts.
//
// The capturing build of the program has capture_build set before loading. While a
// capture runs, it takes the place of the ordinary one on all ports, in one step
// each, over the same tables and counters; from the ordinary build the verifier
// drops all of this, so a router that nobody captures on pays nothing. It needs
// neither BTF nor tracing, which locked-down kernels refuse.
//
// captured_came() copies the packet as it came, if the filter wants it, into a record
// per CPU; captured_went() knows the verdict and hands the record to the ring
// buffer. What finds no room there is counted.
#ifndef MINNE_CAPTURE_H
#define MINNE_CAPTURE_H

#include <linux/in.h>

#include "parse.h"
#include "policy.h"

#define SNAP_MAX 4096 // bytes of a packet
#define HEADERS 128   // bytes that the filter looks at

const volatile __u32 capture_build = 0;

// The filter. Zero is "any", but for the verdicts, of which the mask says which are wanted.
const volatile __u32 want_interface = 0; // ifindex, logical or of the port
const volatile __u32 want_verdicts = 0;  // bit per XDP action
const volatile __u32 want_reason = 0;
const volatile __u32 want_first = 0;     // counters of rules (policy.h), from … to
const volatile __u32 want_last = 0;      // 0 for any rule or none
const volatile __u32 want_l4 = 0;        // TCP or UDP port, source or destination
const volatile __u32 want_nets = 0;      // how many of the nets must match
const volatile __u32 sample_every = 1;   // of the packets that match
const volatile __u32 snaplen = SNAP_MAX;
const volatile __u32 also_sent = 0;      // forwarded packets a second time, as they left

// A prefix that source or destination must lie in; the words as they stand in a packet.
struct captured_net {
	__u32 family; // 4 or 6
	__u32 address[4];
	__u32 mask[4];
};
const volatile struct captured_net nets[2] = {};

// What user space gets, in host byte order.
struct captured {
	__u64 time;     // ns, monotonic
	__u32 port;     // ifindex that the packet came in by
	__u32 egress;   // logical interface that it leaves by; 0 when not forwarded
	__u32 action;   // XDP action
	__u32 reason;   // enum reason
	__u32 verdict;  // of the rule that decided (policy.h), 0 when none did
	__u32 policy;   // control.policy, by which it was decided
	__u32 length;   // of the frame, bytes
	__u16 bytes;    // of them, in frame
	__u8 sent;      // as it left, not as it came
	__u8 wanted;    // between came and went
	__u8 frame[SNAP_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct captured);
} capture_record SEC(".maps");

// The loader makes it large for the capturing build.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} capture_ring SEC(".maps");

struct capture_tally {
	__u64 matched; // packets that the filter let through
	__u64 lost;    // records that found no room
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct capture_tally);
} capture_tally SEC(".maps");

static __always_inline __u32 half_at(const struct captured *r, __u32 at)
{
	at &= HEADERS - 1;
	return (__u32)r->frame[at] << 8 | r->frame[at + 1];
}

// Whether the address of so many words at that place of the frame lies in a prefix.
static __always_inline int inside(const struct captured *r, __u32 at, const volatile struct captured_net *n, int words)
{
	#pragma unroll
	for (int i = 0; i < words; i++) {
		__u32 bytes;

		__builtin_memcpy(&bytes, &r->frame[(at + 4 * i) & (HEADERS - 1)], sizeof(bytes));
		if ((bytes & n->mask[i]) != n->address[i])
			return 0;
	}
	return 1;
}

static __always_inline int in_nets(const struct captured *r, __u32 ip, __u32 family)
{
	#pragma unroll
	for (__u32 i = 0; i < 2; i++) {
		const volatile struct captured_net *n = &nets[i];

		if (i >= want_nets)
			break;
		if (n->family != family)
			return 0;
		if (family == 4 && !inside(r, ip + 12, n, 1) && !inside(r, ip + 16, n, 1))
			return 0;
		if (family == 6 && !inside(r, ip + 8, n, 4) && !inside(r, ip + 24, n, 4))
			return 0;
	}
	return 1;
}

// Whether a frame matches, by its first bytes. What ends before its ports has none.
static __always_inline int matches(const struct captured *r, __u32 have)
{
	__u32 ip = sizeof(struct ethernet), kind = half_at(r, 12), upper, protocol;

	if (!want_nets && !want_l4)
		return 1;
	#pragma unroll
	for (int i = 0; i < MAX_TAGS; i++) {
		if (kind != ETH_P_8021Q && kind != ETH_P_8021AD)
			break;
		kind = half_at(r, ip + 2);
		ip += sizeof(struct tag);
	}
	if (kind == ETH_P_IP && have >= ip + sizeof(struct iphdr)) {
		protocol = r->frame[(ip + 9) & (HEADERS - 1)];
		upper = ip + 4 * (r->frame[ip & (HEADERS - 1)] & 0xf);
		if (!in_nets(r, ip, 4))
			return 0;
		if (want_l4 && half_at(r, ip + 6) & 0x1fff) // a later fragment
			return 0;
	} else if (kind == ETH_P_IPV6 && have >= ip + sizeof(struct ipv6hdr)) {
		protocol = r->frame[(ip + 6) & (HEADERS - 1)];
		upper = ip + sizeof(struct ipv6hdr);
		if (!in_nets(r, ip, 6))
			return 0;
	} else {
		return 0;
	}
	if (!want_l4)
		return 1;
	if ((protocol != IPPROTO_TCP && protocol != IPPROTO_UDP) || have < upper + 4)
		return 0;
	return half_at(r, upper) == want_l4 || half_at(r, upper + 2) == want_l4;
}

// Copies the packet as it is now, as much as is wanted. Returns how much.
static __always_inline __u32 copied(struct xdp_md *ctx, struct captured *r, __u32 limit)
{
	__u32 length = ctx->data_end - ctx->data;

	if (jumbo_build)
		length += bytes_beyond(ctx);
	r->length = length;
	if (length > limit)
		length = limit;
	asm volatile("" : "+r"(length)); // the bounds are to be tested on the number itself, for the verifier
	if (length < 1 || length > SNAP_MAX)
		return 0;
	if (bpf_xdp_load_bytes(ctx, 0, r->frame, length))
		return 0;
	return length;
}

static __always_inline void captured_came(struct xdp_md *ctx)
{
	__u32 zero = 0, have, whole = snaplen;
	struct captured *r;

	if (!capture_build)
		return;
	r = bpf_map_lookup_elem(&capture_record, &zero);
	if (!r)
		return;
	r->wanted = 0;
	have = copied(ctx, r, HEADERS);
	if (!matches(r, have))
		return;
	if (whole > HEADERS && r->length > HEADERS)
		have = copied(ctx, r, whole);
	r->bytes = have < whole ? have : whole;
	r->port = ctx->ingress_ifindex;
	r->wanted = 1;
}

static __always_inline void hand_over(struct captured *r, struct capture_tally *t)
{
	__u32 bytes = r->bytes;

	if (bytes > SNAP_MAX)
		return;
	if (bpf_ringbuf_output(&capture_ring, r, __builtin_offsetof(struct captured, frame) + bytes, 0))
		__sync_fetch_and_add(&t->lost, 1);
}

// verdict is the rules'; what conntrack is asked about in spite of it, they have not decided.
static __always_inline void captured_went(struct packet *p, __u32 action, enum reason why, __u32 egress, __u32 verdict)
{
	struct capture_tally *t;
	__u32 zero = 0, every = sample_every;
	struct captured *r;

	if (!capture_build)
		return;
	r = bpf_map_lookup_elem(&capture_record, &zero);
	t = bpf_map_lookup_elem(&capture_tally, &zero);
	if (!r || !t || !r->wanted)
		return;
	r->wanted = 0;
	if (want_interface && want_interface != p->interface && want_interface != r->port)
		return;
	if (why == REASON_CONNECTION)
		verdict = 0;
	if (want_last && (VERDICT_COUNTER(verdict) < want_first || VERDICT_COUNTER(verdict) > want_last))
		return;
	if (!(want_verdicts >> action & 1) || (want_reason && want_reason != why))
		return;
	if (__sync_fetch_and_add(&t->matched, 1) % (every ? every : 1))
		return;
	r->time = bpf_ktime_get_ns();
	r->action = action;
	r->reason = why;
	r->egress = egress;
	r->verdict = verdict;
	r->policy = p->policy;
	r->sent = 0;
	hand_over(r, t);
	if (!also_sent || action != XDP_REDIRECT)
		return;
	r->sent = 1;
	r->bytes = copied(p->ctx, r, snaplen);
	hand_over(r, t);
}

#endif
