// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Labels flows by their first payload bytes, and holds those that it knows to a limit.
//
// The patterns of all sets are a D²FA of a few automata (algo/d2fa.h). Each direction of a flow is searched for
// itself: of its first `label_packets` packets with payload, at most `label_bytes` bytes each. TCP is a
// stream: the automata's states wait for the segment that continues it, what comes twice is passed over, and a
// hole, which a longer segment leaves too, ends the search. Each UDP datagram is searched from its own
// beginning. The first pattern whose match ends gives both directions the label of its set, for good.
//
// What is known of a young flow lies in label_flows, under the key of one direction. As soon
// as a direction has been looked through, its side in the flow table says so, and its label: from
// then on it costs a packet one look at a word that it has read anyway. Where the router keeps no
// state, each packet asks label_flows.
//
// Packets are held to the limit of their label here, whether this program forwards them or the kernel
// does: all of them come by.
//
// Without `labels:` in the configuration label_build is 0: the verifier takes every call of
// this out of the program, and the tables have one entry each.
#ifndef MINNE_LABEL_H
#define MINNE_LABEL_H

#include "connection.h"
#include "guard_budget.h"
#include "route.h"

#define D2FA_GROUPS 4   // label.Groups
#define D2FA_DEFAULTS 4 // label.Defaults
#define D2FA_REPORTS 1  // the first pattern of a list is all that is asked for
#include "algo/d2fa.h"

#define LABEL_LABELS 64   // labels are numbers from 1 that fit into six bits
#define LABEL_BYTES 2048  // of a packet, at most; a power of two
#define LABEL_CHUNK 16    // bytes that label_chunk takes
#define LABEL_QUIET 128   // packets that a direction of the flow table may send before it is taken for looked through

// Set before loading where there are patterns.
const volatile __u32 label_build = 0;
const volatile __u32 label_mask = 0;    // words of the image, minus 1
const volatile __u32 label_packets = 0; // with payload, of each direction
const volatile __u32 label_bytes = 0;   // of a packet; at most LABEL_BYTES

// The automaton; the loader sets the size.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, 4);
} label_image SEC(".maps");

// A pattern: the label of its set, written before the program meets packets. The loader makes room for all.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} label_labels SEC(".maps");

// A direction of a flow.
struct label_flow {
	struct flow_key other; // of the other direction, as far as it is known
	__u32 state[D2FA_GROUPS]; // of the automata
	__u32 next;            // TCP: the sequence number that continues what was searched
	__u16 packets;         // with payload, so far
	__u8 done;             // is searched no more
	__u8 label;            // 0 for none
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow_key);
	__type(value, struct label_flow);
} label_flows SEC(".maps");

// A label's limit. mmap: the daemon writes all words but `paid` and `packets_paid`, each by one store. As in
// guard_budget.h a budget is the time at which all that passed is paid for.
struct label_limit {
	__u64 byte;         // 2^-16 ns a byte; 0 is no limit
	__u64 burst;        // ns
	__u64 packet;       // ns a packet; 0 is no limit
	__u64 packet_burst; // ns
	__u64 paid;         // ns, monotonic
	__u64 packets_paid;
	__u64 drop; // everything
	__u64 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LABEL_LABELS);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct label_limit);
} label_limits SEC(".maps");

// What became of the packets of a label. Bytes are of IP packets.
struct label_tally {
	__u64 packets; // all, also those that were dropped
	__u64 bytes;
	__u64 dropped;
	__u64 dropped_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LABEL_LABELS);
	__type(key, __u32);
	__type(value, struct label_tally);
} label_tallies SEC(".maps");

// Flows that a pattern gave their label.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} label_hits SEC(".maps");

// What the search took.
struct label_effort {
	__u64 directions; // that began
	__u64 packets;    // searched
	__u64 bytes;
	__u64 early;      // TCP segments that came before one that is missing
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct label_effort);
} label_effort SEC(".maps");

