// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The flow table: what was decided for the first packets of a connection, for all
// that follow. Here is what every packet needs; flow_write.h makes and deletes flows.
//
// The idea is TRASH (trie-hash): in front of the complete key stands its hash, and
// the trie is searched by that header. However long the key, the trie is flat: its
// root has buckets of one cache line for twelve headers, half full when the table is, and a
// header that finds its bucket full goes to the next of four. A flow has two headers, one for each
// direction, and one entry of 128 bytes, a cache line for each direction. A header is a
// tag, eight bits of the hash, and the number of a side: twice the flow's, which is 1 and
// above, plus the direction, 0 of who opened the flow and 1 of the replies.
//
// So a packet reads two cache lines: a bucket, and the side that its header names. Where the
// flow is translated, it reads the other side as well, which has the addresses of the
// replies: what to write is that, turned round.
//
// Many CPUs and user space read and write at once, without locks:
// - A number is one word. It is put into an empty place, and taken out, by compare and
//   exchange. A flow is complete before its numbers are put in. Who takes out the number of
//   direction 0 owns the flow, and nobody else frees it.
// - A free flow waits in a queue (flow_free) for flow_rest_ticks before it is
//   used again: whoever still holds its number has ended by then. Should a CPU
//   have been stopped for longer than that, it sees that the version has changed.
// - A key that is searched for is compared in full, so that a wrong hit is impossible.
//
// Nothing drives flows out: a full table refuses new ones, which the kernel then
// handles alone. They go when a connection ends (flow_delete) or when it has been
// silent for too long (internal/subsystem/fastpath/flow, which also owns generation).
#ifndef MINNE_FLOW_H
#define MINNE_FLOW_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "flow_hash.h"

#define FLOW_PLACES 12 // headers in a bucket
#define FLOW_PROBES 4  // buckets that a header may lie in

#define FLOW_SOURCE_ROW (1 << 15) // counters in each of the two rows of flow_sources

#define FLOW_MMAPABLE 1024U // BPF_F_MMAPABLE

// One tick of the clock that flows are aged by: 2^31 ns.
#define FLOW_TICK_SHIFT 31

// Tags are of the numbers in their places, or of those that were there before; in the lowest bits
// of `tags` is that of place 0, in those of `more` that of place 8. All are compared at
// once: what a lookup does with a bucket must be little, because it waits in the CPU's scheduler until the
// bucket comes from memory, and keeps the next packet's loads out of it.
struct flow_bucket {
	__u64 tags;
	__u32 more;
	__u32 passed;               // headers that lie further on because this bucket was full
	__u32 number[FLOW_PLACES];  // of sides; 0 is an empty place
};

#define FLOW_EACH_TAG 0x0101010101010101ULL // 1 in each
#define FLOW_EACH_MORE 0x01010101ULL

// Which of the bucket's sixteen 32-bit words has the number of a place. The order is that of
// flow_number's multiplication: byte 7 − i of FLOW_WORDS is the word of place i, twice the
// byte that of place 8 + i.
#define FLOW_WORD(place) ((place) < 4 ? (place) + 4 : (place) < 8 ? 2 * (place) + 1 : 2 * (place) - 8)
#define FLOW_WORDS 0x04050607090b0d0fULL

// One direction of a flow.
struct flow_side {
	struct flow_key key; // of packets in this direction, before translation
	__u64 packets;       // repeated by the fast path, FLOW_PACKETS; above, of direction 0: FLOW_EGRESS
	__u64 bytes;         // of IP packets, as conntrack counts
	__u16 seen;          // flow_now of the last packet
	__u16 generation;    // flow_control.generation when the flow was made
	__u8 version;        // odd: the flow is complete; counts up when it is made and when it ends
	__u8 flags;          // FLOW_
	__u16 mark;          // of the caller; 0 when the flow is made
};

// The packets that a side has counted; and by which interface a flow's packets of direction 0 leave: its ifindex,
// or FLOW_ANY_EGRESS, or FLOW_UNSEEN_EGRESS where the kernel has still to see one leave.
#define FLOW_EGRESS_SHIFT 48
#define FLOW_PACKETS(word) ((word) & ((1ULL << FLOW_EGRESS_SHIFT) - 1))
#define FLOW_EGRESS(word) ((word) >> FLOW_EGRESS_SHIFT)
#define FLOW_ANY_EGRESS 0
#define FLOW_UNSEEN_EGRESS 0xffff

#define FLOW_TRANSLATED 1 // the replies' addresses or ports are not just the original's turned round
#define FLOW_SEARCHED 2   // the first packets of this direction have been looked through (label.h); the bits above are the label

