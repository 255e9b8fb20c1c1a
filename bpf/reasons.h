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
//	match  MATCHED: the kernel may well forward the packet, so patterns look at it and hold it
//	       to the limit of its label (match.h). UNMATCHED: they don't
//	text   what it means, in one clause
//	hint   what to look at when the number is high; "" when it is nothing to worry about
//
// Go has the numbers from bpf2go, and the words by way of internal/subsystem/fastpath/reasons.go.in.
#ifndef MINNE_REASONS_H
#define MINNE_REASONS_H

// The packet ends here: Linux would drop it as well, silently.
#define DROP_REASONS(X) \
	X(TRUNCATED, \
	  "the frame ends inside the IP header", "damaged frames: look at cable, optic and error counters of the port") \
	X(BAD_VERSION, /* not what the ethertype says, or IHL < 5 */ \
	  "the IP version or header length can't be", "a broken sender, or somebody probing") \
	X(BAD_LENGTH, \
	  "the IP header tells of more bytes than arrived", "a broken sender or a truncating link: compare MTUs on both ends") \
	X(BAD_CHECKSUM, \
	  "the IPv4 header checksum is wrong", "damaged frames, or a virtual port whose far end leaves checksums to hardware: turn its tx offload off") \
	X(MARTIAN_SOURCE, /* RFC 1812 5.3.7, RFC 4291 2.7 */ \
	  "the source address can't be on any wire", "spoofed or broken senders: take samples to see which") \
	X(MARTIAN_DESTINATION, \
	  "the destination address can't be on any wire", "a broken sender: take samples to see which") \
	X(SPOOFED, /* RFC 3704, as rp_filter would */ \
	  "the route to the source leads elsewhere (reverse path check)", "spoofed sources, or a network with two ways in: there anti-spoof must be loose") \
	X(BLACKHOLE, \
	  "the route says: discard", "show ip route of the destination names the blackhole") \
	X(INTERNAL, \
	  "the packet changed size under our hands", "this can't happen: please report it with minne tech-support") \
	X(DENIED, /* by a rule, or by default, without a word */ \
	  "the firewall denies it", "show firewall counts by rule; minne explain names the rule for a packet") \
	X(GUARD, /* guard.h */ \
	  "more for the kernel than its class or its sender may send", "show fast-path tells the classes") \
	X(RECOGNISED, /* match.h */ \
	  "of a flow that patterns recognised, and more than those may send", "show match counts by set")