// The packet at hand.
struct label_work {
	struct flow_key key;
	struct label_flow flow; // that is made
	__u32 at;               // where the payload begins in the frame
	__u32 length;           // of the payload, bytes
	__u32 sequence;         // of its first byte
	__u32 tcp;
	__u32 state;            // of the automaton that searches
	__u32 classes;
	__u32 from, to;         // bytes that it has still to take
	__u32 found;            // pattern, plus 1; 0 for none
	__u32 taken;            // bytes
	__u32 ip;               // where the IP header begins in the frame
	__u32 ipv6;
	__u32 bytes;            // of the IP packet
	__u32 number;           // of its side in the flow table, 0 for none
	__u32 zone;             // of conntrack, that its connection is in
	__u8 data[LABEL_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct label_work);
} label_works SEC(".maps");

#define LABEL_COUNT(what, by)                                                               \
	do {                                                                                \
		__u32 zero_ = 0;                                                            \
		struct label_effort *e_ = bpf_map_lookup_elem(&label_effort, &zero_);       \
		if (e_)                                                                     \
			e_->what += (by);                                                   \
	} while (0)

// Where the payload of TCP is.
static __always_inline int label_tcp(struct label_work *m, const struct segment *tcp, const void *end, __u32 header, __u32 total)
{
	__u32 words;

	if ((const void *)(tcp + 1) > end)
		return 0;
	words = tcp->offset >> 4 << 2;
	if (words < sizeof(*tcp) || header + words > total)
		return 0;
	m->tcp = 1;
	m->sequence = bpf_ntohl(tcp->sequence) + !!(tcp->flags & TCP_SYN); // which has a number of its own
	m->at += header + words;
	m->length = total - header - words;
	m->key.rest = FLOW_REST(tcp->sport, tcp->dport, m->zone, IPPROTO_TCP, m->key.rest >> 56);
	return 1;
}

static __always_inline int label_udp(struct label_work *m, const struct datagram *udp, const void *end, __u32 header, __u32 total)
{
	__u32 told;

	if ((const void *)(udp + 1) > end)
		return 0;
	told = wire_length(udp->length);
	if (told < sizeof(*udp) || header + told > total)
		return 0;
	m->tcp = 0;
	m->at += header + sizeof(*udp);
	m->length = told - sizeof(*udp);
	m->key.rest = FLOW_REST(udp->sport, udp->dport, m->zone, IPPROTO_UDP, m->key.rest >> 56);
	return 1;
}

// label_read reads whose packet it is and where its payload begins. 0: not TCP or UDP, a fragment, or with
// options or extension headers.
static __always_inline int label_read(struct xdp_md *ctx, struct label_work *m)
{
	const void *end = (void *)(long)ctx->data_end, *first;
	__u32 header, total, protocol, at = (m->ip & 0x1c) | 2; // as read_transport has it

	first = (void *)(long)ctx->data + at;
	if (!m->ipv6) {
		const struct iphdr *ip = first;

		if ((const void *)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->frag_off & bpf_htons(IPV4_FRAGMENT))
			return 0;
		m->key.src[0] = m->key.dst[0] = 0;
		m->key.src[1] = ip->saddr;
		m->key.dst[1] = ip->daddr;
		m->key.rest = 4ULL << 56;
		header = sizeof(*ip);
		total = wire_length(ip->tot_len);
		protocol = ip->protocol;
	} else {
		const struct ipv6hdr *ip = first;

		if ((const void *)(ip + 1) > end || ip->version != 6)
			return 0;
		__builtin_memcpy(m->key.src, &ip->saddr, sizeof(m->key.src));
		__builtin_memcpy(m->key.dst, &ip->daddr, sizeof(m->key.dst));
		m->key.rest = 6ULL << 56;
		header = sizeof(*ip);
		total = header + wire_length(ip->payload_len);
		protocol = ip->nexthdr;
	}
	m->at = at;
	if (protocol == IPPROTO_TCP)
		return label_tcp(m, first + header, end, header, total);
	if (protocol == IPPROTO_UDP)
		return label_udp(m, first + header, end, header, total);
	return 0;
}

