/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Keys that are addresses: from network byte order, in place, to what lookups take: a number for IPv4, two halves for IPv6.
 */
#ifndef MINNE_PROCBENCH_ADDRESSES_H
#define MINNE_PROCBENCH_ADDRESSES_H

#include "procbench.h"

#include "algo/lpm.h"

#include <string.h>

static inline const char *addresses_fit(algo_u32 family, const struct set *s)
{
	if (s->key != (family == 4 ? 4U : 16U))
		return family == 4 ? "its keys are not of 4 bytes, the table is of IPv4" : "its keys are not of 16 bytes, the table is of IPv6";
	return 0;
}

static inline algo_u32 addresses_number(const unsigned char *b)
{
	return (algo_u32)b[0] << 24 | (algo_u32)b[1] << 16 | (algo_u32)b[2] << 8 | b[3];
}

static inline void addresses_prepare(algo_u32 family, struct set *s)
{
	unsigned char *b = s->data;

	for (size_t i = 0; i < s->count; i++, b += s->stride) {
		algo_u32 four = addresses_number(b);
		struct algo_address6 a;

		if (family == 4) {
			memcpy(b, &four, 4);
			continue;
		}
		a.hi = (algo_u64)four << 32 | addresses_number(b + 4);
		a.lo = (algo_u64)addresses_number(b + 8) << 32 | addresses_number(b + 12);
		memcpy(b, &a, sizeof(a));
	}
}

#endif
