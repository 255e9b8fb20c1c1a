// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// Config is one router, complete: what its operator wrote, and the defaults of what is absent
// (Normalize). The zero value of an optional field without a default means "not set"; what then
// applies stands in the field's comment.
//
// The tags are read by the decoder, the JSON Schema and the reference page:
// `yaml` names the key, `doc` says what it is for (with the unit), `default`
// what applies when it is absent, `enum` the words it takes, `example` a value,
// `ordered` that the order of a list means something, `names` that the value names
// a secret, an interface or a file (of a section of names, that its keys do).
type Config struct {
	Version     int                    `yaml:"version" json:"version" doc:"Version of the configuration format." enum:"1" required:"true"`
	System      System                 `yaml:"system" json:"system" doc:"Host name, router ID, kernel settings and the administrator."`
	Interfaces  map[string]*Interface  `yaml:"interfaces" json:"interfaces" doc:"Interfaces, each under the name that you choose: at most 15 bytes. A commit gives the kernel's link this name."`
	Radios      map[string]*Radio      `yaml:"radios" json:"radios,omitempty" doc:"Radios of the machine, for Wi-Fi, each under a name that you choose."`
	Zones       map[string]*Zone       `yaml:"zones" json:"zones,omitempty" doc:"Descriptions of firewall zones. A zone exists as soon as an interface names it."`
	Firewall    Firewall               `yaml:"firewall" json:"firewall,omitzero" doc:"Firewall: which packets may pass between zones. Without zones there is no firewall, and every routed packet passes."`
	NAT         []NAT                  `yaml:"nat" json:"nat,omitempty" doc:"NAT rules. The first rule that matches a connection applies." ordered:"true"`
	Limits      []SourceLimit          `yaml:"limits" json:"limits,omitempty" doc:"Limits for each host of a zone, so that one host cannot starve the others."`
	Labels      *Labels                `yaml:"labels" json:"labels,omitempty" doc:"Labels flows by patterns in their first payload bytes, and can limit or drop them. Absent: no packet is inspected."`
	Connections *Connections           `yaml:"connections" json:"connections,omitempty" doc:"Connections that the kernel keeps (conntrack): how many, and for how long. Absent: as many as the memory allows, with the kernel's own times."`
	FlowLog     *FlowLog               `yaml:"flow-log" json:"flow-log,omitempty" doc:"Log of connections: who spoke with whom, when, how much, and by which addresses others saw it. {} is enough. Absent: no log."`
	Routing     Routing                `yaml:"routing" json:"routing" doc:"Static routes and routing protocols."`
	Uplinks     map[string]*Uplink     `yaml:"uplinks" json:"uplinks,omitempty" doc:"Lines to the Internet, by the names of their interfaces. When one fails, packets leave by the next at once, before routing protocols have moved their routes." names:"interface"`
	Plans       map[string]*Plan       `yaml:"plans" json:"plans,omitempty" doc:"What subscribers get, each plan under a name that you choose: speeds and how packets wait."`
	Subscribers map[string]*Subscriber `yaml:"subscribers" json:"subscribers,omitempty" doc:"Who has which plan, each under a name that you choose. Packets of subscribers wait in queues of their own; the kernel forwards them."`
	Services    Services               `yaml:"services" json:"services,omitzero" doc:"Services of the router: DHCP, DNS, router advertisements, NTP and SSH."`
	FastPath    FastPath               `yaml:"fast-path" json:"fast-path" doc:"The XDP fast path."`

	renamed []rename // sections that the file calls by their old names

	source *source // where everything stands, for messages; nil when built by a program
}