// label_other is the key of the other direction: what conntrack says, or else this one turned round.
static __always_inline void label_other(struct xdp_md *ctx, const struct flow_key *key, struct flow_key *other)
{
	flow_key_reverse(other, key);
#ifdef CONNTRACK
	struct nf_conn *ct = conntrack_find(ctx, key, NULL);
	__u32 protocol = key->rest >> 48 & 0xff, family = key->rest >> 56, zone = key->rest >> 32 & 0xffff;

	if (!ct)
		return;
	READ_SIDE(*other, ct, 0, family, protocol, zone);
	if (flow_same(other, key))
		READ_SIDE(*other, ct, 1, family, protocol, zone);
	bpf_ct_release(ct);
#endif
}

// label_begin makes a direction known that has sent its first payload. What the other one is known for, it is too.
static __noinline struct label_flow *label_begin(struct xdp_md *ctx, struct label_work *m)
{
	struct label_flow *other;

	label_other(ctx, &m->key, &m->flow.other);
	m->flow.next = m->flow.packets = m->flow.done = m->flow.label = 0;
	other = bpf_map_lookup_elem(&label_flows, &m->flow.other);
	if (other) {
		other->other = m->key;
		m->flow.label = other->label;
		m->flow.done = !!other->label;
	}
	LABEL_COUNT(directions, 1);
	bpf_map_update_elem(&label_flows, &m->key, &m->flow, BPF_ANY);
	return bpf_map_lookup_elem(&label_flows, &m->key);
}

static __always_inline const __u32 *label_words(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&label_image, &zero);
}

// The table, its mask read anew: the verifier forgets what it is once it has been on the stack.
#define LABEL_TABLE(words) ((struct algo_table){ words, label_mask })

// label_next is the state that a class of bytes leads to. This and label_chunk are global functions, which the
// verifier reads once, however often they are called.
__attribute__((weak)) __noinline __u32 label_next(__u32 state, __u32 class)
{
	const __u32 *words = label_words();

	if (!label_build || !words)
		return 0;
	return d2fa_next(LABEL_TABLE(words), state, class);
}

// label_chunk takes up to LABEL_CHUNK bytes. Not 0: the search has come to an end.
__attribute__((weak)) __noinline int label_chunk(struct label_work *m)
{
	const __u32 *words;
	__u32 state, at, class, i;

	if (!label_build || !m)
		return 1;
	words = label_words();
	if (!words)
		return 1;
	state = m->state;
	at = m->from;
	for (i = 0; i < LABEL_CHUNK; i++) {
		if (at >= m->to)
			break;
		class = algo_word(LABEL_TABLE(words), m->classes + m->data[at & (LABEL_BYTES - 1)]);
		if (D2FA_KIND(state) == D2FA_ROW) // as most are that traffic is in
			state = algo_word(LABEL_TABLE(words), D2FA_PLACE(state) + class);
		else
			state = label_next(state, class);
		at++;
		if (!state || state & D2FA_FINDS)
			break;
	}
	m->state = state;
	m->from = at;
	return !state || state & D2FA_FINDS;
}

#define LABEL_LABEL(flags) ((flags) >> 2)

// label_tell makes a side of the flow table say that its direction has been looked through, and its label.
static __always_inline void label_tell(__u32 number, __u32 label)
{
	struct flow_side *side = flow_side(number);

	if (side)
		flow_flag(side, FLOW_SEARCHED | label << 2);
}

// label_found gives the flow of a direction the label of the pattern that was found.
static __noinline int label_found(struct label_work *m, struct label_flow *f)
{
	__u32 pattern = m->found - 1, *label;
	struct flow_hit hit = {};
	struct label_flow *other;
	__u64 *hits;

	label = bpf_map_lookup_elem(&label_labels, &pattern);
	hits = bpf_map_lookup_elem(&label_hits, &pattern);
	if (!label)
		return 0;
	if (hits)
		(*hits)++;
	f->label = *label & (LABEL_LABELS - 1);
	f->done = 1;
	other = bpf_map_lookup_elem(&label_flows, &f->other);
	if (other) {
		other->label = f->label;
		other->done = 1;
	} else { // it may answer without payload
		m->flow.other = m->key;
		m->flow.next = m->flow.packets = 0;
		m->flow.done = 1;
		m->flow.label = f->label;
		bpf_map_update_elem(&label_flows, &f->other, &m->flow, BPF_ANY);
	}
	if (lookup(&m->key, &hit)) {
		label_tell(hit.number, f->label);
		label_tell(hit.number ^ 1, f->label);
	}
	return f->label;
}

