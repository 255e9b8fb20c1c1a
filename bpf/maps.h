// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The tables of the fast path, except the FIB's own (fib.h).
//
// The daemon is the only writer of every table marked mmap: it writes through
// shared memory, while packets flow. Nothing is locked. What must change together
// lies in one aligned 64-bit word, written by one store and read by one load;
// what is larger is written to a place nobody refers to yet, and then referred to
// by one store. A place that nobody refers to any more is used again only after
// a grace period, which is far longer than a packet's journey.
//
// Integers are in host byte order, addresses and tags as they stand in a packet.
#ifndef MINNE_MAPS_H
#define MINNE_MAPS_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "reasons.h"

#define MAX_IFINDEX 65536    // interfaces with a higher index are the kernel's
#define MAX_NEXTHOPS 65536   // what 16 bits in the FIB can name
#define MAX_MEMBERS 32768    // of all multipath groups together
#define MAX_ADJACENCIES 32768
#define MAX_NEIGHBOURS 65536 // per family, on connected networks
#define MAX_VLANS 4096       // VLAN interfaces
#define MAX_SLOTS 4096       // interfaces with counters of their own, by ifindex; slot 0 is the others'
#define MAX_GROUP 64         // members of one multipath group

#define MMAPABLE 1024U       // BPF_F_MMAPABLE
#define NO_PREALLOC 1U       // BPF_F_NO_PREALLOC

// What holds for all packets. One entry, mmap.
struct control {
	__u32 off4;      // a punt reason that takes all of IPv4 to the kernel, or 0
	__u32 off6;      // likewise IPv6
	__u64 hash_key;  // both halves of the SipHash key of multipath
	__s64 samples;   // drops and punts that may still be sampled; readers refill it
	__u32 policy;    // POLICY_ (policy.h), 0 without a firewall
	__u32 firewall;  // its fingerprint, for the daemon that comes next; 0 for one that nobody knows
	__u32 timeout_tcp; // of conntrack for an established connection, ms
	__u32 timeout_udp; // and for UDP that went both ways
	__u32 multipath; // MULTIPATH_: whether only the kernel can hash flows
	__u32 ports4;    // all ones when it hashes ports and protocol of IPv4, 0 when addresses alone (ecmp.h)
	__u64 trusted;     // until when the tables are, without another sign of the daemon: jiffies; 0 for ever
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

// A logical (layer 3) interface by ifindex: a port, or a VLAN on one. Two words,
// mmap. An entry of zeros is an interface that the fast path does not know.
enum interface_flags {
	IF_KNOWN = 1,
	IF_FORWARD4 = 2,
	IF_FORWARD6 = 4,
	IF_STRICT4 = 8,    // rp_filter 1
	IF_LOOSE4 = 16,    // rp_filter 2
	IF_STRICT6 = 32,
	IF_LOOSE6 = 64,
	IF_REDIRECTS4 = 128, // the kernel sends ICMP redirects here
	IF_UNSUMMED = 256,   // senders may leave checksums to hardware that is not there (summed.h)
	IF_SESSION = 512,    // it is a session of PPPoE
};

#define IF_VRF_SHIFT 10 // above the flags: the VRF that it is in, by the number of its table in fib_vrf.h; 0 for none

struct interface {
	__u16 mac[3]; // as in a frame
	__u16 flags;  // IF_, and a VRF's number above
	__u32 slot;   // of traffic
	__u8 zone[2]; // of the firewall, one for each of its buffers; 0 for none
	__u16 off;    // a punt reason that takes all that comes in here to the kernel, without IF_FORWARD4 and 6; or 0
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_IFINDEX);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct interface);
} interfaces SEC(".maps");

// Which VLAN interface a tagged frame belongs to. Protocols as in a frame, ids in
// host order; the inner pair is zero for one tag.
struct vlan_key {
	__u32 port; // ifindex
	__be16 outer_protocol;
	__u16 outer_id;
	__be16 inner_protocol;
	__u16 inner_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_VLANS);
	__uint(map_flags, NO_PREALLOC);
	__type(key, struct vlan_key);
	__type(value, __u32); // ifindex of the VLAN interface
} vlans SEC(".maps");

// Own IPv4 addresses, and broadcast addresses: a bit per value of own_bit(). A set bit says "perhaps", the
// FIB then says for sure. mmap.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} own4 SEC(".maps");

