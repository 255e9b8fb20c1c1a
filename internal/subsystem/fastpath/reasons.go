// SPDX-License-Identifier: Apache-2.0

package fastpath

import "fmt"

// Reason is why a packet was not forwarded by the fast path; the numbers are those of bpf/reasons.h.
type Reason uint32

// Forwarded is the reason of a packet that went its way.
const Forwarded = Reason(routerReasonREASON_NONE)

// reasonText is what an operator is told of a reason.
type reasonText struct {
	name string
	text string
	hint string // what to look at when the number is high; "" when it is nothing to worry about
}

var reasonTexts = map[Reason]reasonText{
	Forwarded: {"forwarded", "forwarded by the fast path", ""},

	Reason(routerReasonREASON_TRUNCATED):      {"truncated", "the frame ends inside the IP header", "damaged frames: look at cable, optic and error counters of the port"},
	Reason(routerReasonREASON_BAD_VERSION):    {"bad-version", "the IP version or header length can't be", "a broken sender, or somebody probing"},
	Reason(routerReasonREASON_BAD_LENGTH):     {"bad-length", "the IP header tells of more bytes than arrived", "a broken sender or a truncating link: compare MTUs on both ends"},
	Reason(routerReasonREASON_BAD_CHECKSUM):   {"bad-checksum", "the IPv4 header checksum is wrong", "damaged frames, or a virtual port whose far end leaves checksums to hardware: turn its tx offload off"},
	Reason(routerReasonREASON_MARTIAN_SOURCE): {"martian-source", "the source address can't be on any wire", "spoofed or broken senders: take samples to see which"},
	Reason(routerReasonREASON_MARTIAN_DEST):   {"martian-destination", "the destination address can't be on any wire", "a broken sender: take samples to see which"},
	Reason(routerReasonREASON_SPOOFED):        {"spoofed", "the route to the source leads elsewhere (reverse path check)", "spoofed sources, or a network with two ways in: there anti-spoof must be loose"},
	Reason(routerReasonREASON_BLACKHOLE):      {"blackhole", "the route says: discard", "show ip route of the destination names the blackhole"},
	Reason(routerReasonREASON_INTERNAL):       {"internal", "the packet changed size under our hands", "this can't happen: please report it with minne tech-support"},
	Reason(routerReasonREASON_DENIED):         {"denied", "the firewall denies it", "show firewall counts by rule; minne explain names the rule for a packet"},
	Reason(routerReasonREASON_GUARD):          {"guard", "more for the kernel than its class or its sender may send", "show fast-path tells the classes"},
	Reason(routerReasonREASON_RECOGNISED):     {"recognised", "of a flow that patterns recognised, and more than those may send", "show match counts by set"},

	Reason(routerReasonREASON_NOT_READY):         {"not-ready", "the tables are still being filled", "lasts some seconds after a start; if it stays, look at minne show log"},
	Reason(routerReasonREASON_TABLE_FULL):        {"table-full", "the routing table does not fit: the kernel forwards this family", "show fast-path tells the sizes; fewer routes, or structure: auto"},
	Reason(routerReasonREASON_POLICY_RULES):      {"policy-rules", "policy routing decides, which only the kernel knows", "ip rule shows the rules beyond the three that every system has"},
	Reason(routerReasonREASON_UNKNOWN_INTERFACE): {"unknown-interface", "port or VLAN without fast path", "expected with fast-path: off; else frames carry VLAN tags that nobody configured"},
	Reason(routerReasonREASON_FORWARDING_OFF):    {"forwarding-off", "forwarding is off on the ingress interface", "minne status tells whether the configuration is in place"},
	Reason(routerReasonREASON_GROUP_MAC):         {"group-mac", "link-layer multicast or broadcast", ""},
	Reason(routerReasonREASON_OTHER_MAC):         {"other-mac", "frame for another station", "promiscuous mode, or a switch that floods: is a MAC table overflowing?"},
	Reason(routerReasonREASON_ETHERTYPE):         {"ethertype", "neither IPv4 nor IPv6", ""},
	Reason(routerReasonREASON_OPTIONS):           {"options", "IPv4 options", "rare in honest traffic"},
	Reason(routerReasonREASON_FRAGMENT):          {"fragment", "IPv4 fragment", "a tunnel or application with too large packets: look at MTUs"},
	Reason(routerReasonREASON_HOP_BY_HOP):        {"hop-by-hop", "IPv6 hop-by-hop header", "rare in honest traffic, but for multicast listeners"},
	Reason(routerReasonREASON_EXTENSION):         {"extension-header", "IPv6 extension header in a flow over several next hops", "rare in honest traffic"},
	Reason(routerReasonREASON_MULTICAST):         {"multicast", "the destination is a group", ""},
	Reason(routerReasonREASON_BROADCAST):         {"broadcast", "the destination is a broadcast address", ""},
	Reason(routerReasonREASON_LOOPBACK):          {"loopback", "an address of 127/8 on the wire", "a broken or hostile sender"},
	Reason(routerReasonREASON_LINK_LOCAL):        {"link-local", "IPv6 link-local source or destination", ""},
	Reason(routerReasonREASON_UNSPECIFIED):       {"unspecified", "IPv6 :: as source or destination", ""},
	Reason(routerReasonREASON_TTL):               {"ttl", "TTL or hop limit used up: the kernel tells the sender", "traceroutes do this; many of them mean a routing loop"},
	Reason(routerReasonREASON_LOCAL):             {"local", "for the router itself", ""},
	Reason(routerReasonREASON_OWN_SOURCE):        {"own-source", "claims to come from the router itself", "spoofed sources, or a loop outside"},
	Reason(routerReasonREASON_SOURCE_CHECK):      {"source-check", "a source that only the kernel's check can judge", "spoofed sources, or a network with two ways in"},
	Reason(routerReasonREASON_NO_ROUTE):          {"no-route", "no route: the kernel tells the sender", "show ip route of the destination; is a default route missing?"},
	Reason(routerReasonREASON_UNREACHABLE):       {"unreachable", "unreachable route: the kernel tells the sender", "show ip route of the destination names the route"},
	Reason(routerReasonREASON_PROHIBIT):          {"prohibit", "prohibit route: the kernel tells the sender", "show ip route of the destination names the route"},
	Reason(routerReasonREASON_SPECIAL_ROUTE):     {"special-route", "a route only the kernel can follow (encapsulation, TOS, source-specific, throw)", "expected for such routes"},
	Reason(routerReasonREASON_NO_NEIGHBOUR):      {"no-neighbour", "the next hop's MAC is not known: the kernel asks for it", "a next hop that does not answer ARP or ND, or a scan of unused addresses"},
	Reason(routerReasonREASON_REFRESH):           {"refresh", "one packet for the kernel to see that a neighbour is in use", ""},
	Reason(routerReasonREASON_EGRESS):            {"egress", "leads out of an interface without fast path", "show fast-path tells why a port has none"},
	Reason(routerReasonREASON_TOO_BIG):           {"too-big", "larger than the egress MTU: the kernel fragments or tells the sender", "path MTU discovery does this; a steady stream means that somebody blocks ICMP"},
	Reason(routerReasonREASON_REDIRECT):          {"redirect", "leaves by the interface it came in", "hosts with a wrong gateway, or two routers on one network"},
	Reason(routerReasonREASON_HEADROOM):          {"headroom", "no room in front of the packet for a VLAN tag", "the driver gives XDP too little headroom"},
	Reason(routerReasonREASON_FIREWALL):          {"firewall", "the fast path can't repeat the firewall: the kernel judges everything", "show fast-path tells why"},
	Reason(routerReasonREASON_TRANSPORT):         {"transport", "ends inside its TCP, UDP or ICMP header, or tells a wrong length", "a broken or hostile sender: conntrack drops such packets"},
	Reason(routerReasonREASON_ZONE):              {"zone", "an interface without a zone", "give every interface a zone once one has one"},
	Reason(routerReasonREASON_RULE):              {"rule", "a rule that counts or answers: the kernel judges", "expected for reject and limit"},
	Reason(routerReasonREASON_LOGGED):            {"logged", "one of many packets of its rule, for the kernel to log", ""},
	Reason(routerReasonREASON_SEGMENT_SIZE):      {"segment-size", "a SYN whose segment size the kernel lowers (MSS clamp)", ""},
	Reason(routerReasonREASON_BEGINNING):         {"beginning", "begins a connection: the kernel judges it and remembers it", "many of them are a scan, a flood, or hosts with very many connections: show flows"},
	Reason(routerReasonREASON_CONNECTION):        {"connection", "of a connection that the kernel carries: not established yet, ending, or of a kind that only conntrack can follow", "show flows tells which connections the fast path carries"},
	Reason(routerReasonREASON_LEARNED):           {"learned", "its connection was learned from conntrack by this packet, and ended in the same moment", ""},
	Reason(routerReasonREASON_IPSEC):             {"ipsec", "IPsec policies decide, which only the kernel follows", "show fast-path names them; ip xfrm policy shows them"},
	Reason(routerReasonREASON_FOREIGN_FILTER):    {"foreign-filter", "a packet filter that is not Minne's decides", "show fast-path names its chains: put its rules into the configuration, or remove it"},
	Reason(routerReasonREASON_TRAFFIC_CONTROL):   {"traffic-control", "traffic control (tc) of an interface decides", "show fast-path names it; tc qdisc and tc filter show it"},
	Reason(routerReasonREASON_KERNEL_ONLY):       {"kernel-only", "something else of the kernel decides, which the fast path can't repeat", "show fast-path names it"},
	Reason(routerReasonREASON_MULTIPATH_HASH):    {"multipath-hash", "several next hops, among which the kernel chooses by a hash that the fast path can't repeat", "show fast-path names the setting"},
	Reason(routerReasonREASON_ENDS):              {"ends", "FIN or RST: the connection ends, and conntrack must see it", ""},

	Reason(routerReasonREASON_CHECKSUM_OFFLOAD): {"checksum-offload", "its sender has left the checksum to hardware, which a virtual port does not have", "slow, but right: on the far end of the veth, ethtool -K FAR tx off"},
	Reason(routerReasonREASON_NO_DAEMON):        {"no-daemon", "no daemon has kept the tables true for three minutes: the kernel forwards", "start it: systemctl start minne; if it runs, minne status says which part does not answer"},
}

// Reasons are all reasons to drop or punt, drops first.
func Reasons() []Reason {
	var all []Reason
	for r := Forwarded + 1; r < Reason(routerReasonREASON_COUNT); r++ {
		if r != Reason(routerReasonREASON_LAST_DROP) {
			all = append(all, r)
		}
	}
	return all
}

// Drop says that packets with this reason end in the fast path; others go up to the kernel.
func (r Reason) Drop() bool {
	return r != Forwarded && r < Reason(routerReasonREASON_LAST_DROP)
}

// String is the reason's name, as show drops prints it.
func (r Reason) String() string {
	if t, ok := reasonTexts[r]; ok {
		return t.name
	}
	return fmt.Sprintf("reason-%d", uint32(r))
}

// Text says in one clause what the reason means.
func (r Reason) Text() string { return reasonTexts[r].text }

// Hint says what an operator may look at; "" when the reason is part of ordinary life.
func (r Reason) Hint() string { return reasonTexts[r].hint }
