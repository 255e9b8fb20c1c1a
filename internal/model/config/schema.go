// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// Config is one router, as its operator wrote it. The zero value of an optional
// field means "not set"; what then applies stands in the field's comment and in
// its default tag.
//
// The tags are read by the decoder, the JSON Schema and the reference page:
// `yaml` names the key, `doc` says what it is for (with the unit), `default`
// what applies when it is absent, `enum` the words it takes, `example` a value,
// `ordered` that the order of a list means something, `secret` that the value
// names a secret.
type Config struct {
	Version    int                   `yaml:"version" json:"version" doc:"Version of this file's format." enum:"1" required:"true"`
	System     System                `yaml:"system" json:"system" doc:"The router itself."`
	Interfaces map[string]*Interface `yaml:"interfaces" json:"interfaces" doc:"The router's interfaces by the name the operator gives them: at most 15 bytes, and the name the link has in the kernel once applied."`
	Zones      map[string]*Zone      `yaml:"zones" json:"zones,omitempty" doc:"Zones of the firewall. A zone exists once an interface names it; here it can be described."`
	Firewall   *Firewall             `yaml:"firewall" json:"firewall,omitempty" doc:"What may pass between zones. Without zones, all that is routed passes."`
	NAT        []NAT                 `yaml:"nat" json:"nat,omitempty" doc:"Translation of addresses; the first that matches a connection holds." ordered:"true"`
	Limits     []SourceLimit         `yaml:"limits" json:"limits,omitempty" doc:"How much each host of a zone may use, so that one does not hurt the others."`
	Recognise  *Recognition          `yaml:"match" json:"match,omitempty" doc:"Recognises flows by patterns in their first payload bytes, to label or to limit them. Absent: nothing is looked at, and it costs nothing."`
	Routing    Routing               `yaml:"routing" json:"routing" doc:"Static routes and routing protocols."`
	Services   Services              `yaml:"services" json:"services,omitzero" doc:"What the router does for its neighbours: addresses, names, time; and how to log in."`
	FastPath   FastPath              `yaml:"fast-path" json:"fast-path" doc:"The XDP fast path."`

	source *source // where everything stands, for messages; nil when built by a program
}

// System is the router as a host.
type System struct {
	Hostname      string        `yaml:"hostname" json:"hostname,omitempty" doc:"Host name, one label or a full domain name." example:"border1"`
	RouterID      netip.Addr    `yaml:"router-id" json:"router-id,omitzero" doc:"Router id of BGP and OSPF: an IPv4 address. Needed when a routing protocol is configured." example:"192.0.2.1"`
	SysctlProfile SysctlProfile `yaml:"sysctl-profile" json:"sysctl-profile,omitempty" doc:"Kernel settings: router for ordinary machines, small for 64 to 256 MB of memory, server for tables and neighbours of a big network." default:"router" enum:"router,small,server"`
	Admin         Admin         `yaml:"admin" json:"admin,omitzero" doc:"The user admin, who looks after the router."`
}

// Interface is one port, VLAN or loopback of the router.
type Interface struct {
	Match        *Match    `yaml:"match" json:"match,omitempty" doc:"How to find the kernel's link. Without it the link already has the interface's name."`
	VLAN         *VLAN     `yaml:"vlan" json:"vlan,omitempty" doc:"Makes this interface a VLAN on another one."`
	Description  string    `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters." example:"fibre to ISP A"`
	Addresses    []Address `yaml:"addresses" json:"addresses,omitempty" doc:"Addresses with prefix length." ordered:"true" example:"192.0.2.1/24"`
	DHCP         *OnOff    `yaml:"dhcp" json:"dhcp,omitempty" doc:"Asks the network's DHCP server for an IPv4 address, a default route and DNS servers." default:"off" enum:"on,off"`
	DHCPDistance int       `yaml:"dhcp-distance" json:"dhcp-distance,omitempty" doc:"Administrative distance of the routes that the DHCP server tells: by default routes of every protocol and of the operator are preferred." default:"210" min:"1" max:"253"`
	MTU          int       `yaml:"mtu" json:"mtu,omitempty" doc:"Largest packet in bytes, without the Ethernet header. Absent: the driver's. 1280 is the least with IPv6." min:"68" max:"65535"`
	Zone         string    `yaml:"zone" json:"zone,omitempty" doc:"Zone of the firewall that the interface belongs to. Once one interface has a zone, packets of those without are dropped." example:"lan"`
	AntiSpoof    AntiSpoof `yaml:"anti-spoof" json:"anti-spoof,omitempty" doc:"Check of source addresses (RFC 3704): strict wants the route back through this interface, loose any route." default:"off" enum:"strict,loose,off"`
	FastPath     *OnOff    `yaml:"fast-path" json:"fast-path,omitempty" doc:"Whether packets that arrive here may take the fast path." default:"on" enum:"on,off"`
	Disabled     bool      `yaml:"disabled" json:"disabled,omitempty" doc:"Keeps the link down." default:"off"`
}

