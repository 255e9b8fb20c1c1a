// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Making and deleting flows; flow.h says what they are and how readers live with it.
//
// Every loop is bounded. Whatever does not come off (no free flow, all buckets
// full, another CPU was quicker) leaves the table as it was, and the connection to
// the kernel.
#ifndef MINNE_FLOW_WRITE_H
#define MINNE_FLOW_WRITE_H

#include "flow.h"

// The queue of free flows. A place holds, in host byte order:
//
//	bits 63…48 lap: how often the queue had gone round when this was put in
//	bits 47…24 when, in ticks of 2^24 ns
//	bits 23…0  the flow's number; 0 when nothing has ever been put here
//
// It has a place for every flow, so it never overflows, and head never passes tail.
#define FLOW_REST_SHIFT 24
#define FLOW_REST_MASK 0xffffffULL
#define FLOW_NUMBER_MASK 0xffffffULL
#define FLOW_TRIES 8

// How long a flow that ended is left alone: 6 ticks of 2^24 ns, 100 ms.
const volatile __u32 flow_rest_ticks = 6;

static __always_inline __u64 flow_rest_now(void)
{
	return bpf_ktime_get_coarse_ns() >> FLOW_REST_SHIFT & FLOW_REST_MASK;
}

static __always_inline __u32 flow_place(const struct flow_control *c, __u64 position)
{
	return position & ((1ULL << (c->ring_bits & 31)) - 1);
}

static __always_inline __u64 flow_lap(const struct flow_control *c, __u64 position)
{
	return position >> (c->ring_bits & 31) & 0xffff;
}

// flow_take takes a free flow, or returns 0.
static __always_inline __u32 flow_take(struct flow_control *c)
{
	__u64 now = flow_rest_now();

	for (int i = 0; i < FLOW_TRIES; i++) {
		__u64 position = *(volatile __u64 *)&c->head;
		__u32 at = flow_place(c, position);
		__u64 *place = bpf_map_lookup_elem(&flow_free, &at);

		if (!place)
			return 0;

		__u64 was = *(volatile __u64 *)place;
		__u32 number = was & FLOW_NUMBER_MASK;

		if (!number || was >> 48 != flow_lap(c, position))
			return 0; // nothing put in here in this lap
		if (((now - (was >> FLOW_REST_SHIFT)) & FLOW_REST_MASK) < flow_rest_ticks)
			return 0;
		if (__sync_val_compare_and_swap(&c->head, position, position + 1) == position)
			return number;
	}
	return 0;
}

// flow_give puts a flow that ended, or was never begun, into the queue.
static __always_inline void flow_give(struct flow_control *c, __u32 number)
{
	__u64 position = __sync_fetch_and_add(&c->tail, 1);
	__u32 at = flow_place(c, position);
	__u64 *place = bpf_map_lookup_elem(&flow_free, &at);

	if (place)
		*(volatile __u64 *)place = flow_lap(c, position) << 48 | flow_rest_now() << FLOW_REST_SHIFT | number;
}

// The two counters of open flows that a source has a part in; the lesser is the better estimate.
static __always_inline __u64 *flow_source(__u64 hash, int row)
{
	__u32 at = row ? (hash >> 32 & (FLOW_SOURCE_ROW - 1)) + FLOW_SOURCE_ROW : hash & (FLOW_SOURCE_ROW - 1);

	return bpf_map_lookup_elem(&flow_sources, &at);
}

static __always_inline void flow_count_source(__u64 hash, __s64 by)
{
	for (int row = 0; row < 2; row++) {
		__u64 *n = flow_source(hash, row);
		if (n)
			__sync_fetch_and_add(n, by);
	}
}

// flow_fair says whether a source may open another flow. While an eighth of the table is free, it
// may. Then the share of one source is half of what is free: the sources with most flows are
// refused first, and the less is free the fewer flows a source may have to open one more.
static __always_inline int flow_fair(const struct flow_control *c, __u64 source)
{
	__u64 free = c->tail - c->head;

	if (free >= c->flows / 8)
		return 1;

	__u64 *a = flow_source(source, 0), *b = flow_source(source, 1);

	return a && b && (*a < *b ? *a : *b) <= free / 2;
}