// Next hops by the index that the FIB gives. One word each, mmap:
//
//	bits  0…7   kind: HOP_STOP, HOP_VIA, HOP_GROUP
//	bits  8…15  the reason of a stop, or the number of members of a group
//	bits 16…31  MTU of the route in bytes, 0 for none
//	bits 32…63  a via (below), or the index of a group's first member
//
// A via is VIA_ONLINK | ifindex when the packet's destination is itself the
// neighbour, else the index of an adjacency.
#define HOP_STOP 0
#define HOP_VIA 1
#define HOP_GROUP 2
#define VIA_ONLINK 0x80000000U

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_NEXTHOPS);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} nexthops SEC(".maps");

// Members of multipath groups, each group a run of entries with rising bounds.
// One word each, mmap: bits 0…31 the highest flow hash (31 bits) that the member
// takes, bits 32…63 its via. The first member that may take a hash does; the
// first of all when none may.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_MEMBERS);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} members SEC(".maps");

// How to reach a neighbour: what to write in front of the packet and where to send
// it. Eight words, mmap; only the first word, the source MAC and the MTUs ever
// change in a valid adjacency, each by one store. Entry 0 is never valid.
enum adjacency_flags {
	ADJ_VALID = 1,  // the neighbour's MAC is known and its port can transmit
	ADJ_STALE = 2,  // the kernel wants to see a packet before it trusts the MAC again
	ADJ_NO_PORT = 4, // not valid because of its port
};

#define ADJ_REASON_SHIFT 8 // above the flags: the punt reason of ADJ_NO_PORT, if it is not EGRESS

struct adjacency {
	__u16 dst[3];        // word 0: the neighbour's MAC, as in a frame
	__u16 flags;         // ADJ_
	__u16 src[3];        // word 1: own MAC
	__u16 tags;          // VLAN tags to push: 0, 1 or 2
	__u32 port;          // word 2: ifindex to transmit on
	__u32 interface;     // ifindex of the logical interface: port, or VLAN on it
	__be16 tag[4];       // word 3: outer protocol, outer TCI, inner protocol, inner TCI
	__u16 mtu4;          // word 4: largest IP packet, bytes
	__u16 mtu6;
	__u32 slot;          // of traffic
	__u64 refreshed;     // word 5: ns, monotonic: when a packet last went up because of ADJ_STALE
	__be16 session;      // word 6: of PPPoE (pppoe.h)
	__u16 in_session;    // 1 when packets leave in that session
	__u16 scatters;      // 1 when the port sends frames in several buffers (jumbo.h)
	__u16 unused;
	__u64 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ADJACENCIES);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, struct adjacency);
} adjacencies SEC(".maps");

// Neighbours on connected networks, where the destination itself names the
// adjacency. Written by the daemon with map updates.
struct neighbour4 {
	__u32 interface;
	__be32 address;
};

struct neighbour6 {
	__u32 interface;
	__be32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_NEIGHBOURS);
	__uint(map_flags, NO_PREALLOC);
	__type(key, struct neighbour4);
	__type(value, __u32); // adjacency
} neighbours4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_NEIGHBOURS);
	__uint(map_flags, NO_PREALLOC);
	__type(key, struct neighbour6);
	__type(value, __u32);
} neighbours6 SEC(".maps");

// Ports that packets may leave by, key and value the ifindex.
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, MAX_IFINDEX);
	__type(key, __u32);
	__type(value, __u32);
} ports SEC(".maps");

// Packets that ended or went up, by reason. Each CPU counts for itself.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASON_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} reasons SEC(".maps");

// Forwarded packets by interface slot. Bytes are of whole frames, without FCS.
struct traffic {
	__u64 rx_packets;
	__u64 rx_bytes;
	__u64 tx_packets;
	__u64 tx_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SLOTS);
	__type(key, __u32);
	__type(value, struct traffic);
} traffic SEC(".maps");

// Samples of dropped and punted packets, for whoever listens.
#define SAMPLE_BYTES 128

struct sample {
	__u64 time;      // ns, monotonic
	__u32 port;      // ifindex
	__u16 reason;    // enum reason
	__u16 length;    // of the frame, bytes
	__u8 frame[SAMPLE_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 128 * 1024);
} samples SEC(".maps");

#endif
