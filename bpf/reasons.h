// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Why a packet is not forwarded by the fast path. Each reason has its own per-CPU
// counter. The numbers are mirrored into Go by bpf2go from the enum below; texts
// and hints stand in internal/subsystem/fastpath/reasons.go, where a test holds the two
// lists together. New reasons go to the end of their list.
#ifndef MINNE_REASONS_H
#define MINNE_REASONS_H

// The packet ends here: Linux would drop it as well, silently.
#define DROP_REASONS(X)                                                                       \
	X(TRUNCATED)      /* the frame ends inside the IP header */                           \
	X(BAD_VERSION)    /* IP version is not what the ethertype says, or IHL < 5 */         \
	X(BAD_LENGTH)     /* the IP header tells of more bytes than arrived, or too few */    \
	X(BAD_CHECKSUM)   /* IPv4 header checksum */                                          \
	X(MARTIAN_SOURCE) /* RFC 1812 5.3.7, RFC 4291 2.7 */                                  \
	X(MARTIAN_DEST)   /* likewise a destination */                                        \
	X(SPOOFED)        /* fails the reverse path check (RFC 3704), as rp_filter would */   \
	X(BLACKHOLE)      /* the route says: discard */                                       \
	X(INTERNAL)       /* can't happen: the packet changed size under our hands */            \
	X(DENIED)         /* a rule of the firewall, or its default, denies it without a word */ \
	X(GUARD)          /* would go up to the kernel, but its class is over budget (guard.h) */ \
	X(RECOGNISED)     /* of a flow that patterns recognised, and over its limit (match.h) */

// The packet goes up to the kernel, untouched.
#define PUNT_REASONS(X)                                                                       \
	X(NOT_READY)         /* the tables are still being filled */                          \
	X(TABLE_FULL)        /* the family's table did not fit: all of it is the kernel's */  \
	X(POLICY_RULES)      /* policy routing (ip rule) decides */                           \
	X(UNKNOWN_INTERFACE) /* port or VLAN tags that are not ours, or not on */             \
	X(FORWARDING_OFF)    /* forwarding of this family is off on the ingress interface */  \
	X(GROUP_MAC)         /* link-layer multicast or broadcast */                          \
	X(OTHER_MAC)         /* unicast frame for another station */                          \
	X(ETHERTYPE)         /* neither IPv4 nor IPv6: ARP, LLDP, ... */                      \
	X(OPTIONS)           /* IPv4 options */                                               \
	X(FRAGMENT)          /* IPv4 fragment */                                              \
	X(HOP_BY_HOP)        /* IPv6 hop-by-hop header */                                     \
	X(EXTENSION)         /* IPv6 extension header in front of the ports of a multipath flow */ \
	X(MULTICAST)         /* destination is a group */                                     \
	X(BROADCAST)         /* limited broadcast, or broadcast address of a subnet */        \
	X(LOOPBACK)          /* 127/8, whose fate hangs on route_localnet */                  \
	X(LINK_LOCAL)        /* IPv6 link-local source or destination */                      \
	X(UNSPECIFIED)       /* IPv6 :: as source or destination */                           \
	X(TTL)               /* 0 or 1 left: the kernel tells the sender */                   \
	X(LOCAL)             /* for the router itself */                                      \
	X(OWN_SOURCE)        /* claims to come from an address of the router */               \
	X(SOURCE_CHECK)      /* source check that only the kernel can judge */                \
	X(NO_ROUTE)          /* nothing matches: the kernel tells the sender */               \
	X(UNREACHABLE)       /* route of that type: the kernel tells the sender */            \
	X(PROHIBIT)          /* route of that type: the kernel tells the sender */            \
	X(SPECIAL_ROUTE)     /* encapsulation, TOS, source-specific, throw, too many next hops */ \
	X(NO_NEIGHBOUR)      /* next hop's MAC is not known (yet) */                          \
	X(REFRESH)           /* one packet for the kernel to see that a neighbour is in use */ \
	X(EGRESS)            /* leads out of an interface that the fast path can't send on */ \
	X(TOO_BIG)           /* larger than the egress MTU: the kernel fragments or tells the sender */ \
	X(REDIRECT)          /* leaves where it came in: the kernel may send an ICMP redirect */ \
	X(HEADROOM)          /* no room in front of the packet for another VLAN tag */        \
	X(FIREWALL)          /* all of the firewall is the kernel's */                        \
	X(TRANSPORT)         /* ends inside its TCP, UDP or ICMP header, or tells a wrong length */ \
	X(ZONE)              /* an interface without zone, or a way that only the kernel judges */ \
	X(RULE)              /* a rule that counts, answers or needs more than the fast path knows */ \
	X(LOGGED)            /* one of many packets, for the kernel to log */                 \
	X(SEGMENT_SIZE)      /* a SYN whose maximum segment size the kernel lowers */         \
	X(BEGINNING)         /* begins a connection, which the kernel judges */               \
	X(CONNECTION)        /* of a connection that only conntrack can follow, now or ever */ \
	X(LEARNED)           /* its flow was learned by this packet, and is gone already */   \
	X(ENDS)              /* FIN or RST: the connection ends, or says so */                \
	X(CHECKSUM_OFFLOAD)  /* its sender has left the checksum to hardware (summed.h) */    \
	X(IPSEC)             /* IPsec policies decide (net/xfrm) */                           \
	X(FOREIGN_FILTER)    /* a packet filter that is not Minne's decides */                \
	X(TRAFFIC_CONTROL)   /* tc decides, where it comes in or where it leaves */           \
	X(KERNEL_ONLY)       /* something else of the kernel decides */                       \
	X(MULTIPATH_HASH)    /* of several next hops the kernel chooses by a hash of its own */ \
	X(NO_DAEMON)         /* nobody has kept the tables true for minutes */

#define NAME_REASON(name) REASON_##name,
enum reason {
	REASON_NONE = 0, // forwarded
	DROP_REASONS(NAME_REASON)
	REASON_LAST_DROP, // not a reason: drops are below, punts above
	PUNT_REASONS(NAME_REASON)
	REASON_COUNT, // not a reason
};
#undef NAME_REASON

#endif