// The packet goes up to the kernel, untouched.
#define PUNT_REASONS(X) \
	X(NOT_READY, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, UNMATCHED, \
	  "the tables are still being filled", "lasts some seconds after a start; if it stays, look at minne show log") \
	X(TABLE_FULL, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "the routing table does not fit: the kernel forwards this family", "show fast-path tells the sizes; fewer routes, or structure: auto") \
	X(POLICY_RULES, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "policy routing decides, which only the kernel knows", "ip rule shows the rules beyond the three that every system has") \
	X(UNKNOWN_INTERFACE, GUARD_KERNEL, UNMATCHED, \
	  "port or VLAN without fast path", "expected with fast-path: off; else frames carry VLAN tags that nobody configured") \
	X(FORWARDING_OFF, GUARD_MULTICAST | GUARD_LOCAL, UNMATCHED, \
	  "forwarding is off on the ingress interface", "minne status tells whether the configuration is in place") \
	X(GROUP_MAC, GUARD_MULTICAST | GUARD_LOCAL | GUARD_GROUP, UNMATCHED, \
	  "link-layer multicast or broadcast", "") \
	X(OTHER_MAC, GUARD_STRAY, UNMATCHED, \
	  "frame for another station", "promiscuous mode, or a switch that floods: is a MAC table overflowing?") \
	X(ETHERTYPE, GUARD_STRAY | GUARD_LOCAL, UNMATCHED, /* ARP, LLDP, … */ \
	  "neither IPv4 nor IPv6", "") \
	X(OPTIONS, GUARD_OPTIONS, UNMATCHED, \
	  "IPv4 options", "rare in honest traffic") \
	X(FRAGMENT, GUARD_FRAGMENT | GUARD_LOCAL, UNMATCHED, \
	  "IPv4 fragment", "a tunnel or application with too large packets: look at MTUs") \
	X(HOP_BY_HOP, GUARD_OPTIONS, UNMATCHED, \
	  "IPv6 hop-by-hop header", "rare in honest traffic, but for multicast listeners") \
	X(EXTENSION_HEADER, GUARD_OPTIONS | GUARD_HEADER, UNMATCHED, \
	  "IPv6 extension header in a flow over several next hops", "rare in honest traffic") \
	X(MULTICAST, GUARD_MULTICAST | GUARD_LOCAL | GUARD_GROUP, UNMATCHED, \
	  "the destination is a group", "") \
	X(BROADCAST, GUARD_MULTICAST | GUARD_LOCAL | GUARD_GROUP, UNMATCHED, /* limited, or of a subnet */ \
	  "the destination is a broadcast address", "") \
	X(LOOPBACK, GUARD_STRAY, UNMATCHED, /* whose fate hangs on route_localnet */ \
	  "an address of 127/8 on the wire", "a broken or hostile sender") \
	X(LINK_LOCAL, GUARD_MULTICAST | GUARD_LOCAL, UNMATCHED, \
	  "IPv6 link-local source or destination", "") \
	X(UNSPECIFIED, GUARD_MULTICAST | GUARD_LOCAL, UNMATCHED, \
	  "IPv6 :: as source or destination", "") \
	X(TTL, GUARD_TTL | GUARD_ASK, UNMATCHED, \
	  "TTL or hop limit used up: the kernel tells the sender", "traceroutes do this; many of them mean a routing loop") \
	X(LOCAL, GUARD_PROTOCOLS | GUARD_LOCAL, UNMATCHED, \
	  "for the router itself", "") \
	X(OWN_SOURCE, GUARD_STRAY, UNMATCHED, \
	  "claims to come from the router itself", "spoofed sources, or a loop outside") \
	X(SOURCE_CHECK, GUARD_STRAY | GUARD_SOURCE, MATCHED, \
	  "a source that only the kernel's check can judge", "spoofed sources, or a network with two ways in") \
	X(NO_ROUTE, GUARD_NO_ROUTE, UNMATCHED, \
	  "no route: the kernel tells the sender", "show ip route of the destination; is a default route missing?") \
	X(UNREACHABLE, GUARD_NO_ROUTE, UNMATCHED, \
	  "unreachable route: the kernel tells the sender", "show ip route of the destination names the route") \
	X(PROHIBIT, GUARD_NO_ROUTE, UNMATCHED, \
	  "prohibit route: the kernel tells the sender", "show ip route of the destination names the route") \
	X(SPECIAL_ROUTE, GUARD_KERNEL, MATCHED, /* or too many next hops */ \
	  "a route only the kernel can follow (encapsulation, TOS, source-specific, throw)", "expected for such routes") \
	X(NO_NEIGHBOUR, GUARD_NO_NEIGHBOUR, MATCHED, \
	  "the next hop's MAC is not known: the kernel asks for it", "a next hop that does not answer ARP or ND, or a scan of unused addresses") \
	X(REFRESH, GUARD_KERNEL, MATCHED, \
	  "one packet for the kernel to see that a neighbour is in use", "") \
	X(EGRESS, GUARD_KERNEL, MATCHED, \
	  "leads out of an interface without fast path", "show fast-path tells why a port has none") \
	X(TOO_BIG, GUARD_FRAGMENT, MATCHED, \
	  "larger than the egress MTU: the kernel fragments or tells the sender", "path MTU discovery does this; a steady stream means that somebody blocks ICMP") \
	X(REDIRECT, GUARD_KERNEL, MATCHED, \
	  "leaves by the interface it came in", "hosts with a wrong gateway, or two routers on one network") \
	X(HEADROOM, GUARD_KERNEL, UNMATCHED, \
	  "no room in front of the packet for a VLAN tag", "the driver gives XDP too little headroom") \
	X(FIREWALL, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "the fast path can't repeat the firewall: the kernel judges everything", "show fast-path tells why") \
	X(TRANSPORT, GUARD_STRAY | GUARD_ASK, UNMATCHED, \
	  "ends inside its TCP, UDP or ICMP header, or tells a wrong length", "a broken or hostile sender: conntrack drops such packets") \
	X(ZONE, GUARD_KERNEL, MATCHED, /* or a zone pair that only the kernel judges */ \
	  "an interface without a zone", "give every interface a zone once one has one") \
	X(RULE, GUARD_KERNEL, MATCHED, \
	  "a rule that counts or answers: the kernel judges", "expected for reject and limit") \
	X(LOGGED, GUARD_KERNEL, MATCHED, \
	  "one of many packets of its rule, for the kernel to log", "") \
	X(SEGMENT_SIZE, GUARD_KERNEL, MATCHED, \
	  "a SYN whose segment size the kernel lowers (MSS clamp)", "") \
	X(BEGINNING, GUARD_BEGINNING | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "begins a connection: the kernel judges it and remembers it", "many of them are a scan, a flood, or hosts with very many connections: show flows") \
	X(CONNECTION, GUARD_KERNEL | GUARD_KNOWN | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "of a connection that the kernel carries: not established yet, ending, or of a kind that only conntrack can follow", "show flows tells which connections the fast path carries") \
	X(LEARNED, GUARD_KERNEL, MATCHED, \
	  "its connection was learned from conntrack by this packet, and ended in the same moment", "") \
	X(ENDS, GUARD_KERNEL, MATCHED, \
	  "FIN or RST: the connection ends, and conntrack must see it", "") \
	X(CHECKSUM_OFFLOAD, GUARD_KERNEL, UNMATCHED, /* summed.h */ \
	  "its sender has left the checksum to hardware, which a virtual port does not have", "slow, but right: on the far end of the veth, ethtool -K FAR tx off") \
	X(IPSEC, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, MATCHED, /* net/xfrm */ \
	  "IPsec policies decide, which only the kernel follows", "show fast-path names them; ip xfrm policy shows them") \
	X(FOREIGN_FILTER, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "a packet filter that is not Minne's decides", "show fast-path names its chains: put its rules into the configuration, or remove it") \
	X(TRAFFIC_CONTROL, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "traffic control (tc) of an interface decides", "show fast-path names it; tc qdisc and tc filter show it") \
	X(KERNEL_ONLY, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, MATCHED, \
	  "something else of the kernel decides, which the fast path can't repeat", "show fast-path names it") \
	X(MULTIPATH_HASH, GUARD_KERNEL, MATCHED, \
	  "several next hops, among which the kernel chooses by a hash that the fast path can't repeat", "show fast-path names the setting") \
	X(NO_DAEMON, GUARD_KERNEL | GUARD_ASK | GUARD_MAYBE, UNMATCHED, \
	  "no daemon has kept the tables true for three minutes: the kernel forwards", "start it: systemctl start minne; if it runs, minne status says which part does not answer")

#ifndef REASONS_WORDS // which reasons.go.in alone is after
#define NAME_DROP(name, text, hint) REASON_##name,
#define NAME_PUNT(name, guard, match, text, hint) REASON_##name,
enum reason {
	REASON_NONE = 0, // forwarded
	DROP_REASONS(NAME_DROP)
	REASON_LAST_DROP, // not a reason: drops are below, punts above
	PUNT_REASONS(NAME_PUNT)
	REASON_COUNT, // not a reason
};
#endif

#endif
