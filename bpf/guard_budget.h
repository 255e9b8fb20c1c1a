// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Budgets for what goes up to the kernel: how much of each class of packets, and how
// much of it from one source. guard.h says which class a packet is of.
//
// A budget is one word: the time at which all that it has let through is paid for, at
// `interval` ns a packet. A packet passes while that time is not further ahead than
// `burst`. Time pays back by itself: nothing is refilled, nothing runs when nothing
// comes (the generic cell rate algorithm, ITU-T I.371). A packet that does not pass
// writes nothing, so a flood on many CPUs costs each of them a read of a line that they
// share; only what passes moves that line, and that is as little as the budget says.
//
// Interfaces share a class: each has its part for itself, and what one leaves the others may
// use. A packet passes when its interface is within its part, or else when the class as a whole
// has something left; either way the class pays for it. So one interface alone has all of the
// class, a flood on one leaves every other its part, and together they have what the class has.
//
// The sources of all classes share a sketch of the same words: each has one in each of
// two rows, chosen by a keyed hash (of the interface, too: who forges a source on another cable
// does not use up its share), and the lesser of the two is the better estimate. Only what
// passes is written there. So a flood with a million forged sources puts no more into
// the sketch than its class may pass, and cuts off nobody else; and one source that
// floods is stopped by its own words before it uses up the class.
#ifndef MINNE_GUARD_BUDGET_H
#define MINNE_GUARD_BUDGET_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "flow_hash.h"

// The classes, in the order of internal/subsystem/fastpath/guard, which has their words and limits.
#define GUARD_CLASSES(X)                                                                      \
	X(KERNEL)       /* what the kernel forwards, as things are configured */              \
	X(SESSION)      /* connections of the router itself that a socket holds */            \
	X(BGP)          /* of configured peers: what opens a session */                       \
	X(ROUTING)      /* OSPF, BFD, VRRP, PIM of known neighbours */                        \
	X(ROUTING_NEW)  /* the same from anybody else */                                      \
	X(NEIGHBOUR)    /* ARP and neighbour discovery of known neighbours */                 \
	X(ARP)          /* the same from anybody else, for the router */                      \
	X(ARP_OTHERS)   /* ARP for other stations */                                          \
	X(LINK)         /* LLDP, LACP, spanning tree, IS-IS, EAPOL, PPPoE discovery */        \
	X(DHCP)                                                                               \
	X(TCP)          /* to the router, of no connection: SYN, strays */                    \
	X(UDP)          /* to a port of the router that is open */                            \
	X(UDP_CLOSED)   /* to one that is not: the kernel answers by ICMP */                  \
	X(ICMP)         /* to the router */                                                   \
	X(PROTOCOLS)    /* other protocols to the router: tunnels */                          \
	X(TTL)          /* used up: the kernel answers */                                     \
	X(NO_ROUTE)     /* no route, unreachable, prohibited: the kernel answers */           \
	X(NO_NEIGHBOUR) /* the kernel asks for the next hop's MAC */                          \
	X(FRAGMENT)     /* fragments, and what the kernel has to fragment */                  \
	X(BEGINNING)    /* begins a connection through the router */                          \
	X(OPTIONS)      /* IPv4 options, IPv6 extension headers */                            \
	X(MULTICAST)    /* multicast and broadcast that is none of the above */               \
	X(STRAY)        /* for other stations, unknown ethertypes, odd addresses */

#define NAME_CLASS(name) GUARD_##name,
enum guard_class {
	GUARD_CLASSES(NAME_CLASS)
	GUARD_CLASS_COUNT, // not a class
};
#undef NAME_CLASS

#ifndef MMAPABLE
#define MMAPABLE 1024U // BPF_F_MMAPABLE
#endif

// The clock, ns: that of the last tick of the kernel, since burst is far longer.
#ifndef GUARD_NOW
#define GUARD_NOW() bpf_ktime_get_coarse_ns()
#endif

// What holds for all classes. One entry, mmap, written by the daemon. Host byte order.
struct guard_control {
	struct flow_secret secret;
	__u32 on; // 0: everything goes up, and none of it is counted
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct guard_control);
} guard_control SEC(".maps");

// A class. mmap: the daemon writes all words but paid, each by one store, which the program writes. An
// interval of 0 is no limit. Where a share is for times of need only, a source may have all that others leave.
struct guard_budget {
	__u64 interval;        // ns a packet
	__u64 burst;           // ns
	__u64 source_interval; // likewise for one source
	__u64 source_burst;
	__u64 paid;            // ns, monotonic: when all that passed is paid for
	__u64 need;            // ns: shares hold while paid is further ahead than this; 0 for always
	__u64 port_interval;   // what one interface has for itself; with interval 0 that is not looked at
	__u64 port_burst;      // a cache line each
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GUARD_CLASS_COUNT);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct guard_budget);
} guard_budgets SEC(".maps");

// When what an interface sent of a class is paid for, ns, monotonic: rows of classes, a row for each interface,
// by its ifindex. Two that are this far apart share one.
#define GUARD_PORTS 1024 // a power of two

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GUARD_PORTS * GUARD_CLASS_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} guard_ports SEC(".maps");

