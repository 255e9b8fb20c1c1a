// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The routing tables of VRFs. They share one image, so that each takes as much memory as its
// routes do. At the image's beginning stands a unit for each VRF: the descriptors of its two
// roots, which are direct stages anywhere in the image (fib_range.h), and what holds for all
// packets in it. The word behind a root is the default route's next hop, as in fib.h.
//
// Where a VRF's table has no route, the kernel goes on with the next rule: that is a special route
// (VRF_NO_ROUTE). Minne's VRFs end with an unreachable default route, so it never comes to that.
#pragma once

#include "fib.h"

#define VRF_MAX 64        // tables, the first of which is main's and never here
#define VRF_ROOT_BITS 8   // of the address
#define VRF_UNIT 4        // words
#define VRF_ROOT4 0       // in the unit
#define VRF_ROOT6 1
#define VRF_ZONE 2        // of conntrack
#define VRF_NO_ROUTE 1    // the next hop that stands for special routes (internal/subsystem/fastpath/hops.go)

#define VRF_WORDS (1 << 16) // of the image; the loader sets its size

// Set before loading where a VRF has the fast path: without one, the verifier drops all of this.
const volatile __u32 vrf_build = 0;
const volatile __u32 vrf_mask = VRF_WORDS - 1; // words in the image, minus 1

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, VRF_WORDS * 4 + FIB_SLACK);
	__uint(max_entries, 1);
} vrf_image SEC(".maps");

static __always_inline const __u32 *vrf_words(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&vrf_image, &zero);
}

// The zone of conntrack that a VRF's connections are in. 0 for the main table.
static __always_inline __u32 vrf_zone(__u32 vrf)
{
	const __u32 *image;

	if (!vrf_build || !vrf)
		return 0;
	image = vrf_words();
	return image ? *(volatile const __u32 *)&image[(vrf & (VRF_MAX - 1)) * VRF_UNIT + VRF_ZONE] : 0;
}

// vrf4_lookup is fib4_lookup in the table of a VRF. It answers VRF_NO_ROUTE for what only the kernel can find.
// Its root uses fewer bits than main's, so starts may be too long for leaves of 32-bit entries.
static __always_inline __u32 vrf4_lookup(__u32 vrf, __u32 dst)
{
	const __u32 *image = vrf_words();
	__u32 mask = vrf_mask, root, desc, hop;
	__u64 key = (__u64)dst << (32 + VRF_ROOT_BITS);

	if (!image)
		return VRF_NO_ROUTE;
	root = *(volatile const __u32 *)&image[(vrf & (VRF_MAX - 1)) * VRF_UNIT + VRF_ROOT4];
	if (!root)
		return VRF_NO_ROUTE;
	desc = image[(FIB_WORD(root) + (dst >> (32 - VRF_ROOT_BITS))) & mask];
	desc = fib_stages(image, mask, desc, &key);
	if (FIB_KIND(desc) == FIB_LEAF32)
		hop = fib_leaf32(image, mask, desc, key >> 32, FIB4_HOP_BITS);
	else if (FIB_KIND(desc) == FIB_LEAF64)
		hop = fib_leaf64((const __u64 *)image, mask, desc, key);
	else
		hop = desc < FIB_ASK ? desc : FIB_ASK;
	if (!hop)
		hop = image[(FIB_WORD(root) + (1 << VRF_ROOT_BITS)) & mask];
	hop &= 0xffff; // 0 of FIB_ASK
	return hop ? hop : VRF_NO_ROUTE;
}

// vrf6_lookup is fib6_lookup in the table of a VRF.
static __always_inline __u32 vrf6_lookup(__u32 vrf, __u64 hi, __u64 lo)
{
	const __u32 *image = vrf_words();
	__u32 mask = vrf_mask, root, desc, hop;
	__u64 key = hi << VRF_ROOT_BITS;

	if (!image)
		return VRF_NO_ROUTE;
	root = *(volatile const __u32 *)&image[(vrf & (VRF_MAX - 1)) * VRF_UNIT + VRF_ROOT6];
	if (!root)
		return VRF_NO_ROUTE;
	desc = image[(FIB_WORD(root) + (__u32)(hi >> (64 - VRF_ROOT_BITS))) & mask];
	desc = fib_stages(image, mask, desc, &key);
	hop = fib6_rare(image, mask, desc, key, lo);
	if (!hop)
		hop = image[(FIB_WORD(root) + (1 << VRF_ROOT_BITS)) & mask];
	hop &= 0xffff;
	return hop ? hop : VRF_NO_ROUTE;
}