// Written by user space when the table is made, and later only: generation by user
// space; head, tail by everybody.
struct flow_control {
	struct flow_secret secret;
	__u32 flows;      // capacity
	__u32 buckets;    // an even number
	__u32 generation; // 16 bits; flows of another one are no longer valid
	__u32 ring_bits;  // flow_free has 1 << ring_bits places
	__u64 reserved[6];
	__u64 head;       // the next free flow is taken here; own cache line
	__u64 unused[7];
	__u64 tail;       // the next flow that becomes free is put here; own cache line
	__u64 unused2[7];
};

// What happened, on one CPU.
struct flow_counts {
	__u64 hits;
	__u64 misses;   // among them stale
	__u64 stale;    // found, but of another generation
	__u64 inserts;
	__u64 replaced; // an insert found another flow with its key
	__u64 active;   // deleted because the connection ended
	__u64 full;     // refused: no free flow
	__u64 unfair;   // refused: nearly full, and the source has more than its share
	__u64 crowded;  // refused: all four buckets are full
	__u64 raced;    // withdrawn: another CPU made the same flow
	__u64 lost_ring;   // ended without a place in flow_ended: what it had counted is in no book
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, FLOW_MMAPABLE);
	__type(key, __u32);
	__type(value, struct flow_control);
} flow_control SEC(".maps");

// The loader sets the sizes of these three (flow.Size).
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, FLOW_MMAPABLE);
	__type(key, __u32);
	__type(value, struct flow_bucket);
} flow_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__uint(map_flags, FLOW_MMAPABLE);
	__type(key, __u32);
	__type(value, struct flow_side);
} flow_sides SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, FLOW_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} flow_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FLOW_SOURCE_ROW);
	__uint(map_flags, FLOW_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} flow_sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_counts);
} flow_counts SEC(".maps");

static __always_inline struct flow_control *flow_controls(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&flow_control, &zero);
}

#define FLOW_COUNT(what)                                                                     \
	do {                                                                                 \
		__u32 zero_ = 0;                                                             \
		struct flow_counts *counts_ = bpf_map_lookup_elem(&flow_counts, &zero_);     \
		if (counts_)                                                                 \
			counts_->what++;                                                     \
	} while (0)

// The clock that flows are aged by. It is read once per packet.
static __always_inline __u16 flow_now(void)
{
	return bpf_ktime_get_coarse_ns() >> FLOW_TICK_SHIFT;
}

// flow_now for a side: its ticks begin at a time of its own, so that not all flows ask conntrack at once.
static __always_inline __u16 flow_tick(__u32 number)
{
	return (bpf_ktime_get_coarse_ns() + ((__u64)(number >> 1 & 0xff) << (FLOW_TICK_SHIFT - 8))) >> FLOW_TICK_SHIFT;
}

static __always_inline struct flow_side *flow_side(__u32 number)
{
	return bpf_map_lookup_elem(&flow_sides, &number);
}

// Where the flags are in the word that they share with version and mark.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FLOW_FLAGS_SHIFT 8
#else
#define FLOW_FLAGS_SHIFT 16
#endif

// flow_flag adds flags to a side of a flow that is in use. Another CPU may write the mark, or end the flow.
static __always_inline void flow_flag(struct flow_side *s, __u32 flags)
{
	__u32 *word = (__u32 *)&s->version;

	__sync_fetch_and_or(word, flags << FLOW_FLAGS_SHIFT);
}

// The bucket that a header may lie in, 0 ≤ probe < FLOW_PROBES: one by the low half of
// the hash and its neighbour, whose cache line many CPUs fetch along; then the same by other bits.
static __always_inline struct flow_bucket *flow_bucket(const struct flow_control *c, __u64 hash, __u32 probe)
{
	__u32 at = (__u64)(__u32)(probe & 2 ? hash >> 24 : hash) * c->buckets >> 32;

	at ^= probe & 1;
	return bpf_map_lookup_elem(&flow_index, &at);
}

static __always_inline __u64 flow_tag(__u64 hash) { return hash >> 56; }

// The places of a bucket that have the hash's tag, as a set: bit 8i for place i, bit 8i + 1 for
// place 8 + i. The lowest is right, others may be set for nothing.
static __always_inline __u64 flow_places(const struct flow_bucket *b, __u64 hash)
{
	__u64 tags = b->tags ^ flow_tag(hash) * FLOW_EACH_TAG;
	__u64 more = b->more ^ flow_tag(hash) * FLOW_EACH_MORE;

	tags = (tags - FLOW_EACH_TAG) & ~tags & FLOW_EACH_TAG << 7; // zero bytes
	more = (more - FLOW_EACH_MORE) & ~more & FLOW_EACH_MORE << 7;
	return tags >> 7 | more >> 6;
}