// System is the router as a host.
type System struct {
	Hostname      string        `yaml:"hostname" json:"hostname,omitempty" doc:"Host name, one label or a full domain name." example:"border1"`
	RouterID      netip.Addr    `yaml:"router-id" json:"router-id,omitzero" doc:"Router ID of BGP and OSPF, an IPv4 address. Required with BGP or OSPF." example:"192.0.2.1"`
	SysctlProfile SysctlProfile `yaml:"sysctl-profile" json:"sysctl-profile,omitempty" doc:"Kernel settings: router for most machines, small for 64 to 256 MB of memory, server for large routing and neighbour tables." default:"router" enum:"router,small,server"`
	CPUs          *CPUs         `yaml:"cpus" json:"cpus,omitempty" doc:"Gives every queue of every port a CPU of its own, from receive to transmit: number of queues, interrupts, and the transmit queues that CPUs send through (XPS). {} is enough. Absent: all stays as the system has it."`
	Admin         Admin         `yaml:"admin" json:"admin,omitzero" doc:"The user admin, who manages the router."`
}

// Interface is one port, VLAN, bond, bridge, VRF or loopback of the router.
type Interface struct {
	Match        *Match           `yaml:"match" json:"match,omitempty" doc:"Which link of the kernel this interface is. Absent: the link that already has the interface's name."`
	VLAN         *VLAN            `yaml:"vlan" json:"vlan,omitempty" doc:"Makes this interface a VLAN subinterface of another one."`
	Dummy        *Dummy           `yaml:"dummy" json:"dummy,omitempty" doc:"Makes this an interface without a cable, as routers have loopback interfaces: {} is all that it takes."`
	Bond         *Bond            `yaml:"bond" json:"bond,omitempty" doc:"Makes this interface a bond: several ports that are one link (link aggregation)."`
	Bridge       *Bridge          `yaml:"bridge" json:"bridge,omitempty" doc:"Makes this interface a bridge: its ports are one network, as those of a switch, and the router is on it."`
	VRF          *VRF             `yaml:"vrf" json:"vrf,omitempty" doc:"Makes this interface a VRF: the interfaces in it have a routing table of their own. Its own addresses are the VRF's loopback addresses."`
	Ethernet     *Ethernet        `yaml:"ethernet" json:"ethernet,omitempty" doc:"Settings of the port's hardware: queues, rings, coalescing, speed. Absent ones stay as the driver has them."`
	PPPoE        *PPPoE           `yaml:"pppoe" json:"pppoe,omitempty" doc:"Makes this interface a PPPoE session with a provider, who gives the address."`
	WireGuard    *WireGuard       `yaml:"wireguard" json:"wireguard,omitempty" doc:"Makes this interface a WireGuard tunnel."`
	Tunnel       *Tunnel          `yaml:"tunnel" json:"tunnel,omitempty" doc:"Makes this interface a tunnel without encryption: GRE, IP in IP, IPv6 in IPv4 or VXLAN."`
	WiFi         *WiFi            `yaml:"wifi" json:"wifi,omitempty" doc:"Makes this interface one of a radio: a Wi-Fi access point, station or mesh. The packages hostapd or wpasupplicant, and wireless-regdb, must be installed."`
	Description  string           `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters." example:"fibre to ISP A"`
	Addresses    []Address        `yaml:"addresses" json:"addresses,omitempty" doc:"Addresses with prefix length." ordered:"true" example:"192.0.2.1/24"`
	DHCP         *OnOff           `yaml:"dhcp" json:"dhcp,omitempty" doc:"DHCP client: gets an IPv4 address, a default route and DNS servers." default:"off" enum:"on,off"`
	DHCPv6       *DHCPv6          `yaml:"dhcpv6" json:"dhcpv6,omitempty" doc:"IPv6 from the provider: addresses and a default route by router advertisements (SLAAC) and DHCPv6, DNS servers, and a prefix for inside interfaces. {} is enough."`
	Delegated    *DelegatedPrefix `yaml:"delegated-prefix" json:"delegated-prefix,omitempty" doc:"A network of the prefix that a provider delegates to another interface."`
	DHCPDistance int              `yaml:"dhcp-distance" json:"dhcp-distance,omitempty" doc:"Administrative distance of routes from the provider (dhcp, dhcpv6, pppoe). With the default, static routes and routing protocols win." default:"210" min:"1" max:"253"`
	MTU          int              `yaml:"mtu" json:"mtu,omitempty" doc:"MTU: largest packet in bytes, without the Ethernet header. Absent: the driver's. IPv6 needs at least 1280." min:"68" max:"65535"`
	Zone         string           `yaml:"zone" json:"zone,omitempty" doc:"Firewall zone of the interface. As soon as one interface has a zone, packets of interfaces without a zone are dropped." example:"lan"`
	AntiSpoof    AntiSpoof        `yaml:"anti-spoof" json:"anti-spoof,omitempty" doc:"Reverse path check of source addresses (uRPF, RFC 3704). strict: the route back must lead through this interface. loose: any route back is enough." default:"off" enum:"strict,loose,off"`
	Shape        *Shape           `yaml:"shape" json:"shape,omitempty" doc:"Shapes the line (SQM, smart queues): packets wait in the router, where every host gets a fair share and short answers pass long transfers. The kernel must have the queueing discipline cake. The kernel forwards what passes a shaped line."`
	Subscribers  *OnOff           `yaml:"subscribers" json:"subscribers,omitempty" doc:"Sorts what the interface sends and receives by subscribers, each of whom has the speed of a plan. What is no subscriber's passes as it comes." default:"off" enum:"on,off"`
	FastPath     *OnOff           `yaml:"fast-path" json:"fast-path,omitempty" doc:"Allows the fast path for packets that arrive on this interface." default:"on" enum:"on,off"`
	Disabled     bool             `yaml:"disabled" json:"disabled,omitempty" doc:"Shuts the interface down." default:"off"`
}