// Match finds a link by exactly one property.
type Match struct {
	Name string `yaml:"name" json:"name,omitempty" doc:"The kernel's name for the link." example:"enp1s0"`
	MAC  MAC    `yaml:"mac" json:"mac,omitzero" doc:"The link's permanent MAC address." example:"52:54:00:12:34:56"`
	Path string `yaml:"path" json:"path,omitempty" doc:"The bus address of the device, as ethtool -i prints it." example:"0000:01:00.0"`
}

// VLAN says on what a VLAN interface sits. A parent that is itself a VLAN gives QinQ.
type VLAN struct {
	Parent   string    `yaml:"parent" json:"parent" doc:"Interface that carries the tagged frames." required:"true"`
	ID       int       `yaml:"id" json:"id" doc:"VLAN id." min:"1" max:"4094" required:"true"`
	Protocol VLANProto `yaml:"protocol" json:"protocol,omitempty" doc:"Tag type: 802.1q for customers, 802.1ad for the outer tag of QinQ." default:"802.1q" enum:"802.1q,802.1ad"`
}

// Routing holds static routes and routing protocols.
type Routing struct {
	Static []StaticRoute `yaml:"static" json:"static,omitempty" doc:"Static routes."`
	BGP    *BGP          `yaml:"bgp" json:"bgp,omitempty" doc:"BGP (RFC 4271, RFC 4760)."`
	OSPF   *OSPF         `yaml:"ospf" json:"ospf,omitempty" doc:"OSPFv2 for IPv4 (RFC 2328)."`
	OSPF3  *OSPF         `yaml:"ospf3" json:"ospf3,omitempty" doc:"OSPFv3 for IPv6 (RFC 5340)."`
}

// StaticRoute is a route that the operator wrote: next hops in Via, or Blackhole.
type StaticRoute struct {
	Prefix      Prefix    `yaml:"prefix" json:"prefix" doc:"Destination." required:"true" example:"203.0.113.0/24"`
	Via         []NextHop `yaml:"via" json:"via,omitempty" doc:"Next hops; several share the load per flow. An address, an address on an interface (fe80::1%lan), or the interface alone." example:"198.51.100.1"`
	Blackhole   bool      `yaml:"blackhole" json:"blackhole,omitempty" doc:"Drop packets to this destination silently." default:"off"`
	Distance    int       `yaml:"distance" json:"distance,omitempty" doc:"Administrative distance: among routes to one prefix the lowest wins (external BGP 20, OSPF 110, internal BGP 200)." default:"1" min:"1" max:"255"`
	Description string    `yaml:"description" json:"description,omitempty" doc:"Free text."`
}

// BGP is the router's BGP speaker.
type BGP struct {
	ASN             ASN                 `yaml:"asn" json:"asn" doc:"Own AS number, plain or asdot." required:"true" example:"64500"`
	Announce        []Prefix            `yaml:"announce" json:"announce,omitempty" doc:"Own prefixes. Each is announced to all peers and held by a blackhole route of distance 254, so that unused parts don't loop."`
	Bogons          BogonPolicy         `yaml:"bogons" json:"bogons,omitempty" doc:"What to do with routes to private, reserved and too long prefixes (longer than /24, /48) and bogon AS numbers from external peers." default:"reject" enum:"reject,accept"`
	Multipath       int                 `yaml:"multipath" json:"multipath,omitempty" doc:"Equal paths used at once." default:"1" min:"1" max:"64"`
	GracefulRestart *OnOff              `yaml:"graceful-restart" json:"graceful-restart,omitempty" doc:"Graceful restart (RFC 4724): routes stay in the kernel while the routing daemon restarts." default:"on" enum:"on,off"`
	RestartTime     Duration            `yaml:"restart-time" json:"restart-time,omitempty" doc:"How long peers keep our routes during a restart." default:"120s"`
	Peers           map[string]*BGPPeer `yaml:"peers" json:"peers,omitempty" doc:"Peers by a name of the operator's choice."`
}

