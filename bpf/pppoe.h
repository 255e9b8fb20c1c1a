// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// PPPoE sessions (RFC 2516): IP packets of a session are routed as if they had come in by the
// interface of the session, and leave with its header in front. The kernel has all else: discovery,
// LCP, authentication, IPCP, and frames that are not exactly an IP packet in a session.
//
// The daemon writes which session lies on an interface (internal/subsystem/fastpath/pppoe.go).
// Output needs the number of the session only: the rest stands in the adjacency as for any neighbour.
#ifndef MINNE_PPPOE_H
#define MINNE_PPPOE_H

#include <bpf/bpf_endian.h>

#include "maps.h"

// Set before loading where a session has the fast path: without one, the verifier drops all of this.
const volatile __u32 pppoe_build = 0;

#define ETHERTYPE_SESSION 0x8864
#define PPPOE_FIRST 0x1100   // version 1, type 1, code 0: a packet of a session (RFC 2516 section 4)
#define PPP_IPV4 0x0021      // RFC 1332 section 2
#define PPP_IPV6 0x0057      // RFC 5072 section 2

// What stands between the Ethernet header, or the last tag, and the IP packet.
struct pppoe {
	__be16 first;    // version, type, code
	__be16 session;
	__be16 length;   // of what follows, the protocol included
	__be16 protocol; // of PPP
};

// The session on an interface (a port, or a VLAN on one), by its ifindex. Two words, mmap; zeros where there is none. While
// the second is 0 the first may change.
struct session {
	__u16 peer[3];   // MAC of the access concentrator, as in a frame
	__be16 id;
	__u32 interface; // ifindex of the session's interface
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_IFINDEX);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct session);
} sessions SEC(".maps");

// Bytes that a header of PPPoE takes.
static __always_inline __u32 pppoe_bytes(__u32 session)
{
	return pppoe_build && session ? sizeof(struct pppoe) : 0;
}

#endif