// label_group searches by one of the automata, and is the state that this is left in, 0 where it needs no more bytes. Where
// two patterns end with the same byte, the first is found. Another global function.
__attribute__((weak)) __noinline __u32 label_group(struct label_work *m, struct label_flow *f, __u32 group)
{
	const __u32 *words = label_words();
	__u32 entry, count, list, pattern, i;

	if (!label_build || !m || !f || !words || group >= D2FA_GROUPS)
		return 0;
	entry = d2fa_group(LABEL_TABLE(words), group);
	m->classes = algo_word(LABEL_TABLE(words), entry + D2FA_GROUP_CLASSES);
	m->state = m->tcp && f->packets ? f->state[group] : algo_word(LABEL_TABLE(words), entry + D2FA_GROUP_START);
	m->from = 0;
	for (i = 0; i < LABEL_BYTES / LABEL_CHUNK; i++)
		if (!m->state || m->from >= m->to || label_chunk(m))
			break;
	f->state[group] = m->state;
	m->taken += m->from;
	if (!(m->state & D2FA_FINDS))
		return m->state;
	list = d2fa_reports(LABEL_TABLE(words), m->state, 0, &count);
	pattern = algo_word(LABEL_TABLE(words), list) + 1;
	if (!m->found || m->from < m->to || pattern < m->found)
		m->found = pattern;
	m->to = m->from; // what ends later is not first
	return m->state;
}

// label_search takes a packet's payload from byte `skip` on.
static __always_inline void label_search(struct xdp_md *ctx, struct label_work *m, struct label_flow *f, __u32 skip)
{
	const __u32 *words = label_words();
	__u32 bytes = m->length - skip, groups, live = 0, g;

	if (!words)
		return;
	groups = d2fa_groups(LABEL_TABLE(words));
	if (bytes > label_bytes)
		bytes = label_bytes;
	bytes &= 2 * LABEL_BYTES - 1;
	if (bytes < 1 || bytes > LABEL_BYTES || bpf_xdp_load_bytes(ctx, m->at + skip, m->data, bytes))
		return;
	m->to = bytes;
	m->taken = 0;
	for (g = 0; g < D2FA_GROUPS; g++) {
		if (g >= groups)
			break;
		live |= label_group(m, f, g);
	}
	if (m->tcp && (m->length - skip > label_bytes || !live))
		f->done = 1;
	LABEL_COUNT(packets, 1);
	LABEL_COUNT(bytes, m->taken);
}

// label_look takes a packet of a direction that is still searched.
static __noinline int label_look(struct xdp_md *ctx, struct label_work *m, struct label_flow *f)
{
	__s32 ahead = m->tcp && f->packets ? m->sequence - f->next : 0;

	m->found = 0;
	if (ahead > 0) {
		LABEL_COUNT(early, 1);
	} else if (-ahead < (__s32)m->length) {
		label_search(ctx, m, f, -ahead);
		f->next = m->sequence + m->length;
	} else {
		return 0; // has been searched already
	}
	f->packets++;
	if (f->packets >= label_packets)
		f->done = 1;
	return m->found ? label_found(m, f) : 0;
}

// label_packet is the label of a packet's flow, 0 for none. It looks at the packet if its direction is still searched.
// The tracing build only looks things up.
static __always_inline __u32 label_packet(struct xdp_md *ctx, struct label_work *m, struct flow_side *side)
{
	struct label_flow *f;
	__u32 label = 0;

	if (!label_read(ctx, m))
		return 0;
	f = bpf_map_lookup_elem(&label_flows, &m->key);
	if (trace_build)
		return f ? f->label : 0;
	if (!f && m->length)
		f = label_begin(ctx, m);
	if (f && !f->done && m->length)
		label_look(ctx, m, f);
	if (f)
		label = f->label;
	if (side && ((f && f->done) || FLOW_PACKETS(side->packets) > LABEL_QUIET))
		label_tell(m->number, label);
	return label;
}