// BGPPeer is one BGP session.
type BGPPeer struct {
	Address     netip.Addr `yaml:"address" json:"address" doc:"The peer's address." required:"true" example:"198.51.100.1"`
	Interface   string     `yaml:"interface" json:"interface,omitempty" doc:"Interface of a link-local peer address."`
	ASN         ASN        `yaml:"asn" json:"asn" doc:"The peer's AS number; our own makes the session internal." required:"true"`
	Description string     `yaml:"description" json:"description,omitempty" doc:"Free text."`
	Password    string     `yaml:"password" json:"password,omitempty" doc:"Name of the secret that holds the TCP MD5 password (RFC 2385)." secret:"true"`
	Families    []Family   `yaml:"families" json:"families,omitempty" doc:"Address families to exchange. Absent: the family of the peer's address." enum:"ipv4,ipv6"`
	Source      netip.Addr `yaml:"source" json:"source,omitzero" doc:"Own address of the session."`
	Multihop    int        `yaml:"multihop" json:"multihop,omitempty" doc:"Hops to an external peer that is not on a connected network." min:"1" max:"255"`
	Passive     bool       `yaml:"passive" json:"passive,omitempty" doc:"Wait for the peer to connect." default:"off"`
	HoldTime    Duration   `yaml:"hold-time" json:"hold-time,omitempty" doc:"Session ends after this long without a word from the peer; keepalives are sent at a third of it." default:"90s"`
	BFD         *OnOff     `yaml:"bfd" json:"bfd,omitempty" doc:"Detect a dead peer by BFD (RFC 5880)." default:"off" enum:"on,off"`
	Disabled    bool       `yaml:"disabled" json:"disabled,omitempty" doc:"Keep the session down." default:"off"`
	Import      BGPImport  `yaml:"import" json:"import,omitzero" doc:"What is taken from the peer."`
	Export      BGPExport  `yaml:"export" json:"export,omitzero" doc:"What is told to the peer."`
}

// BGPImport is the policy for routes from a peer.
type BGPImport struct {
	Preference  int          `yaml:"preference" json:"preference,omitempty" doc:"Local preference: the highest wins." default:"100" min:"1" max:"4294967295"`
	MaxPrefixes *PrefixLimit `yaml:"max-prefixes" json:"max-prefixes,omitempty" doc:"Ends the session when the peer sends more routes than this. It stays down until a commit raises the limit, minne clear bgp, or restart-after."`
	Accept      []Prefix     `yaml:"accept" json:"accept,omitempty" doc:"Take only these prefixes and longer ones inside them. Absent: take all."`
	Default     *OnOff       `yaml:"default" json:"default,omitempty" doc:"Whether a default route is taken." default:"on" enum:"on,off"`
	Bogons      BogonPolicy  `yaml:"bogons" json:"bogons,omitempty" doc:"Overrides routing.bgp.bogons for this peer." enum:"reject,accept"`
}

// PrefixLimit bounds the number of routes from a peer, per family; 0 is no limit.
type PrefixLimit struct {
	IPv4         int      `yaml:"ipv4" json:"ipv4,omitempty" doc:"Limit of IPv4 routes." min:"1"`
	IPv6         int      `yaml:"ipv6" json:"ipv6,omitempty" doc:"Limit of IPv6 routes." min:"1"`
	RestartAfter Duration `yaml:"restart-after" json:"restart-after,omitempty" doc:"How long after that the session is tried again, in whole minutes. Absent: not by itself, as a peer that tells too much most likely does so again."`
}

// BGPExport is the policy for routes told to a peer.
type BGPExport struct {
	Routes  ExportSet `yaml:"routes" json:"routes,omitempty" doc:"own: the announce list only (what an upstream should get); all: every route we use; default: only a default route; none. Absent: own to external peers, all to internal ones." enum:"own,all,default,none"`
	Prepend int       `yaml:"prepend" json:"prepend,omitempty" doc:"How many times our AS number is repeated, to make the path less wanted." min:"0" max:"10"`
	MED     int       `yaml:"med" json:"med,omitempty" doc:"Multi-exit discriminator: the neighbour AS takes the lowest." min:"0"`
}

