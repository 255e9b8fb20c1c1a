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
	Sets      map[string]*FirewallSet      `yaml:"sets" json:"sets,omitempty" doc:"Addresses, networks and ports by name; rules call them @NAME."`
	Schedules map[string]*FirewallSchedule `yaml:"schedules" json:"schedules,omitempty" doc:"Times of the week by name; a rule with schedule NAME holds in them only."`
	Policies  []FirewallPolicy             `yaml:"policies" json:"policies,omitempty" doc:"What may pass from where to where. For a packet, the policies of its two zones are read in this order and the first rule that matches decides." ordered:"true"`
	Defaults  FirewallDefaults             `yaml:"defaults" json:"defaults,omitzero" doc:"What becomes of packets that no rule matches."`
	MSSClamp  *OnOff                       `yaml:"mss-clamp" json:"mss-clamp,omitempty" doc:"Lowers the segment size that TCP connections agree on to what fits through the route: for tunnels and PPPoE behind which path MTU discovery fails." default:"off" enum:"on,off"`
	Helpers   []HelperName                 `yaml:"helpers" json:"helpers,omitempty" doc:"Protocols whose packets the kernel reads for the addresses and ports of further connections, which it then lets pass and translates: ftp (TCP port 21), sip (5060), tftp (UDP port 69). Absent: none." enum:"ftp,sip,tftp"`
	ICMPLimit int                          `yaml:"icmp-limit" json:"icmp-limit,omitempty" doc:"Pings per second that the router answers, of all senders together." default:"100" min:"1" max:"1000000"`
}

// FirewallSet is addresses, networks or ports under one name.
type FirewallSet struct {
	Addresses []netip.Addr `yaml:"addresses" json:"addresses,omitempty" doc:"Single addresses of either family." example:"192.0.2.10"`
	Prefixes  []Prefix     `yaml:"prefixes" json:"prefixes,omitempty" doc:"Networks of either family." example:"192.0.2.0/24"`
	Ports     []string     `yaml:"ports" json:"ports,omitempty" doc:"Ports, ranges of ports and names of services. A set has either ports or addresses." example:"8000-8080"`
	File      string       `yaml:"file" json:"file,omitempty" doc:"File with one address or network a line; # begins a comment. Its name counts from the directory of the configuration, and everybody may read it (mode 0644)." example:"blocklist.txt"`
	Timeout   Duration     `yaml:"timeout" json:"timeout,omitempty" doc:"How long an element stays that minne set add puts in without a time of its own. Absent: until it is deleted."`
}

// FirewallSchedule is a time of some days of the week.
type FirewallSchedule struct {
	Days []string `yaml:"days" json:"days,omitempty" doc:"Days on which it begins: mon, tue, wed, thu, fri, sat, sun, or ranges as mon-fri. Absent: every day." single:"true" example:"mon-fri"`
	From string   `yaml:"from" json:"from,omitempty" doc:"When it begins, by the clock of the router's time zone." default:"00:00" example:"08:00"`
	To   string   `yaml:"to" json:"to,omitempty" doc:"When it ends; on the next day when that is not after from." default:"24:00" example:"13:00"`
}

// FirewallPolicy is the rules from some zones to others.
type FirewallPolicy struct {
	Name       string        `yaml:"name" json:"name,omitempty" doc:"Name in messages and counters. Absent: made of the zones."`
	From       []string      `yaml:"from" json:"from" doc:"Zones that packets come from: names, any for all, self for the router." required:"true" single:"true" example:"lan"`
	To         []string      `yaml:"to" json:"to" doc:"Zones that packets go to: names, any for all, self for the router." required:"true" single:"true" example:"wan"`
	Rules      []string      `yaml:"rules" json:"rules,omitempty" doc:"Rules, the first that matches decides. See the grammar in firewall-rules.md." ordered:"true" example:"permit tcp any @web 443"`
	RulesFile  string        `yaml:"rules-file" json:"rules-file,omitempty" doc:"CSV file with a rule a line, after the rules above. Its name counts from the directory of the configuration, and everybody may read it (mode 0644)." example:"campus.csv"`
	ExpectRows int           `yaml:"expect-rows" json:"expect-rows,omitempty" doc:"How many rules the file must have: a truncated file is refused instead of applied." min:"1" max:"1000000"`
	Stateless  bool          `yaml:"stateless" json:"stateless,omitempty" doc:"Judge each packet alone. Replies need rules of their own, in a policy the other way that is stateless too." default:"off"`
	Default    PolicyDefault `yaml:"default" json:"default,omitempty" doc:"What becomes of packets that none of the rules matches. Absent: the next policy of the zones decides, at last firewall.defaults." enum:"permit,deny,reject"`
}

// FirewallDefaults is what holds where no policy decides.
type FirewallDefaults struct {
	Action DropAction `yaml:"action" json:"action,omitempty" doc:"Between zones, and to the router: deny drops silently, reject answers." default:"deny" enum:"deny,reject"`
	Within PassAction `yaml:"within" json:"within,omitempty" doc:"Between two interfaces of one zone, and from one back to itself. Absent: permit, but deny in a zone to which masquerade or a pool leads." enum:"permit,deny"`
	Log    *OnOff     `yaml:"log" json:"log,omitempty" doc:"Whether packets that are dropped by default are logged, at most ten a second." default:"on" enum:"on,off"`
}

