// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// Zones, filters and address translation, as an operator writes them. What the
// rules say is read by package policy, which knows their grammar: here they are text.

// Zone is a part of the network that rules speak of: the interfaces that name it.
type Zone struct {
	Description string `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters." example:"pupils' computers"`
}

// Firewall decides what may pass between zones, and to the router itself.
type Firewall struct {
	Sets      map[string]*FirewallSet      `yaml:"sets" json:"sets,omitempty" doc:"Named sets of addresses, networks or ports. A rule uses a set as @NAME."`
	Schedules map[string]*FirewallSchedule `yaml:"schedules" json:"schedules,omitempty" doc:"Named times of the week. A rule with schedule NAME applies only during them."`
	Policies  []FirewallPolicy             `yaml:"policies" json:"policies,omitempty" doc:"Rules by zone pair. The policies of the packet's two zones are searched in this order; the first rule that matches decides." ordered:"true"`
	Defaults  FirewallDefaults             `yaml:"defaults" json:"defaults,omitzero" doc:"What happens to packets that no rule matches."`
	MSSClamp  *OnOff                       `yaml:"mss-clamp" json:"mss-clamp,omitempty" doc:"TCP MSS clamping to the path MTU: for tunnels and PPPoE where path MTU discovery fails." default:"off" enum:"on,off"`
	Helpers   []HelperName                 `yaml:"helpers" json:"helpers,omitempty" doc:"Application-layer gateways (ALG, conntrack helpers): they let related connections pass and translate them. ftp (TCP port 21), sip (port 5060), tftp (UDP port 69). Absent: none." enum:"ftp,sip,tftp"`
	ICMPLimit int                          `yaml:"icmp-limit" json:"icmp-limit,omitempty" doc:"Rate limit of the router's answers to ping, in packets a second for all senders together." default:"100" min:"1" max:"1000000"`
}

// FirewallSet is addresses, networks or ports under one name.
type FirewallSet struct {
	Addresses []netip.Addr `yaml:"addresses" json:"addresses,omitempty" doc:"Single addresses of either family." example:"192.0.2.10"`
	Prefixes  []Prefix     `yaml:"prefixes" json:"prefixes,omitempty" doc:"Networks of either family." example:"192.0.2.0/24"`
	Ports     []string     `yaml:"ports" json:"ports,omitempty" doc:"Ports, port ranges and service names. A set has either ports or addresses." example:"8000-8080"`
	File      string       `yaml:"file" json:"file,omitempty" doc:"File with one address or network on each line; # begins a comment. A relative path starts at the configuration's directory. The file must be readable by everybody (mode 0644)." example:"blocklist.txt" names:"file"`
	Timeout   Duration     `yaml:"timeout" json:"timeout,omitempty" doc:"Default lifetime of elements added by minne set add. Absent: they stay until they are deleted."`
}

// FirewallSchedule is a time of some days of the week.
type FirewallSchedule struct {
	Days []string `yaml:"days" json:"days,omitempty" doc:"Days on which it starts: mon, tue, wed, thu, fri, sat, sun, or ranges such as mon-fri. Absent: every day." single:"true" example:"mon-fri"`
	From string   `yaml:"from" json:"from,omitempty" doc:"Start time, in the router's time zone." default:"00:00" example:"08:00"`
	To   string   `yaml:"to" json:"to,omitempty" doc:"End time. When it is not after from, the end is on the next day." default:"24:00" example:"13:00"`
}

// FirewallPolicy is the rules from some zones to others.
type FirewallPolicy struct {
	Name       string        `yaml:"name" json:"name,omitempty" doc:"Name in messages and counters. Absent: made from the zones' names."`
	From       []string      `yaml:"from" json:"from" doc:"Source zones: names, any for all zones, self for the router." required:"true" single:"true" example:"lan"`
	To         []string      `yaml:"to" json:"to" doc:"Destination zones: names, any for all zones, self for the router." required:"true" single:"true" example:"wan"`
	Rules      []string      `yaml:"rules" json:"rules,omitempty" doc:"Rules. The first that matches decides. Grammar: firewall-rules.md." ordered:"true" example:"permit tcp any @web 443"`
	RulesFile  string        `yaml:"rules-file" json:"rules-file,omitempty" doc:"CSV file with one rule on each line, searched after the rules above. A relative path starts at the configuration's directory. The file must be readable by everybody (mode 0644)." example:"campus.csv" names:"file"`
	ExpectRows int           `yaml:"expect-rows" json:"expect-rows,omitempty" doc:"Number of rules that the file must have. A file with another number, such as a truncated one, is refused." min:"1" max:"1000000"`
	Stateless  bool          `yaml:"stateless" json:"stateless,omitempty" doc:"Stateless filtering: each packet is checked alone. Replies need their own rules, in a stateless policy of the reverse zone pair." default:"off"`
	Default    PolicyDefault `yaml:"default" json:"default,omitempty" doc:"Action for packets that no rule of this policy matches. Absent: the next policy of the zone pair decides, and in the end firewall.defaults." enum:"permit,deny,reject"`
}

// FirewallDefaults is what holds where no policy decides.
type FirewallDefaults struct {
	Action DropAction `yaml:"action" json:"action,omitempty" doc:"Default action between zones and to the router: deny drops silently, reject sends an error to the sender." default:"deny" enum:"deny,reject"`
	Within PassAction `yaml:"within" json:"within,omitempty" doc:"Default action within a zone: between two of its interfaces, and from one back out of itself. Absent: permit, but deny in a zone that is the to of masquerade or a pool." enum:"permit,deny"`
	Log    *OnOff     `yaml:"log" json:"log,omitempty" doc:"Logs packets that the default drops, at most ten a second." default:"on" enum:"on,off"`
}