// OSPF is one OSPF process: version 2 or 3, by where it stands in Routing.
type OSPF struct {
	Areas              map[AreaID]*OSPFArea `yaml:"areas" json:"areas" doc:"Areas by id: a number or a dotted quad." required:"true"`
	DefaultRoute       DefaultOriginate     `yaml:"default-route" json:"default-route,omitempty" doc:"When a default route is told to the area: never, always, or while BGP has given us one." default:"never" enum:"never,always,bgp"`
	DefaultMetric      int                  `yaml:"default-metric" json:"default-metric,omitempty" doc:"Metric of that default route." default:"10" min:"1" max:"16777214"`
	Redistribute       []Redistribute       `yaml:"redistribute" json:"redistribute,omitempty" doc:"Other routes told to OSPF." enum:"connected,static,bgp"`
	ReferenceBandwidth Rate                 `yaml:"reference-bandwidth" json:"reference-bandwidth,omitempty" doc:"Link speed of cost 1." default:"100Gbit"`
	GracefulRestart    *OnOff               `yaml:"graceful-restart" json:"graceful-restart,omitempty" doc:"Graceful restart (RFC 3623, RFC 5187): routes learned by OSPF stay in the kernel while its daemon restarts, also after a crash. With FRR 8 neighbours leave the router out until the new daemon has spoken to them." default:"on" enum:"on,off"`
}

// OSPFArea is one area and the interfaces in it.
type OSPFArea struct {
	Type       AreaType                  `yaml:"type" json:"type,omitempty" doc:"Kind of area." default:"normal" enum:"normal,stub,nssa"`
	Interfaces map[string]*OSPFInterface `yaml:"interfaces" json:"interfaces" doc:"Interfaces in this area; {} takes all defaults." required:"true"`
}

// OSPFInterface is OSPF on one interface.
type OSPFInterface struct {
	Cost     int         `yaml:"cost" json:"cost,omitempty" doc:"Cost. Absent: from the link's speed and the reference bandwidth." min:"1" max:"65535"`
	Passive  bool        `yaml:"passive" json:"passive,omitempty" doc:"Tell of this network but speak to nobody on it." default:"off"`
	Network  NetworkType `yaml:"network" json:"network,omitempty" doc:"Kind of network." default:"broadcast" enum:"broadcast,point-to-point"`
	Priority *int        `yaml:"priority" json:"priority,omitempty" doc:"Priority in the election of the designated router; 0 never." default:"1" min:"0" max:"255"`
	Hello    Duration    `yaml:"hello" json:"hello,omitempty" doc:"Hello interval." default:"10s"`
	Dead     Duration    `yaml:"dead" json:"dead,omitempty" doc:"A silent neighbour is gone after this long." default:"40s"`
	Auth     *OSPFAuth   `yaml:"auth" json:"auth,omitempty" doc:"Authentication of OSPFv2 (RFC 2328 D) or the OSPFv3 trailer (RFC 7166)."`
	BFD      *OnOff      `yaml:"bfd" json:"bfd,omitempty" doc:"Detect dead neighbours by BFD." default:"off" enum:"on,off"`
}

// OSPFAuth is a key of an OSPF interface.
type OSPFAuth struct {
	KeyID     int      `yaml:"key-id" json:"key-id" doc:"Number of the key." min:"1" max:"255" required:"true"`
	Algorithm AuthAlgo `yaml:"algorithm" json:"algorithm,omitempty" doc:"Digest. Absent: md5 for OSPFv2, which takes no other; sha256 for OSPFv3 (RFC 7166), which also takes md5 and needs FRR 9.1." enum:"md5,sha256"`
	Secret    string   `yaml:"secret" json:"secret" doc:"Name of the secret that holds the key." required:"true" secret:"true"`
}

// FastPath is how packets may bypass the kernel.
type FastPath struct {
	Mode      FastPathMode `yaml:"mode" json:"mode,omitempty" doc:"auto and native attach in the driver where it can (native fails the commit where it can't); generic works on any driver, slower; off leaves all to the kernel." default:"auto" enum:"auto,native,generic,off"`
	Structure string       `yaml:"structure" json:"structure,omitempty" doc:"Lookup structure of the IPv4 table; auto takes what is fastest on this machine once it was measured there (minne bench structure)." default:"auto" enum:"auto,range16,range18,range20,direct24"`
	Flows     int          `yaml:"flows" json:"flows,omitempty" doc:"Connections that the fast path carries at once, 256 to 16777214, 172 bytes each; others the kernel carries. By default as many as conntrack has room for, in a 32nd of the memory at most." default:""`
	Guard     Guard        `yaml:"guard" json:"guard,omitzero" doc:"How many packets may go up to the kernel, by class: a flood towards the router does not reach its sessions."`
}

// The words of the enumerations.
type (
	SysctlProfile    string
	AntiSpoof        string
	VLANProto        string
	BogonPolicy      string
	Family           string
	ExportSet        string
	DefaultOriginate string
	Redistribute     string
	AreaType         string
	NetworkType      string
	AuthAlgo         string
	FastPathMode     string
)