// Match finds a link by exactly one property.
type Match struct {
	Name string `yaml:"name" json:"name,omitempty" doc:"The kernel's name for the link." example:"enp1s0"`
	MAC  MAC    `yaml:"mac" json:"mac,omitzero" doc:"The link's permanent MAC address." example:"52:54:00:12:34:56"`
	Path string `yaml:"path" json:"path,omitempty" doc:"The device's bus address, as ethtool -i prints it." example:"0000:01:00.0"`
}

// Routing holds static routes and routing protocols.
type Routing struct {
	Static []StaticRoute          `yaml:"static" json:"static,omitempty" doc:"Static routes."`
	Policy []PolicyRoute          `yaml:"policy" json:"policy,omitempty" doc:"Policy routing: rules that choose the uplink by source, destination, interface, protocol, ports or DSCP. The first that matches decides. Routes other than the default route come first." ordered:"true"`
	BGP    *BGP                   `yaml:"bgp" json:"bgp,omitempty" doc:"BGP (RFC 4271, RFC 4760)."`
	OSPF   *OSPF                  `yaml:"ospf" json:"ospf,omitempty" doc:"OSPFv2 for IPv4 (RFC 2328)."`
	OSPF3  *OSPF                  `yaml:"ospf3" json:"ospf3,omitempty" doc:"OSPFv3 for IPv6 (RFC 5340)."`
	VRFs   map[string]*VRFRouting `yaml:"vrfs" json:"vrfs,omitempty" doc:"Routing protocols in VRFs, by the name of the VRF: an interface with vrf." names:"interface"`
	Babel  *Babel                 `yaml:"babel" json:"babel,omitempty" doc:"Babel (RFC 8966) for IPv4 and IPv6: routes between the routers of a mesh."`
}

