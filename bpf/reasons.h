// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Why a packet is not forwarded by the fast path: all that there is to say of each reason, in
// one table. A new reason is a row at the end of its list; without all of its columns nothing
// compiles. Each has its own per-CPU counter.
//
// The columns, of a drop the first and the last two:
//
//	name   the operator reads it in lower case, with a dash for each "_"
//	guard  the budget of what goes up for it: a class (guard_budget.h) and where to look for
//	       another one (GUARD_ in guard.h). GUARD_KERNEL has no limit
//	label  LABELLED: the kernel may well forward the packet, so patterns look at it and hold it
//	       to the limit of its label (label.h). UNLABELLED: they don't
//	text   what it means, in one clause
//	hint   what to look at when the number is high; "" when it is nothing to worry about
//
// Go has the numbers from bpf2go, and the words by internal/subsystem/fastpath/reasons.go.in.
#ifndef MINNE_REASONS_H
#define MINNE_REASONS_H

// The packet ends here: Linux would drop it as well, silently.
#define DROP_REASONS(X) \
	X(TRUNCATED, \
	  "the frame ends inside the IP header", "damaged frames: check cable, optic and error counters of the port") \
	X(BAD_VERSION, /* not what the ethertype says, or IHL < 5 */ \
	  "the IP version or header length is invalid", "a faulty sender, or a scan") \
	X(BAD_LENGTH, \
	  "the IP total length is larger than the frame", "a faulty sender or a link that truncates: compare the MTU on both ends") \
	X(BAD_CHECKSUM, \
	  "the IPv4 header checksum is wrong", "damaged frames, or a virtual port whose far end has checksum offload: turn its tx offload off") \
	X(MARTIAN_SOURCE, /* RFC 1812 5.3.7, RFC 4291 2.7 */ \
	  "the source address is a martian: it must not be on any link", "spoofed or faulty senders: minne capture --reason martian-source shows them") \
	X(MARTIAN_DESTINATION, \
	  "the destination address is a martian: it must not be on any link", "a faulty sender: minne capture --reason martian-destination shows it") \
	X(SPOOFED, /* RFC 3704, as rp_filter would */ \
	  "the route back to the source uses another interface (reverse path check, uRPF)", "spoofed sources, or a network with two links: use anti-spoof: loose there") \
	X(BLACKHOLE, \
	  "the route is a blackhole (null route)", "minne show ip route DESTINATION shows the blackhole") \
	X(INTERNAL, \
	  "internal error: the packet changed its size", "please report it with minne tech-support") \
	X(DENIED, /* by a rule, or by default, without a word */ \
	  "the firewall denies it", "minne show firewall counts by rule; minne explain names the rule for a packet") \
	X(GUARD, /* guard.h */ \
	  "above the rate limit of its class or its sender for packets to the kernel (guard)", "minne show fast-path shows the classes") \
	X(LABEL_LIMIT, /* label.h */ \
	  "above the rate limit of the flow's label", "minne show labels counts by label")