// The number in the lowest place of a set that is not empty.
static __always_inline __u32 flow_number(const struct flow_bucket *b, __u64 places)
{
	return ((const __u32 *)b)[(places & -places) * FLOW_WORDS >> 56 & 15];
}

static __always_inline int flow_same(const struct flow_key *a, const struct flow_key *b)
{
	return !((a->src[0] ^ b->src[0]) | (a->src[1] ^ b->src[1]) | (a->dst[0] ^ b->dst[0]) |
		 (a->dst[1] ^ b->dst[1]) | (a->rest ^ b->rest));
}

// A packet's flow.
struct flow_hit {
	struct flow_side *side; // the packet's direction
	__u32 number;           // of the side; ^ 1 is the other direction's
	__u8 version;           // when the flow was found
};

static __always_inline int flow_is(const struct flow_side *s, const struct flow_key *key)
{
	return flow_same(&s->key, key) && s->version & 1;
}

// flow_search is flow_find for whoever is not in the first place that comes to mind. It returns
// the number of the side, or 0.
static __noinline __u32 flow_search(const struct flow_control *c, const struct flow_key *key, __u64 hash)
{
	for (__u32 probe = 0; probe < FLOW_PROBES; probe++) {
		struct flow_bucket *b = flow_bucket(c, hash, probe);

		if (!b)
			return 0;

		__u64 places = flow_places(b, hash);

		for (int i = 0; i < FLOW_PLACES && places; i++) {
			__u32 number = flow_number(b, places);
			struct flow_side *s = flow_side(number);

			if (s && flow_is(s, key))
				return number;
			places &= places - 1;
		}
		if (!b->passed)
			return 0;
	}
	return 0;
}

// flow_find looks for the complete flow that has a side with this key, of any generation.
static __always_inline int flow_find(const struct flow_control *c, const struct flow_key *key, struct flow_hit *hit)
{
	__u64 hash = flow_hash(&c->secret, key);
	struct flow_bucket *b = flow_bucket(c, hash, 0);

	if (!b)
		return 0;

	__u64 places = flow_places(b, hash);

	// 98 of 100 flows are the first with their tag in their first bucket.
	if (places) {
		__u32 number = flow_number(b, places);

		hit->number = number;
		hit->side = flow_side(number);
		if (hit->side && flow_is(hit->side, key))
			goto found;
	} else if (!b->passed) {
		return 0;
	}
	hit->number = flow_search(c, key, hash);
	hit->side = flow_side(hit->number);
	if (!hit->number || !hit->side)
		return 0;
found:
	hit->version = hit->side->version;
	return 1;
}

// flow_lookup finds a packet's flow. 0: there is none, the kernel must see the packet.
static __always_inline int flow_lookup(const struct flow_key *key, struct flow_hit *hit)
{
	struct flow_control *c = flow_controls();

	if (!c)
		return 0;
	if (!flow_find(c, key, hit)) {
		FLOW_COUNT(misses);
		return 0;
	}
	if (hit->side->generation != (__u16)c->generation) {
		FLOW_COUNT(misses);
		FLOW_COUNT(stale);
		return 0;
	}
	FLOW_COUNT(hits);
	return 1;
}

// flow_translation gives the addresses and ports that a packet of a FLOW_TRANSLATED flow leaves
// with. 0: the flow has ended meanwhile, the kernel must see the packet. The zone in it is
// that of the replies.
static __always_inline int flow_translation(const struct flow_hit *hit, struct flow_key *out)
{
	struct flow_side *other = flow_side(hit->number ^ 1);

	if (!other)
		return 0;
	flow_key_reverse(out, &other->key);
	asm volatile("" ::: "memory");
	return hit->side->version == hit->version;
}

// flow_touch counts a packet that the fast path repeats; length is that of IP, in bytes. 1 when it
// is this direction's first in a tick: the caller tells conntrack, which so hears of a flow
// at most once a second.
static __always_inline int flow_touch(struct flow_side *s, __u32 length, __u16 now)
{
	__sync_fetch_and_add(&s->packets, 1);
	__sync_fetch_and_add(&s->bytes, length);
	if (s->seen == now)
		return 0;
	s->seen = now;
	return 1;
}

#endif