// StaticRoute is a route that the operator wrote: next hops in Via, or Blackhole.
type StaticRoute struct {
	Prefix      Prefix    `yaml:"prefix" json:"prefix" doc:"Destination prefix." required:"true" example:"203.0.113.0/24"`
	Via         []NextHop `yaml:"via" json:"via,omitempty" doc:"Next hops: an address, an address on an interface (fe80::1%lan), or an interface alone. Several next hops share the load per flow (ECMP)." example:"198.51.100.1" names:"interface"`
	VRF         string    `yaml:"vrf" json:"vrf,omitempty" doc:"The VRF in whose table the route is. Absent: the main table." names:"interface"`
	Blackhole   bool      `yaml:"blackhole" json:"blackhole,omitempty" doc:"Discards packets to this destination silently (null route)." default:"off"`
	Distance    int       `yaml:"distance" json:"distance,omitempty" doc:"Administrative distance. Of routes to the same prefix the lowest wins (external BGP 20, OSPF 110, internal BGP 200)." default:"1" min:"1" max:"255"`
	Description string    `yaml:"description" json:"description,omitempty" doc:"Free text."`
}

// BGP is the router's BGP speaker.
type BGP struct {
	ASN             ASN                 `yaml:"asn" json:"asn" doc:"Local AS number, plain or asdot." required:"true" example:"64500"`
	Announce        []Prefix            `yaml:"announce" json:"announce,omitempty" doc:"Own prefixes to advertise to all peers. Each also gets a blackhole route of distance 254, so that unused parts do not loop."`
	Bogons          BogonPolicy         `yaml:"bogons" json:"bogons,omitempty" doc:"Filter for routes from external peers: private and reserved prefixes, prefixes longer than /24 (IPv4) or /48 (IPv6), and bogon AS numbers." default:"reject" enum:"reject,accept"`
	Multipath       int                 `yaml:"multipath" json:"multipath,omitempty" doc:"BGP multipath: how many equal paths are used at once (ECMP)." default:"1" min:"1" max:"64"`
	GracefulRestart *OnOff              `yaml:"graceful-restart" json:"graceful-restart,omitempty" doc:"Graceful restart (RFC 4724): routes stay in the kernel while the routing daemon restarts." default:"on" enum:"on,off"`
	RestartTime     Duration            `yaml:"restart-time" json:"restart-time,omitempty" doc:"Graceful restart time: how long peers keep our routes while BGP restarts." default:"120s"`
	Peers           map[string]*BGPPeer `yaml:"peers" json:"peers,omitempty" doc:"Peers (neighbors), each under a name that you choose."`
}

// BGPPeer is one BGP session.
type BGPPeer struct {
	Address     netip.Addr `yaml:"address" json:"address" doc:"The peer's address." required:"true" example:"198.51.100.1"`
	Interface   string     `yaml:"interface" json:"interface,omitempty" doc:"Interface of the peer, when its address is link-local." names:"interface"`
	ASN         ASN        `yaml:"asn" json:"asn" doc:"The peer's AS number (remote AS). The local AS number makes an internal session (iBGP)." required:"true"`
	Description string     `yaml:"description" json:"description,omitempty" doc:"Free text."`
	Password    string     `yaml:"password" json:"password,omitempty" doc:"Name of the secret that holds the TCP MD5 password of the session (RFC 2385)." names:"secret"`
	Families    []Family   `yaml:"families" json:"families,omitempty" doc:"Address families to exchange. Absent: the family of the peer's address." enum:"ipv4,ipv6"`
	Source      netip.Addr `yaml:"source" json:"source,omitzero" doc:"Local address of the session (update source)."`
	Multihop    int        `yaml:"multihop" json:"multihop,omitempty" doc:"eBGP multihop: hops to an external peer that is not on a connected network." min:"1" max:"255"`
	Passive     bool       `yaml:"passive" json:"passive,omitempty" doc:"Waits for the peer to open the session." default:"off"`
	HoldTime    Duration   `yaml:"hold-time" json:"hold-time,omitempty" doc:"BGP hold time: the session ends when the peer sends nothing for this long. Keepalives are sent at a third of it." default:"90s"`
	BFD         *OnOff     `yaml:"bfd" json:"bfd,omitempty" doc:"Detects a dead peer by BFD (RFC 5880)." default:"off" enum:"on,off"`
	Disabled    bool       `yaml:"disabled" json:"disabled,omitempty" doc:"Shuts the session down." default:"off"`
	Import      BGPImport  `yaml:"import" json:"import,omitzero" doc:"Import policy: which routes are accepted from the peer."`
	Export      BGPExport  `yaml:"export" json:"export,omitzero" doc:"Export policy: which routes are advertised to the peer."`
}

