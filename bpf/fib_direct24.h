// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// DIR-24-8 (Gupta, Lin, McKeown 1998): 2^24 entries of 16 bits, one per /24,
// and blocks of 256 entries for those /24s that hold longer prefixes. One or
// two loads per lookup, at the price of 32 MiB, which no small router's cache
// or TLB holds.
//
// An entry is a next-hop index below 0x7fff, 0x7fff for "ask the kernel", or
// 0x8000 | block. Block 0 holds the default route's next hop in its first entry.

#pragma once

#define FIB_DIRECT24_ASK 0x7fff
#define FIB_DIRECT24_BLOCKS (1 << 24) // first entry of block 0

static __always_inline __u32 fib4_direct24_lookup(const __u16 *image, __u32 dst)
{
	__u32 entry = image[dst >> 8];

	if (entry & 0x8000)
		entry = image[FIB_DIRECT24_BLOCKS + ((entry & 0x7fff) << 8) + (dst & 0xff)];
	if (entry == FIB_DIRECT24_ASK)
		return 0;
	if (!entry)
		entry = image[FIB_DIRECT24_BLOCKS];
	return entry;
}