// The packet goes up to the kernel, untouched.
#define PUNT_REASONS(X) \
	X(NOT_READY, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, UNLABELLED, \
	  "the tables are being filled", "takes some seconds after a start; if it stays, see minne show log") \
	X(TABLE_FULL, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "the routing table does not fit: the kernel forwards this address family", "minne show fast-path shows the sizes; use fewer routes, or structure: auto") \
	X(POLICY_RULES, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "policy routing (ip rule) decides, which only the kernel can do", "ip rule shows the rules; three of them are on every system") \
	X(UNKNOWN_INTERFACE, GUARD_KERNEL, UNLABELLED, \
	  "port or VLAN without fast path", "expected with fast-path: off; otherwise frames with VLAN tags that are not configured") \
	X(FORWARDING_OFF, GUARD_MULTICAST | GUARD_LOCAL, UNLABELLED, \
	  "forwarding is off on the ingress interface", "minne status shows whether the configuration is applied") \
	X(GROUP_MAC, GUARD_MULTICAST | GUARD_LOCAL | GUARD_GROUP, UNLABELLED, \
	  "link-layer multicast or broadcast", "") \
	X(OTHER_MAC, GUARD_STRAY, UNLABELLED, \
	  "frame for another station", "promiscuous mode, or a switch that floods: is its MAC table full?") \
	X(ETHERTYPE, GUARD_STRAY | GUARD_LOCAL, UNLABELLED, /* ARP, LLDP, … */ \
	  "neither IPv4 nor IPv6", "") \
	X(OPTIONS, GUARD_OPTIONS, UNLABELLED, \
	  "IPv4 options", "rare in normal traffic") \
	X(FRAGMENT, GUARD_FRAGMENT | GUARD_LOCAL, UNLABELLED, \
	  "IPv4 fragment", "a tunnel or application with too large packets: check the MTU") \
	X(HOP_BY_HOP, GUARD_OPTIONS, UNLABELLED, \
	  "IPv6 hop-by-hop header", "rare in normal traffic, except multicast listener reports") \
	X(EXTENSION_HEADER, GUARD_OPTIONS | GUARD_HEADER, UNLABELLED, \
	  "IPv6 extension header in a flow over several next hops", "rare in normal traffic") \
	X(MULTICAST, GUARD_MULTICAST | GUARD_LOCAL | GUARD_GROUP, UNLABELLED, \
	  "the destination is a multicast group", "") \
	X(BROADCAST, GUARD_MULTICAST | GUARD_LOCAL | GUARD_GROUP, UNLABELLED, /* limited, or of a subnet */ \
	  "the destination is a broadcast address", "") \
	X(LOOPBACK, GUARD_STRAY, UNLABELLED, /* whose fate hangs on route_localnet */ \
	  "an address of 127.0.0.0/8 on the link", "a faulty or hostile sender") \
	X(LINK_LOCAL, GUARD_MULTICAST | GUARD_LOCAL, UNLABELLED, \
	  "IPv6 link-local source or destination", "") \
	X(UNSPECIFIED, GUARD_MULTICAST | GUARD_LOCAL, UNLABELLED, \
	  "IPv6 :: as source or destination", "") \
	X(TTL, GUARD_TTL | GUARD_ASK, UNLABELLED, \
	  "TTL or hop limit expired: the kernel sends an error to the sender", "normal with traceroute; many of them mean a routing loop") \
	X(LOCAL, GUARD_PROTOCOLS | GUARD_LOCAL, UNLABELLED, \
	  "for the router itself", "") \
	X(OWN_SOURCE, GUARD_STRAY, UNLABELLED, \
	  "the source is an address of the router itself", "spoofed sources, or a loop in the network") \
	X(SOURCE_CHECK, GUARD_STRAY | GUARD_SOURCE, LABELLED, \
	  "source check that only the kernel can do", "spoofed sources, or a network with two links") \
	X(NO_ROUTE, GUARD_NO_ROUTE, UNLABELLED, \
	  "no route: the kernel sends an error to the sender", "minne show ip route DESTINATION; is a default route missing?") \
	X(UNREACHABLE, GUARD_NO_ROUTE, UNLABELLED, \
	  "unreachable route: the kernel sends an error to the sender", "minne show ip route DESTINATION shows the route") \
	X(PROHIBIT, GUARD_NO_ROUTE, UNLABELLED, \
	  "prohibit route: the kernel sends an error to the sender", "minne show ip route DESTINATION shows the route") \
	X(SPECIAL_ROUTE, GUARD_KERNEL, LABELLED, /* or too many next hops */ \
	  "a route that only the kernel can use (encapsulation, TOS, source-specific, throw)", "expected with such routes") \
	X(NO_NEIGHBOUR, GUARD_NO_NEIGHBOUR, LABELLED, \
	  "the next hop's MAC address is unknown: the kernel resolves it", "a next hop that does not answer ARP or ND, or a scan of unused addresses") \
	X(REFRESH, GUARD_KERNEL, LABELLED, \
	  "one packet to show the kernel that the neighbour is in use", "") \
	X(EGRESS, GUARD_KERNEL, LABELLED, \
	  "the egress interface has no fast path", "minne show fast-path shows why") \
	X(TOO_BIG, GUARD_FRAGMENT, LABELLED, \
	  "larger than the egress MTU: the kernel fragments it or sends an error to the sender", "normal with path MTU discovery; a steady stream means that ICMP is blocked somewhere") \
	X(REDIRECT, GUARD_KERNEL, LABELLED, \
	  "egress and ingress interface are the same", "hosts with a wrong gateway, or two routers on one network") \
	X(HEADROOM, GUARD_KERNEL, UNLABELLED, \
	  "no room in front of the packet for a VLAN tag", "the driver gives XDP too little headroom") \
	X(FIREWALL, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "the fast path cannot apply this firewall: the kernel filters all packets", "minne show fast-path shows why") \
	X(TRANSPORT, GUARD_STRAY | GUARD_ASK, UNLABELLED, \
	  "truncated TCP, UDP or ICMP header, or a wrong length in it", "a faulty or hostile sender: conntrack drops such packets") \
	X(ZONE, GUARD_KERNEL, LABELLED, /* or a zone pair that only the kernel filters */ \
	  "an interface without a zone", "when one interface has a zone, give every interface a zone") \
	X(RULE, GUARD_KERNEL, LABELLED, \
	  "a rule that only the kernel can apply (reject, limit)", "expected with reject and limit") \
	X(LOGGED, GUARD_KERNEL, LABELLED, \
	  "a packet that the kernel logs, one of many of its rule", "") \
	X(SEGMENT_SIZE, GUARD_KERNEL, LABELLED, \
	  "a SYN for MSS clamping in the kernel", "") \
	X(BEGINNING, GUARD_BEGINNING | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "first packet of a connection: the kernel filters and tracks it", "many of them are a scan, a flood, or hosts with very many connections: minne show flows") \
	X(CONNECTION, GUARD_KERNEL | GUARD_KNOWN | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "of a connection that the kernel forwards: not established yet, ending, or of a protocol that only conntrack can track", "minne show flows shows which connections are on the fast path") \
	X(LEARNED, GUARD_KERNEL, LABELLED, \
	  "its connection ended at the moment when the fast path learned it from conntrack", "") \
	X(ENDS, GUARD_KERNEL, LABELLED, \
	  "FIN or RST: conntrack must see the end of the connection", "") \
	X(CHECKSUM_OFFLOAD, GUARD_KERNEL, LABELLED, /* summed.h */ \
	  "the sender left the checksum to hardware, which a virtual port does not have", "correct but slow: on the far end of the veth, ethtool -K FAR tx off") \
	X(IPSEC, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, /* net/xfrm */ \
	  "IPsec policies decide, which only the kernel can apply", "minne show fast-path names them; ip xfrm policy shows them") \
	X(FOREIGN_FILTER, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "a packet filter that is not Minne's decides", "minne show fast-path names its chains: move its rules into the configuration, or remove it") \
	X(TRAFFIC_CONTROL, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "traffic control (tc) of an interface decides", "minne show fast-path names it; tc qdisc and tc filter show it") \
	X(KERNEL_ONLY, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "another function of the kernel decides, which the fast path cannot repeat", "minne show fast-path names it") \
	X(MULTIPATH_HASH, GUARD_KERNEL, LABELLED, \
	  "several next hops (ECMP) with a hash that only the kernel can compute", "minne show fast-path names the setting") \
	X(NO_DAEMON, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "no daemon has updated the tables for three minutes: the kernel forwards", "start it: systemctl start minne; if it runs, minne status shows which part does not answer") \
	X(BRIDGED, GUARD_KERNEL, UNLABELLED, /* bridge.h; the guard must not drop what only passes through the bridge */ \
	  "arrived on a port of a bridge and is not to be routed: the kernel bridges it", "") \
	X(BRIDGE_LEARNS, GUARD_BEGINNING, UNLABELLED, \
	  "the bridge has not seen this sender on this port yet: it learns the sender's MAC", "many of them: a loop, a station that moves, or forged MAC addresses; bridge fdb show lists what is known") \
	X(BRIDGE_FLOODS, GUARD_KERNEL, LABELLED, \
	  "the bridge does not know on which port the next hop's MAC is, or the port may not forward", "a next hop that does not send; bridge fdb show lists what is known") \
	X(VRF, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "the VRF is one that only the kernel can route by", "minne show fast-path names the reason") \
	X(SHAPED, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, LABELLED, \
	  "the line is shaped: its packets wait in the kernel's queue", "expected with shape; minne show shape has its delays and drops")

#ifndef REASONS_WORDS // for Go the table is enough
#define NAME_DROP(name, text, hint) REASON_##name,
#define NAME_PUNT(name, guard, label, text, hint) REASON_##name,
enum reason {
	REASON_NONE = 0, // forwarded
	DROP_REASONS(NAME_DROP)
	REASON_LAST_DROP, // not a reason: drops are below, punts above
	PUNT_REASONS(NAME_PUNT)
	REASON_COUNT, // not a reason
};
#endif

#endif