// BGPImport is the policy for routes from a peer.
type BGPImport struct {
	Preference  int          `yaml:"preference" json:"preference,omitempty" doc:"Local preference of the peer's routes. The highest wins. Absent: 100 from external peers; routes of internal peers keep theirs." min:"1" max:"4294967295"`
	MaxPrefixes *PrefixLimit `yaml:"max-prefixes" json:"max-prefixes,omitempty" doc:"Maximum prefixes: the session ends when the peer sends more routes. It stays down until a commit raises the limit, until minne clear bgp, or for restart-after."`
	Accept      []Prefix     `yaml:"accept" json:"accept,omitempty" doc:"Prefix list: accepts only these prefixes and longer ones inside them. Absent: all."`
	Default     *OnOff       `yaml:"default" json:"default,omitempty" doc:"Accepts a default route. Absent: on, but with accept only when the list has it." enum:"on,off"`
	Bogons      BogonPolicy  `yaml:"bogons" json:"bogons,omitempty" doc:"Overrides routing.bgp.bogons for this peer." enum:"reject,accept"`
}

// PrefixLimit bounds the number of routes from a peer, per family; 0 is no limit.
type PrefixLimit struct {
	IPv4         int      `yaml:"ipv4" json:"ipv4,omitempty" doc:"Limit of IPv4 routes." min:"1"`
	IPv6         int      `yaml:"ipv6" json:"ipv6,omitempty" doc:"Limit of IPv6 routes." min:"1"`
	RestartAfter Duration `yaml:"restart-after" json:"restart-after,omitempty" doc:"Time until the session starts again after the limit ended it, in whole minutes. Absent: it stays down."`
}

// BGPExport is the policy for routes told to a peer.
type BGPExport struct {
	Routes  ExportSet `yaml:"routes" json:"routes,omitempty" doc:"own: only the announce list, as for an upstream; all: every route in use; default: only a default route; none: no route. Absent: own to external peers, all to internal peers." enum:"own,all,default,none"`
	Prepend int       `yaml:"prepend" json:"prepend,omitempty" doc:"AS path prepending: how many times the local AS number is added, to make the path less attractive." min:"0" max:"10"`
	MED     int       `yaml:"med" json:"med,omitempty" doc:"Multi-exit discriminator (MED). The neighbour AS prefers the lowest." min:"0"`
}

// OSPF is one OSPF process: version 2 or 3, by where it stands in Routing.
type OSPF struct {
	Areas              map[AreaID]*OSPFArea `yaml:"areas" json:"areas" doc:"Areas by area ID: a number or a dotted quad." required:"true"`
	DefaultRoute       DefaultOriginate     `yaml:"default-route" json:"default-route,omitempty" doc:"Originates a default route: never, always, or while BGP has one." default:"never" enum:"never,always,bgp"`
	DefaultMetric      int                  `yaml:"default-metric" json:"default-metric,omitempty" doc:"Metric of the originated default route." default:"10" min:"1" max:"16777214"`
	Redistribute       []Redistribute       `yaml:"redistribute" json:"redistribute,omitempty" doc:"Routes that are redistributed into OSPF." enum:"connected,static,bgp"`
	ReferenceBandwidth Rate                 `yaml:"reference-bandwidth" json:"reference-bandwidth,omitempty" doc:"Reference bandwidth: the link speed of cost 1." default:"100Gbit"`
	GracefulRestart    *OnOff               `yaml:"graceful-restart" json:"graceful-restart,omitempty" doc:"Graceful restart (RFC 3623, RFC 5187): OSPF routes stay in the kernel while the OSPF daemon restarts, also after a crash. With FRR 8, neighbours route around this router until their adjacencies are up again." default:"on" enum:"on,off"`
}

