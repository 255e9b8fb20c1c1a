// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The stages of a packet's journey, in their order, and how the tracing build
// writes down what each said.
//
// A new stage is a line in STAGES, a PASS() where it belongs in router.bpf.c, and what it has
// to say in internal/subsystem/fastpath/stages.go, where a test holds the lists together.
#ifndef MINNE_STAGES_H
#define MINNE_STAGES_H

#include "maps.h"

// The tracing build of the program has it set before loading. It counts nothing and
// writes down what it decided instead, so that asking the program leaves no mark.
const volatile __u32 trace_build = 0;

// The stages of a packet's journey, in their order.
#define STAGES(X)                                                                       \
	X(ARRIVAL)     /* Ethernet, VLAN tags, logical interface, destination MAC */    \
	X(FAMILY)      /* is the family forwarded here at all, as things are? */        \
	X(SANITY)      /* is it an IP packet? */                                        \
	X(ORDINARY)    /* nothing that only the kernel can handle */                    \
	X(TRANSPORT)   /* for the firewall: protocol and ports */                       \
	X(CONNECTION)  /* is it of a connection that is known? */                       \
	X(ROUTE)       /* the destination's next hop */                                 \
	X(SOURCE)      /* does the source belong where the packet came from? */         \
	X(NEXT_HOP)    /* the next hop's (of several, the flow's) adjacency */          \
	X(SIZE)        /* egress MTU, and not back where it came from */                \
	X(FIREWALL)    /* what the firewall says of the pair of zones */                \
	X(CHECKSUM)    /* is its checksum computed? */                                  \
	X(FRESH)       /* does the kernel want to see a packet to this neighbour? */    \
	X(LABEL)       /* is it more than flows with its label may send? */             \
	X(REWRITE)     /* room for the tags to push */

#define NAME_STAGE(name) STAGE_##name,
enum stage {
	STAGES(NAME_STAGE)
	STAGE_COUNT, // not a stage
};
#undef NAME_STAGE

// What the tracing build of the program saw. One entry, mmap; written by one test
// run at a time and never by packets from the wire.
struct trace {
	enum reason reason;
	__u32 interface; // ingress, logical
	__u32 nexthop;   // index from the FIB
	__u32 adjacency;
	__u32 egress;    // logical interface, 0 when not forwarded
	__u32 port;      // port to transmit on
	__u32 flow;      // of the flow table: number of the side, 0 for none
	__u32 verdict;   // of the classifier, 0 when it was not asked
	__u32 zones;     // ingress << 8 | egress
	__u32 label;     // that patterns gave the flow, 0 for none
	enum stage last; // stage that was reached
	__u32 noted[STAGE_COUNT]; // 0 for a stage that was not reached, else its reason + 1
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct trace);
} trace SEC(".maps");

// What returns REASON_NONE lets the packet go on; any other reason ends the journey.
#define TRY(call)                             \
	do {                                  \
		enum reason why_ = (call);    \
		if (why_ != REASON_NONE)      \
			return why_;          \
	} while (0)

// A stage is a step that is told of.
#define PASS(stage, call)                     \
	do {                                  \
		enum reason said_ = (call);   \
		note(STAGE_##stage, said_);   \
		TRY(said_);                   \
	} while (0)

static __always_inline void note(enum stage stage, enum reason why)
{
	__u32 zero = 0;

	if (!trace_build)
		return;
	struct trace *t = bpf_map_lookup_elem(&trace, &zero);
	if (!t)
		return;
	t->last = stage;
	t->noted[stage] = why + 1;
}

#endif
