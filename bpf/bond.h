// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Ports of a bond: the kernel puts the program of a bond on its ports, and a frame says that it came in by
// the port. Here it has come in by the bond. The daemon names the ports from which the bond takes packets;
// of the others (a backup, one on which LACP has not agreed) all goes up. Output needs nothing: the bond sends by the
// port of its own choice (bond_xdp_xmit).
#ifndef MINNE_BOND_H
#define MINNE_BOND_H

#include "maps.h"

// Set before loading where a bond has the fast path: without one, the verifier drops all of this.
const volatile __u32 bond_build = 0;

// The bond of a port, both by ifindex, mmap; 0 for what is no port of a bond in use.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_IFINDEX);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} bonds SEC(".maps");

// The port that a frame has come in by, as the other tables know it.
static __always_inline __u32 arrival_port(__u32 ifindex)
{
	__u64 *bond, now;

	if (!bond_build)
		return ifindex;
	bond = bpf_map_lookup_elem(&bonds, &ifindex);
	now = bond ? *(volatile __u64 *)bond : 0;
	return now ? now : ifindex;
}

#endif