// NAT is one translation of addresses, for packets between two zones. Exactly
// one of Masquerade, Pool, Forward and OneToOne says how.
type NAT struct {
	Name       string       `yaml:"name" json:"name,omitempty" doc:"Name in messages. Absent: nat and the rule's number."`
	From       []string     `yaml:"from" json:"from" doc:"Source zones." required:"true" single:"true" example:"lan"`
	To         []string     `yaml:"to" json:"to,omitempty" doc:"Destination zones, for masquerade, pool and one-to-one." single:"true" example:"wan"`
	Source     []Prefix     `yaml:"source" json:"source,omitempty" doc:"Only connections from these networks. Absent: from any address of the source zones."`
	Masquerade bool         `yaml:"masquerade" json:"masquerade,omitempty" doc:"Source NAT to the address of the outgoing interface (PAT, NAT overload)." default:"off"`
	Families   []Family     `yaml:"families" json:"families,omitempty" doc:"Address families that masquerade translates. Absent: IPv4 only; IPv6 seldom needs NAT." enum:"ipv4,ipv6"`
	Pool       []Prefix     `yaml:"pool" json:"pool,omitempty" doc:"Source NAT to addresses of these networks. A host keeps the same outside address. At most one network of each family." example:"203.0.113.64/28"`
	Forward    *NATForward  `yaml:"forward" json:"forward,omitempty" doc:"Port forwarding (destination NAT): connections to a port of the router go to a host inside. A policy must permit them; rules see the inside address."`
	OneToOne   *NATOneToOne `yaml:"one-to-one" json:"one-to-one,omitempty" doc:"Static one-to-one NAT in both directions: each inside host has its own outside address. For IPv6 it translates the prefix (NPTv6). A policy must permit connections from outside; rules see the inside address."`
}

// NATOneToOne maps a network to another of the same size, address by address.
type NATOneToOne struct {
	Outside Prefix `yaml:"outside" json:"outside" doc:"Outside network, as the destination zones see it. A single address has length 32 or 128." required:"true" example:"203.0.113.16/29"`
	Inside  Prefix `yaml:"inside" json:"inside" doc:"Inside network, in the source zones. It has the same size." required:"true" example:"10.3.0.16/29"`
	Hairpin *OnOff `yaml:"hairpin" json:"hairpin,omitempty" doc:"NAT hairpinning: all zones may use the outside addresses, hosts in the target's own network too. To the target these appear with an outside address, their own or the router's." default:"off" enum:"on,off"`
}

// NATForward is a port of the router that leads to a host.
type NATForward struct {
	Protocol ForwardProtocol `yaml:"protocol" json:"protocol" doc:"Protocol." enum:"tcp,udp" required:"true"`
	Address  netip.Addr      `yaml:"address" json:"address,omitzero" doc:"Outside address. Absent: every address of the router in the target's family." example:"203.0.113.1"`
	Port     string          `yaml:"port" json:"port" doc:"Outside port, or a range of ports." required:"true" example:"443"`
	Target   netip.Addr      `yaml:"target" json:"target" doc:"Address of the inside host." required:"true" example:"192.0.2.10"`
	NewPort  int             `yaml:"target-port" json:"target-port,omitempty" doc:"Port of the inside host. Absent: the outside port." min:"1" max:"65535"`
	Hairpin  *OnOff          `yaml:"hairpin" json:"hairpin,omitempty" doc:"NAT hairpinning: hosts in the target's own network may use the outside address too. List their zone in from. The target then sees the router's address instead of theirs." default:"off" enum:"on,off"`
}

// SourceLimit bounds what each host of some zones may begin: each IPv4 address, each
// /64 network of IPv6, since a host chooses freely among its addresses. SYNToHost
// bounds what their hosts, all together, may begin with each other host.
type SourceLimit struct {
	From            []string `yaml:"from" json:"from" doc:"Source zones: their hosts are limited." required:"true" single:"true" example:"pupils"`
	NewConnections  string   `yaml:"new-connections" json:"new-connections,omitempty" doc:"Rate limit of new connections for each host, through the router and to it. Connections above it are dropped." example:"50/s"`
	Burst           int      `yaml:"burst" json:"burst,omitempty" doc:"Burst: new connections that a host may open at once." default:"100" min:"1" max:"1000000"`
	OpenConnections int      `yaml:"open-connections" json:"open-connections,omitempty" doc:"Connections that each host may have open at the same time. It can open more when some have ended." min:"1" max:"10000000" example:"2000"`
	ICMP            string   `yaml:"icmp" json:"icmp,omitempty" doc:"Rate limit of ICMP packets for each host, through the router and to it: pings and errors, without neighbour discovery. The burst is the same number." example:"50/s"`
	SYNToHost       string   `yaml:"syn-to-host" json:"syn-to-host,omitempty" doc:"SYN flood limit: TCP connections that all these zones together may open to one IP address, the router's own addresses too. The burst is the same number." example:"500/s"`
}

// The words of the enumerations.
type (
	PolicyDefault   string
	DropAction      string
	PassAction      string
	ForwardProtocol string
	HelperName      string
)