// NAT is one translation of addresses, for packets between two zones. Exactly
// one of Masquerade, Pool, Forward and OneToOne says how.
type NAT struct {
	Name       string       `yaml:"name" json:"name,omitempty" doc:"Name in messages. Absent: nat and its number."`
	From       []string     `yaml:"from" json:"from" doc:"Zones that connections come from." required:"true" single:"true" example:"lan"`
	To         []string     `yaml:"to" json:"to,omitempty" doc:"Zones that connections go to, for masquerade, pool and one-to-one." single:"true" example:"wan"`
	Source     []Prefix     `yaml:"source" json:"source,omitempty" doc:"Only connections from these networks. Absent: all of the zones."`
	Masquerade bool         `yaml:"masquerade" json:"masquerade,omitempty" doc:"Connections leave with the address of the interface." default:"off"`
	Families   []Family     `yaml:"families" json:"families,omitempty" doc:"Address families that masquerade translates. Absent: IPv4, since IPv6 networks seldom need it." enum:"ipv4,ipv6"`
	Pool       []Prefix     `yaml:"pool" json:"pool,omitempty" doc:"Connections leave with addresses of these networks; a host keeps its address. At most one network of each family." example:"203.0.113.64/28"`
	Forward    *NATForward  `yaml:"forward" json:"forward,omitempty" doc:"Connections to a port of the router go to a host inside. A policy still has to permit them: rules see the address inside."`
	OneToOne   *NATOneToOne `yaml:"one-to-one" json:"one-to-one,omitempty" doc:"Each host of a network inside has an address outside of its own, for connections either way. Of IPv6 this is the translation of prefixes (NPTv6). A policy still has to permit connections from outside: rules see the address inside."`
}

// NATOneToOne maps a network to another of the same size, address by address.
type NATOneToOne struct {
	Outside Prefix `yaml:"outside" json:"outside" doc:"The network that the zones of to see; a single address is one of length 32 or 128." required:"true" example:"203.0.113.16/29"`
	Inside  Prefix `yaml:"inside" json:"inside" doc:"The network of the hosts in the zones of from, of the same size." required:"true" example:"10.3.0.16/29"`
	Hairpin *OnOff `yaml:"hairpin" json:"hairpin,omitempty" doc:"Whether all zones may use the outside addresses, the hosts beside the target too: these then appear to it with an outside address, their own or the router's." default:"off" enum:"on,off"`
}

// NATForward is a port of the router that leads to a host.
type NATForward struct {
	Protocol ForwardProtocol `yaml:"protocol" json:"protocol" doc:"Protocol." enum:"tcp,udp" required:"true"`
	Address  netip.Addr      `yaml:"address" json:"address,omitzero" doc:"The address that is connected to. Absent: any of the router's own of the target's family." example:"203.0.113.1"`
	Port     string          `yaml:"port" json:"port" doc:"The port that is connected to, or a range." required:"true" example:"443"`
	Target   netip.Addr      `yaml:"target" json:"target" doc:"The host inside." required:"true" example:"192.0.2.10"`
	NewPort  int             `yaml:"target-port" json:"target-port,omitempty" doc:"Its port. Absent: the same." min:"1" max:"65535"`
	Hairpin  *OnOff          `yaml:"hairpin" json:"hairpin,omitempty" doc:"Whether the zones' hosts beside the target may use the outside address too: then list their zone in from, and the target sees the router's address instead of theirs." default:"off" enum:"on,off"`
}

// SourceLimit bounds what each host of some zones may begin: each IPv4 address, each
// /64 network of IPv6, since a host chooses freely among its addresses. SYNToHost
// bounds what their hosts, all together, may begin with each other host.
type SourceLimit struct {
	From            []string `yaml:"from" json:"from" doc:"Zones of the hosts." required:"true" single:"true" example:"pupils"`
	NewConnections  string   `yaml:"new-connections" json:"new-connections,omitempty" doc:"New connections of each host, through the router and to it; what is more is dropped." example:"50/s"`
	Burst           int      `yaml:"burst" json:"burst,omitempty" doc:"New connections that a host may begin at once." default:"100" min:"1" max:"1000000"`
	OpenConnections int      `yaml:"open-connections" json:"open-connections,omitempty" doc:"Connections that each host may have at the same time; it can begin no more until some end." min:"1" max:"10000000" example:"2000"`
	ICMP            string   `yaml:"icmp" json:"icmp,omitempty" doc:"ICMP packets of each host, through the router and to it, pings and errors alike, but for neighbour discovery. As many may come at once." example:"50/s"`
	SYNToHost       string   `yaml:"syn-to-host" json:"syn-to-host,omitempty" doc:"TCP connections that all of the zones together may begin with each IP address, the router's own too: what a SYN flood can do at most. As many may come at once." example:"500/s"`
}

// The words of the enumerations.
type (
	PolicyDefault   string
	DropAction      string
	PassAction      string
	ForwardProtocol string
	HelperName      string
)
