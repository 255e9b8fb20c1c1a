/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A checksum of answers in their order, by which programs on different CPUs, in C, eBPF and
 * Go (internal/lab/algo/dataset), compare millions of them: two sums of 32 bits that a
 * rotation and a multiplication mix. It guards against errors, not against forgery.
 */
#ifndef MINNE_ALGO_CHECKSUM_H
#define MINNE_ALGO_CHECKSUM_H

#include "algo.h"

struct algo_checksum {
	algo_u32 a, b; /* begin as 0; %08x%08x is how it is written */
};

ALGO_INLINE void algo_checksum_add(struct algo_checksum *sum, algo_u32 answer)
{
	sum->a = ((sum->a << 5 | sum->a >> 27) ^ answer) * 0x9e3779b1U + 1;
	sum->b = ((sum->b << 11 | sum->b >> 21) + answer) * 0x85ebca77U + 1;
}

#endif