// flow_pass notes, or takes back, that a header lies behind the first `probes` buckets.
static __always_inline void flow_pass(const struct flow_control *c, __u64 hash, __u32 probes, __s32 by)
{
	for (__u32 probe = 0; probe < FLOW_PROBES && probe < probes; probe++) {
		struct flow_bucket *b = flow_bucket(c, hash, probe);
		if (b)
			__sync_fetch_and_add(&b->passed, by);
	}
}

// The byte that is the tag of a place.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FLOW_TAG_BYTE(place) (place)
#else
#define FLOW_TAG_BYTE(place) ((place) < 8 ? 7 - (place) : 19 - (place))
#endif

// flow_put puts a header into an empty place of a bucket. 0: there is none. The tag is written by whoever owns
// the place and never cleared. Should two CPUs that own it one after the other write late, and the
// wrong one last, the flow is not found; so it is as if it had not been made.
static __always_inline int flow_put(struct flow_bucket *b, __u64 hash, __u32 number)
{
	#pragma unroll
	for (int i = 0; i < FLOW_PLACES; i++) {
		__u32 *place = (__u32 *)b + FLOW_WORD(i);

		if (!*(volatile __u32 *)place && __sync_val_compare_and_swap(place, 0, number) == 0) {
			((volatile __u8 *)b)[FLOW_TAG_BYTE(i)] = flow_tag(hash);
			return 1;
		}
	}
	return 0;
}

// flow_drop takes a number out of a bucket. 0: it is not there.
static __always_inline int flow_drop(struct flow_bucket *b, __u32 number)
{
	#pragma unroll
	for (int i = 0; i < FLOW_PLACES; i++)
		if (*(volatile __u32 *)&b->number[i] == number &&
		    __sync_val_compare_and_swap(&b->number[i], number, 0) == number)
			return 1;
	return 0;
}

// flow_publish puts a header into the first bucket with room. 0: all are full.
static __noinline int flow_publish(struct flow_control *c, __u64 hash, __u32 number)
{
	for (__u32 probe = 0; probe < FLOW_PROBES; probe++) {
		struct flow_bucket *b = flow_bucket(c, hash, probe);

		if (!b)
			return 0;
		if (flow_put(b, hash, number))
			return 1;
		__sync_fetch_and_add(&b->passed, 1); // before the header lies further on: a reader must not stop here
	}
	flow_pass(c, hash, FLOW_PROBES, -1);
	return 0;
}

// flow_withdraw takes a number out. 0: it is not there, or not any more.
static __noinline int flow_withdraw(struct flow_control *c, __u64 hash, __u32 number)
{
	for (__u32 probe = 0; probe < FLOW_PROBES; probe++) {
		struct flow_bucket *b = flow_bucket(c, hash, probe);

		if (!b)
			return 0;
		if (flow_drop(b, number)) {
			flow_pass(c, hash, probe, -1);
			return 1;
		}
	}
	return 0;
}

// flow_hash out of line: making a flow takes six of them, and too much stack when each has its own place.
static __noinline __u64 flow_hash_of(const struct flow_control *c, const struct flow_key *key)
{
	return flow_hash(&c->secret, key);
}

// What a flow had counted when it ended, for user space. A packet that had found the flow
// before may count itself a moment later; so user space looks at the sides once more.
struct flow_ended_record {
	struct flow_key key; // of direction 0
	__u64 packets[2];
	__u64 bytes[2];
	__u64 ns;            // when, monotonic
	__u32 number;        // of the side of direction 0
	__u32 version;       // of the sides, while the flow was complete
};

// The loader sets the size (flow.Size).
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} flow_ended SEC(".maps");

// Bytes that may wait in flow_ended before user space is woken, a power of two; until then it reads when
// it has a reason to. 0: nobody listens, and a flow that ends costs nothing.
const volatile __u32 flow_wake_bytes = 0;