#define GUARD_ROW 4096 // a power of two

// When what a source has sent is paid for, ns, monotonic.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * GUARD_ROW);
	__type(key, __u32);
	__type(value, __u64);
} guard_sources SEC(".maps");

// What became of the packets of a class. Each CPU counts for itself.
enum guard_outcome {
	GUARD_PASSED,
	GUARD_OVER_SOURCE, // dropped: its source has used up its share
	GUARD_OVER_CLASS,  // dropped: the class has
	GUARD_OUTCOMES,    // not an outcome
};

struct guard_tally {
	__u64 packets[GUARD_OUTCOMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, GUARD_CLASS_COUNT);
	__type(key, enum guard_class);
	__type(value, struct guard_tally);
} guard_counts SEC(".maps");

static __always_inline __u64 guard_hash(__u64 what, __u64 source)
{
	__u32 zero = 0;
	struct guard_control *g = bpf_map_lookup_elem(&guard_control, &zero);

	return g ? flow_spread(flow_nh(source, what, g->secret.half), &g->secret) : 0;
}

// One word of the sketch.
static __always_inline __u64 *guard_word(__u64 hash, int row)
{
	__u32 at = row ? (hash >> 32 & (GUARD_ROW - 1)) + GUARD_ROW : hash & (GUARD_ROW - 1);

	return bpf_map_lookup_elem(&guard_sources, &at);
}

// Whether what is paid for by then may be `burst` ahead of now.
static __always_inline int guard_over(__u64 paid, __u64 now, __u64 burst)
{
	return (__s64)(paid - now) > (__s64)burst;
}

static __always_inline __u64 guard_later(__u64 a, __u64 b) { return (__s64)(a - b) > 0 ? a : b; }

static __always_inline void guard_raise(__u64 *word, __u64 to)
{
	if ((__s64)(to - *word) > 0)
		*(volatile __u64 *)word = to;
}

// guard_pay charges a packet to one of the words.
static __always_inline void guard_pay(__u64 *word, __u64 now, __u64 each)
{
	__u64 paid = *(volatile __u64 *)word;

	if ((__s64)(now - paid) > 0) // nothing is saved up beyond the burst
		__sync_val_compare_and_swap(word, paid, now);
	__sync_fetch_and_add(word, each);
}

// guard_spend takes a packet of a source, that came in by an interface, out of a class's budget, if all of them have
// something left. A trusted source has a budget of its own, without end. Two CPUs at once may let one packet more
// through, or charge a source once for two.
//
// A global function: the verifier reads it once, and not for each way that leads to a class.
__attribute__((weak)) __noinline enum guard_outcome guard_spend(__u32 class, __u32 interface, __u64 source, __u32 trusted)
{
	struct guard_budget *b = bpf_map_lookup_elem(&guard_budgets, &class);
	__u32 row = (interface & (GUARD_PORTS - 1)) * GUARD_CLASS_COUNT + class;
	__u64 now, all, paid, each, *port, *first = 0, *second = 0;
	int full, within;

	if (!b || trusted || !(b->interval | b->source_interval))
		return GUARD_PASSED;
	port = bpf_map_lookup_elem(&guard_ports, &row);
	if (!port)
		return GUARD_PASSED;
	if (b->source_interval) {
		__u64 hash = guard_hash((__u64)interface << 32 | class, source);

		first = guard_word(hash, 0);
		second = guard_word(hash, 1);
	}
	now = GUARD_NOW();
	all = *(volatile __u64 *)&b->paid;
	full = b->interval && guard_over(all, now, b->burst);
	within = !guard_over(*(volatile __u64 *)port, now, b->port_burst);
	if (first && second) {
		paid = *(volatile __u64 *)first;
		if ((__s64)(*(volatile __u64 *)second - paid) < 0)
			paid = *(volatile __u64 *)second;
		if (guard_over(paid, now, b->source_burst)) {
			if (!b->need || (guard_over(all, now, b->need) && guard_over(*(volatile __u64 *)port, now, b->port_burst / 2)))
				return GUARD_OVER_SOURCE;
			paid = now + b->source_burst; // what it took of the others' is forgiven
		}
		if (full && !within)
			return GUARD_OVER_CLASS;
		each = *(volatile __u64 *)&b->source_interval;
		guard_raise(first, guard_later(paid, now) + each);
		guard_raise(second, guard_later(paid, now) + each);
	} else if (full && !within) {
		return GUARD_OVER_CLASS;
	}
	if (b->interval) {
		if (within)
			guard_pay(port, now, b->port_interval);
		// What passes because its interface is within its part may make debts, but no more than another burst:
		// they are paid by what the others may have beyond their parts.
		if (!guard_over(all, now, 2 * b->burst))
			guard_pay(&b->paid, now, b->interval);
	}
	return GUARD_PASSED;
}

static __always_inline void guard_count(__u32 class, enum guard_outcome outcome)
{
	struct guard_tally *t = bpf_map_lookup_elem(&guard_counts, &class);

	if (t && outcome < GUARD_OUTCOMES)
		t->packets[outcome]++;
}

#endif
