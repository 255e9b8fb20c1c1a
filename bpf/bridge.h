// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Ports of a bridge: what comes in for the bridge's own MAC is routed as if it had come in by the
// bridge interface, or by a VLAN interface on it. Everything else goes up untouched, and the
// kernel bridges it.
//
// The daemon follows the bridge (internal/subsystem/fastpath/bridges) and writes what it means
// for a frame: which logical interface an untagged frame belongs to stands in bridge_ports, that
// of a tagged frame in vlans, as for VLANs on ports. A port that may not forward (spanning tree),
// or a VLAN that it is no member of, has no such entry. Output needs nothing here: the adjacency
// has the port and the tags that the bridge's table of stations gives for the neighbour's MAC.
//
// What is routed here the bridge never sees, and it forgets a station of which it sees nothing.
// So the program knows the stations that the bridge knows, and on which port: the first frame of
// one that it does not know there goes up, for the bridge to learn, and then one in a while.
#ifndef MINNE_BRIDGE_H
#define MINNE_BRIDGE_H

#include "maps.h"

// Set before loading where a bridge has the fast path: without one, the verifier drops all of this.
const volatile __u32 bridge_build = 0;

// A port of a bridge by ifindex, one word, mmap; 0 for what is none:
//
//	bits  0…31  interface (ifindex) that untagged frames belong to; 0 for none
//	bits 32…47  VLAN of untagged frames in the bridge's table of stations
//	bits 48…63  BRIDGE_
#define BRIDGE_PORT 1    // always
#define BRIDGE_FILTERS 2 // the table of stations knows VLANs (vlan_filtering)
#define BRIDGE_LEARNS 4  // the port learns its stations

#define BRIDGE_UNTAGGED(word) ((__u32)(word))
#define BRIDGE_VLAN(word) ((__u16)((word) >> 32))
#define BRIDGE_FLAGS(word) ((__u32)((word) >> 48))

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_IFINDEX);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} bridge_ports SEC(".maps");

#define MAX_STATIONS 65536 // of all bridges together

// A station that the bridge knows on a port.
struct station {
	__u32 port;   // ifindex
	__u16 vlan;   // 0 where the bridge does not filter VLANs
	__u16 mac[3]; // as in a frame
};

// The daemon writes keys; the value is the program's: the tick in which a frame last went up.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STATIONS);
	__uint(map_flags, NO_PREALLOC);
	__type(key, struct station);
	__type(value, __u64);
} stations SEC(".maps");

// 256 of the kernel's ticks, 0.3 to 2.6 s: a bridge forgets a station after 15 s at the least
// (forward_delay while the tree changes), by default after 300.
#define STATION_TICK 8

// The word of the port that a frame came in by; 0 if it is no port of a bridge.
static __always_inline __u64 bridge_port(__u32 ifindex)
{
	__u64 *word;

	if (!bridge_build)
		return 0;
	word = bpf_map_lookup_elem(&bridge_ports, &ifindex);
	return word ? *(volatile __u64 *)word : 0;
}

// Has the bridge seen the sender on this port, and lately? One CPU wins the exchange. `tag` is the
// frame's VLAN, 0 without one; the MAC's words stand as in the frame, the first in the lowest bits. A
// global function, whose key does not lie on the caller's stack.
__attribute__((weak)) __noinline __u32 known_station(__u64 port, __u32 ifindex, __u32 tag, __u64 mac, __u32 only_look)
{
	struct station key = { .port = ifindex, .mac = { mac, mac >> 16, mac >> 32 } };
	__u64 *seen, last, now;

	if (!(BRIDGE_FLAGS(port) & BRIDGE_LEARNS))
		return REASON_NONE;
	if (BRIDGE_FLAGS(port) & BRIDGE_FILTERS)
		key.vlan = tag ? tag : BRIDGE_VLAN(port);
	seen = bpf_map_lookup_elem(&stations, &key);
	if (!seen)
		return REASON_BRIDGE_LEARNS;
	last = *(volatile __u64 *)seen;
	now = bpf_jiffies64() >> STATION_TICK;
	if (last == now)
		return REASON_NONE;
	if (only_look)
		return REASON_REFRESH;
	return __sync_val_compare_and_swap(seen, last, now) == last ? REASON_REFRESH : REASON_NONE;
}

#endif