// User space is woken by what comes within so many bytes of each multiple of flow_wake_bytes: once would
// do, but two CPUs may step over the same byte.
#define FLOW_WAKE_WINDOW 1024

// flow_tell hands what a flow has counted to user space. A flow that repeated nothing has nothing to tell.
static __noinline int flow_tell(const struct flow_side *s0, const struct flow_side *s1, __u32 number)
{
	struct flow_ended_record *t;
	__u64 waiting;

	if (!FLOW_PACKETS(s0->packets | s1->packets))
		return 0;
	t = bpf_ringbuf_reserve(&flow_ended, sizeof(*t), 0);
	if (!t) {
		FLOW_COUNT(lost_ring);
		return 0;
	}
	t->key.src[0] = s0->key.src[0];
	t->key.src[1] = s0->key.src[1];
	t->key.dst[0] = s0->key.dst[0];
	t->key.dst[1] = s0->key.dst[1];
	t->key.rest = s0->key.rest;
	t->packets[0] = FLOW_PACKETS(s0->packets);
	t->packets[1] = FLOW_PACKETS(s1->packets);
	t->bytes[0] = s0->bytes;
	t->bytes[1] = s1->bytes;
	t->ns = bpf_ktime_get_ns();
	t->number = number;
	t->version = s0->version;
	waiting = bpf_ringbuf_query(&flow_ended, BPF_RB_AVAIL_DATA);
	bpf_ringbuf_submit(t, waiting >= flow_wake_bytes && (waiting & (flow_wake_bytes - 1)) < FLOW_WAKE_WINDOW ?
				      BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return 1;
}

// flow_end frees a flow whose number of direction 0 is taken out, by whoever took it out.
static __always_inline void flow_end(struct flow_control *c, struct flow_side *s0, struct flow_side *s1, __u32 number)
{
	__u64 hash = flow_hash_of(c, &s1->key);

	flow_withdraw(c, hash, number | 1);
	if (flow_wake_bytes)
		flow_tell(s0, s1, number);
	s0->version++;
	s1->version++;
	flow_count_source(flow_source_hash(&c->secret, &s0->key), -1);
	flow_give(c, number >> 1);
}

// flow_remove deletes the flow of a side. 0: somebody else has. A global function: the verifier reads it
// once, not once for each that calls it.
__attribute__((weak)) __noinline int flow_remove(__u32 number)
{
	struct flow_control *c = flow_controls();

	number &= ~1U;

	struct flow_side *s0 = flow_side(number), *s1 = flow_side(number | 1);

	if (!c || !s0 || !s1)
		return 0;

	__u64 hash = flow_hash_of(c, &s0->key);

	if (!flow_withdraw(c, hash, number))
		return 0;
	flow_end(c, s0, s1, number);
	return 1;
}

// flow_delete ends a packet's flow (FIN, RST): the kernel sees the packet and what follows it.
// Should the packet be forged, the kernel says so, and the next packet makes the flow anew.
static __always_inline void flow_delete(const struct flow_hit *hit)
{
	if (flow_remove(hit->number))
		FLOW_COUNT(active);
}

// flow_clear deletes a flow that stands where another is to be made.
static __always_inline void flow_clear(struct flow_control *c, const struct flow_key *key)
{
	struct flow_hit other;

	if (flow_find(c, key, &other) && flow_remove(other.number))
		FLOW_COUNT(replaced);
}

// flow_alone is 0 when another flow has the key of this side too.
static __noinline int flow_alone(struct flow_control *c, const struct flow_side *side, __u32 number)
{
	__u64 hash = flow_hash_of(c, &side->key);

	for (__u32 probe = 0; probe < FLOW_PROBES; probe++) {
		struct flow_bucket *b = flow_bucket(c, hash, probe);

		if (!b)
			return 1;

		__u64 places = flow_places(b, hash);

		for (int i = 0; i < FLOW_PLACES && places; i++) {
			__u32 other = flow_number(b, places);
			struct flow_side *s = flow_side(other);

			if (s && other != number && other && flow_same(&s->key, &side->key))
				return 0;
			places &= places - 1;
		}
	}
	return 1;
}

// What flow_insert makes a flow of.
struct flow_new {
	struct flow_key original; // of packets of who opened the connection, as they come in
	struct flow_key reply;    // of packets of the other, as they come in
	__u16 now;                // flow_now
	__u8 flags;               // FLOW_
	__u8 reserved;
	__u16 egress;             // FLOW_EGRESS
};

static __noinline int flow_write(struct flow_side *s, const struct flow_new *n, __u32 reply, __u16 generation)
{
	const struct flow_key *key = reply ? &n->reply : &n->original;

	s->key.src[0] = key->src[0];
	s->key.src[1] = key->src[1];
	s->key.dst[0] = key->dst[0];
	s->key.dst[1] = key->dst[1];
	s->key.rest = key->rest;
	s->packets = reply ? 0 : (__u64)n->egress << FLOW_EGRESS_SHIFT;
	s->bytes = 0;
	s->seen = n->now;
	s->generation = generation;
	s->flags = n->flags;
	s->mark = 0;
	asm volatile("" ::: "memory");
	s->version++;
	return 0;
}

enum flow_outcome {
	FLOW_MADE,
	FLOW_REFUSED_FULL,
	FLOW_REFUSED_UNFAIR,
	FLOW_REFUSED_CROWDED,
	FLOW_REFUSED_RACED,
	FLOW_REFUSED_BROKEN, // the maps do not fit together
};

// flow_fill writes a flow that nobody else has, and puts its headers in: the replies' first, because
// the number of direction 0 is what owns the flow.
static __noinline int flow_fill(struct flow_control *c, const struct flow_new *n, __u32 number)
{
	struct flow_side *s0 = flow_side(number), *s1 = flow_side(number | 1);

	if (!s0 || !s1)
		return FLOW_REFUSED_BROKEN;

	__u64 hash0 = flow_hash_of(c, &n->original), hash1 = flow_hash_of(c, &n->reply);

	flow_write(s0, n, 0, c->generation);
	flow_write(s1, n, 1, c->generation);
	if (!flow_publish(c, hash1, number | 1))
		goto none;
	if (!flow_publish(c, hash0, number)) {
		flow_withdraw(c, hash1, number | 1);
		goto none;
	}
	return FLOW_MADE;
none:
	s0->version++;
	s1->version++;
	flow_give(c, number >> 1);
	return FLOW_REFUSED_CROWDED;
}

// flow_insert makes a flow. Another flow with either key goes.
static __noinline __attribute__((unused)) enum flow_outcome flow_insert(const struct flow_new *n)
{
	struct flow_control *c = flow_controls();

	if (!c)
		return FLOW_REFUSED_BROKEN;

	__u64 source = flow_source_hash(&c->secret, &n->original);

	flow_clear(c, &n->original);
	flow_clear(c, &n->reply);
	if (!flow_fair(c, source)) {
		FLOW_COUNT(unfair);
		return FLOW_REFUSED_UNFAIR;
	}

	__u32 number = flow_take(c) << 1;

	if (!number) {
		FLOW_COUNT(full);
		return FLOW_REFUSED_FULL;
	}

	enum flow_outcome outcome = flow_fill(c, n, number);

	if (outcome != FLOW_MADE) {
		FLOW_COUNT(crowded);
		return outcome;
	}
	flow_count_source(source, 1);

	struct flow_side *s0 = flow_side(number), *s1 = flow_side(number | 1);

	// Two CPUs that make the same flow at once both see the other's here, if not only one does.
	if (s0 && s1 && (!flow_alone(c, s0, number) || !flow_alone(c, s1, number | 1))) {
		flow_remove(number);
		FLOW_COUNT(raced);
		return FLOW_REFUSED_RACED;
	}
	FLOW_COUNT(inserts);
	return FLOW_MADE;
}

#endif
