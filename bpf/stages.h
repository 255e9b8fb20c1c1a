// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The stages of a packet's journey, in their order, and how the tracing build
// writes down what each said.
//
// A new stage is a line in STAGES, a PASS() where it belongs in router.bpf.c, and
// its words in internal/subsystem/fastpath/stages.go, where a test holds the lists together.
#ifndef MINNE_STAGES_H
#define MINNE_STAGES_H

#include "maps.h"

// Each stage returns REASON_NONE to go on, or the reason to end the journey.
#define PASS(stage, call)                          \
	do {                                       \
		enum reason why_ = (call);         \
		told(STAGE_##stage, why_);         \
		if (why_ != REASON_NONE)           \
			return why_;               \
	} while (0)

static __always_inline void told(enum stage stage, enum reason why)
{
	__u32 zero = 0;

	if (!trace_build)
		return;
	struct trace *t = bpf_map_lookup_elem(&trace, &zero);
	if (!t)
		return;
	t->last = stage;
	t->told[stage] = why + 1;
}

#endif