// OSPFArea is one area and the interfaces in it.
type OSPFArea struct {
	Type       AreaType                  `yaml:"type" json:"type,omitempty" doc:"Area type." default:"normal" enum:"normal,stub,nssa"`
	Interfaces map[string]*OSPFInterface `yaml:"interfaces" json:"interfaces" doc:"Interfaces in this area. {} means all defaults." required:"true" names:"interface"`
}

// OSPFInterface is OSPF on one interface.
type OSPFInterface struct {
	Cost     int         `yaml:"cost" json:"cost,omitempty" doc:"OSPF cost. Absent: the reference bandwidth divided by the link's speed." min:"1" max:"65535"`
	Passive  bool        `yaml:"passive" json:"passive,omitempty" doc:"Passive interface: OSPF advertises its network but forms no adjacency on it." default:"off"`
	Network  NetworkType `yaml:"network" json:"network,omitempty" doc:"OSPF network type." default:"broadcast" enum:"broadcast,point-to-point"`
	Priority *int        `yaml:"priority" json:"priority,omitempty" doc:"Priority in the election of the designated router (DR). 0: never elected." default:"1" min:"0" max:"255"`
	Hello    Duration    `yaml:"hello" json:"hello,omitempty" doc:"Hello interval." default:"10s"`
	Dead     Duration    `yaml:"dead" json:"dead,omitempty" doc:"Dead interval: a neighbour that is silent for this long is down." default:"40s"`
	Auth     *OSPFAuth   `yaml:"auth" json:"auth,omitempty" doc:"Authentication of OSPFv2 (RFC 2328 D) or the OSPFv3 trailer (RFC 7166)."`
	BFD      *OnOff      `yaml:"bfd" json:"bfd,omitempty" doc:"Detects dead neighbours by BFD." default:"off" enum:"on,off"`
}

// OSPFAuth is a key of an OSPF interface.
type OSPFAuth struct {
	KeyID     int      `yaml:"key-id" json:"key-id" doc:"Key ID." min:"1" max:"255" required:"true"`
	Algorithm AuthAlgo `yaml:"algorithm" json:"algorithm,omitempty" doc:"Digest algorithm. OSPFv2: md5, the default. OSPFv3 (RFC 7166, needs FRR 9.1): sha256, the default, or md5." enum:"md5,sha256"`
	Secret    string   `yaml:"secret" json:"secret" doc:"Name of the secret that holds the key." required:"true" names:"secret"`
}

// FastPath is how packets may bypass the kernel.
type FastPath struct {
	Mode      FastPathMode `yaml:"mode" json:"mode,omitempty" doc:"XDP mode. auto: native XDP where the driver supports it; the kernel forwards the packets of other ports. native: the commit fails where the driver does not support it. generic: works with any driver, slower. off: the kernel forwards all packets." default:"auto" enum:"auto,native,generic,off"`
	Structure string       `yaml:"structure" json:"structure,omitempty" doc:"Lookup structure of the IPv4 table. auto: the fastest on this machine, as measured by minne bench structure." default:"auto" enum:"auto,range16,range18,range20,direct24"`
	Flows     int          `yaml:"flows" json:"flows,omitempty" doc:"Size of the connection table of the fast path, 256 to 16777214 connections of 172 bytes. The kernel forwards the rest. Absent: as large as the conntrack table, but at most 1/32 of the memory." default:""`
	Guard     Guard        `yaml:"guard" json:"guard,omitzero" doc:"Control-plane protection (CoPP): rate limits, by class, of packets that the fast path punts to the kernel. A flood towards the router does not starve its sessions."`
}

// The words of the enumerations.
type (
	SysctlProfile    string
	AntiSpoof        string
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