// Whether patterns look at a packet that goes up for a reason.
enum { UNLABELLED, LABELLED };

#define LABEL_OF_REASON(name, guard, label, text, hint) [REASON_##name] = label,
#define REASONS_ROOM 128 // so that a mask is bound enough for every verifier
_Static_assert(REASON_COUNT <= REASONS_ROOM, "more reasons than label_of_reason has room for");
static const __u8 label_of_reason[REASONS_ROOM] = { PUNT_REASONS(LABEL_OF_REASON) };

static __always_inline void label_charge(__u64 *paid, __u64 was, __u64 now, __u64 by)
{
	if ((__s64)(now - was) > 0) // nothing is saved up beyond the burst
		__sync_val_compare_and_swap(paid, was, now);
	__sync_fetch_and_add(paid, by);
}

// label_over says whether a packet of so many bytes is more than its label may send, and charges it if not.
static __noinline int label_over(__u32 label, __u32 bytes)
{
	struct label_limit *l = bpf_map_lookup_elem(&label_limits, &label);
	struct label_tally *t = bpf_map_lookup_elem(&label_tallies, &label);
	__u64 now, paid, packets, byte, packet;
	int over;

	if (!l || !t)
		return 0;
	byte = *(volatile __u64 *)&l->byte;
	packet = *(volatile __u64 *)&l->packet;
	over = !!l->drop;
	if (trace_build)
		return over;
	t->packets++;
	t->bytes += bytes;
	if (byte || packet) {
		now = GUARD_NOW();
		paid = *(volatile __u64 *)&l->paid;
		packets = *(volatile __u64 *)&l->packets_paid;
		over |= (byte && guard_over(paid, now, l->burst)) || (packet && guard_over(packets, now, l->packet_burst));
		if (!over && byte)
			label_charge(&l->paid, paid, now, byte * bytes >> 16);
		if (!over && packet)
			label_charge(&l->packets_paid, packets, now, packet);
	}
	if (over) {
		t->dropped++;
		t->dropped_bytes += bytes;
	}
	return over;
}

#define LABEL_DROP 0x100 // beside the label

// label_noted is the label of the packet that label_note has noted, and LABEL_DROP if it is more than that may send.
WITH_CONTEXT int label_noted(struct xdp_md *ctx)
{
	struct flow_side *side;
	struct label_work *m;
	__u32 zero = 0, label;

	if (!label_build)
		return 0;
	m = bpf_map_lookup_elem(&label_works, &zero);
	if (!m)
		return 0;
	side = m->number ? flow_side(m->number) : 0;
	if (side && side->flags & FLOW_SEARCHED)
		label = LABEL_LABEL(side->flags);
	else
		label = label_packet(ctx, m, side);
	if (trace_build) {
		struct trace *t = bpf_map_lookup_elem(&trace, &zero);

		if (t)
			t->label = label;
	}
	return label && label_over(label, m->bytes) ? label | LABEL_DROP : label;
}

// label_note notes what label_noted needs of a packet: where the verifier need not follow it.
static __always_inline void label_note(const struct packet *p, const struct decision *d)
{
	__u32 zero = 0;
	struct label_work *m = bpf_map_lookup_elem(&label_works, &zero);

	if (!m)
		return;
	m->ip = p->ip - p->data;
	m->ipv6 = p->protocol == bpf_htons(ETH_P_IPV6);
	m->bytes = p->length ? p->length : p->end - p->ip;
	m->number = d->connection ? d->connection->number : 0;
	m->zone = vrf_zone(p->vrf);
}

// label_limited says whether a packet that would be forwarded here is dropped: it is of a flow that patterns
// labelled, and more than that may send. leave() asks the same for those that go up.
static __always_inline enum reason label_limited(const struct packet *p, const struct decision *d)
{
	__u32 said;

	if (!label_build)
		return REASON_NONE;
	label_note(p, d);
	said = label_noted(p->ctx);
	return said & LABEL_DROP ? REASON_LABEL_LIMIT : REASON_NONE;
}

#endif
