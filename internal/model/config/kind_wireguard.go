// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/base/ipnet"
)

// WireGuard makes an encrypted tunnel with any number of peers (https://www.wireguard.com/protocol/). Packets
// to a peer's allowed addresses go to it, and only they are taken from it.
type WireGuard struct {
	PrivateKey string                    `yaml:"private-key" json:"private-key" doc:"Name of the secret that holds this router's private key, as minne wireguard new-key writes it." required:"true" names:"secret"`
	ListenPort int                       `yaml:"listen-port" json:"listen-port,omitempty" doc:"UDP port. Absent: any free one, and only the router begins conversations." min:"1" max:"65535" example:"51820"`
	Interfaces []string                  `yaml:"interfaces" json:"interfaces,omitempty" doc:"Interfaces on which the firewall opens listen-port. Absent: none, so peers can reach the port only where a firewall rule permits it." example:"wan" names:"interface"`
	Routes     *OnOff                    `yaml:"routes" json:"routes,omitempty" doc:"Static routes to the peers' allowed prefixes, but not to 0.0.0.0/0 and ::/0. Off: other routes decide what goes into the tunnel." default:"on" enum:"on,off"`
	Peers      map[string]*WireGuardPeer `yaml:"peers" json:"peers,omitempty" doc:"Peers, each under the name that you choose."`
}

// WireGuardPeer is one other end.
type WireGuardPeer struct {
	PublicKey    string   `yaml:"public-key" json:"public-key" doc:"The peer's public key." required:"true" example:"HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw="`
	PresharedKey string   `yaml:"preshared-key" json:"preshared-key,omitempty" doc:"Name of the secret that holds a key which both ends share, besides their own." names:"secret"`
	Allowed      []Prefix `yaml:"allowed" json:"allowed" doc:"Addresses behind the peer: packets to them go to it, and it may send from them alone." required:"true" example:"10.9.0.2/32"`
	Endpoint     string   `yaml:"endpoint" json:"endpoint,omitempty" doc:"Where the peer listens: a name or address, and the UDP port. A name is looked up again when the peer is silent. Absent: the peer begins." example:"vpn.example.net:51820"`
	Keepalive    Duration `yaml:"keepalive" json:"keepalive,omitempty" doc:"Sends a packet after such a silence, so that NAT on the way keeps the connection: 25s is usual. Absent: never."`
}

// maxKeepalive is what the protocol's field of 16 bits holds, in seconds.
const maxKeepalive = 65535 * time.Second

// wireGuardKeyForm says what a key looks like.
const wireGuardKeyForm = "32 bytes as base64: 44 characters, the last one ="

// wireGuardKey reports whether a text is a key.
func wireGuardKey(text string) bool {
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	return err == nil && len(key) == 32
}

func (*WireGuard) kind() Kind { return Kind{Name: "wireguard", Routed: true} }

func (w *WireGuard) check(c *checker, path, name string) {
	c.wireGuardSecret(path+".private-key", w.PrivateKey)
	once(c, path+".interfaces", w.Interfaces, func(s string) string { return s })
	for n, at := range w.Interfaces {
		if at == name {
			c.refuse(indexPath(path+".interfaces", n), name+" can't carry its own packets", "the interface that leads to the peers", "")
		}
	}
	if w.ListenPort == 0 && len(w.Interfaces) > 0 {
		c.refuse(path+".interfaces", "there is no listen-port to open", "listen-port: 51820", "")
	}
	if port := w.ListenPort; port != 0 {
		if other, taken := c.taken[wireGuardPort(port)]; taken {
			c.refuse(path+".listen-port", fmt.Sprintf("%s already listens on UDP port %d", other, port), "another port", "")
		}
		c.taken[wireGuardPort(port)] = name
	}
	keys, allowed := map[string]string{}, map[netip.Prefix]string{}
	for _, peer := range sortedKeys(w.Peers) {
		at := joinPath(path+".peers", peer)
		p := w.Peers[peer]
		if !wireGuardKey(p.PublicKey) {
			c.refuse(at+".public-key", "this is no key", wireGuardKeyForm, "")
		} else if other, taken := keys[p.PublicKey]; taken {
			c.refuse(at+".public-key", fmt.Sprintf("the peer %s has this key already", other), "a key of its own for each peer", "")
		}
		keys[p.PublicKey] = peer
		if p.PresharedKey != "" {
			c.wireGuardSecret(at+".preshared-key", p.PresharedKey)
		}
		c.wireGuardAllowed(at+".allowed", name, peer, p, allowed)
		c.wireGuardEndpoint(at, p)
	}
}

// wireGuardPort is a UDP port, for what each can be but once.
type wireGuardPort int

// wireGuardSecret refuses a secret that is no key. It never says what the secret is.
func (c *checker) wireGuardSecret(path, name string) {
	if value, ok := c.secrets.Get(name); ok && !wireGuardKey(value) {
		c.refuse(path, "the secret is not a WireGuard key", wireGuardKeyForm+", as minne wireguard new-key prints it", "")
	}
}

// wireGuardAllowed refuses prefixes that two peers have: the kernel would take them from the first.
func (c *checker) wireGuardAllowed(path, name, peer string, p *WireGuardPeer, taken map[netip.Prefix]string) {
	if len(p.Allowed) == 0 {
		c.refuse(path, "the peer may send from no address", "the addresses behind it, as 10.9.0.2/32", "")
	}
	for n, a := range p.Allowed {
		at := indexPath(path, n)
		if other, again := taken[a.Prefix]; again {
			c.refuse(at, fmt.Sprintf("%s is allowed for the peer %s already", a, other), "each prefix for one peer", "")
			continue
		}
		taken[a.Prefix] = peer
		if owner, own := c.owners[place{c.tableOf(name), a.Addr()}]; own && a.IsSingleIP() {
			c.refuse(at, fmt.Sprintf("%s is this router itself (%s)", a.Addr(), owner), "an address of the peer", "")
			continue
		}
		if n, found := c.byPrefix[placed{c.tableOf(name), a.Prefix}]; found && n.iface != name {
			c.refuse(at, fmt.Sprintf("%s is the network of %s", a, n.iface), "networks behind the peer", "")
		}
	}
}

func (c *checker) wireGuardEndpoint(path string, p *WireGuardPeer) {
	switch span := p.Keepalive.Std(); {
	case span == 0:
	case span < time.Second || span > maxKeepalive || span%time.Second != 0:
		c.refuse(path+".keepalive", fmt.Sprintf("keepalive %s is not possible", p.Keepalive), "whole seconds from 1s to 65535s, usually 25s", "")
	}
	if p.Endpoint == "" {
		return
	}
	const form = "name:port or address:port, as vpn.example.net:51820 or [2001:db8::1]:51820"
	host, port, err := net.SplitHostPort(p.Endpoint)
	if err != nil {
		c.refuse(path+".endpoint", fmt.Sprintf("%q is no endpoint", abridge(p.Endpoint)), form, "")
		return
	}
	if number, err := decimal(port, 65535); err != nil || number == 0 {
		c.refuse(path+".endpoint", fmt.Sprintf("%q is no UDP port", abridge(port)), form, "")
	}
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil && (len(host) > 253 || !hostname.MatchString(host)):
		c.refuse(path+".endpoint", fmt.Sprintf("%q is neither a name nor an address", abridge(host)), form, "")
	case err == nil && slices.ContainsFunc(p.Allowed, func(in Prefix) bool { return in.Bits() > 0 && in.Contains(a) }):
		c.refuse(path+".endpoint", fmt.Sprintf("%s is among the allowed addresses of the peer: the tunnel would carry its own packets", a), "allowed prefixes without the endpoint", "")
	}
}

func (w *WireGuard) odd(c *checker, path, name string) {
	if w.ListenPort != 0 && len(w.Interfaces) == 0 && c.cfg.Interfaces[name].Zone != "" {
		c.refuse(path+".listen-port", "the firewall opens the port nowhere, so peers can't begin unless a rule permits it", "interfaces: [the one that leads to the peers]", "")
	}
	if len(w.Peers) == 0 {
		c.refuse(path, name+" has no peer", "peers, as minne wireguard add-peer proposes them", "")
	}
	for _, peer := range sortedKeys(w.Peers) {
		p := w.Peers[peer]
		if p.Endpoint == "" && w.ListenPort == 0 {
			c.refuse(joinPath(path+".peers", peer), fmt.Sprintf("neither end can begin: %s has no listen-port and the peer no endpoint", name), "", "")
		}
		whole := slices.ContainsFunc(p.Allowed, func(a Prefix) bool { return a.Bits() == 0 })
		if whole && w.Routes.On() && !slices.ContainsFunc(c.cfg.Routing.Static, func(r StaticRoute) bool {
			return slices.ContainsFunc(r.Via, func(v NextHop) bool { return v.Interface == name })
		}) && c.cfg.Routing.BGP == nil && c.cfg.Routing.OSPF == nil && c.cfg.Routing.OSPF3 == nil && c.cfg.Routing.Babel == nil {
			c.refuse(joinPath(path+".peers", peer)+".allowed", "a default route is not made from allowed addresses, because it would take the tunnel's own packets", "a static route via "+name+" to what belongs into the tunnel", "")
		}
	}
}

// TunnelRoute is a route to addresses behind a peer.
type TunnelRoute struct {
	Prefix    netip.Prefix
	Interface string
	VRF       string // that the interface is in, "" for none
	path      string
}

// TunnelRoutes are the routes that the allowed addresses of WireGuard's peers make, in the order of interfaces and
// peers. A prefix inside a network of the interface itself needs none, and a default route is never made.
func TunnelRoutes(cfg *Config) (list []TunnelRoute) {
	masters := cfg.Masters()
	for _, name := range sortedKeys(cfg.Interfaces) {
		i := cfg.Interfaces[name]
		if i.WireGuard == nil || !i.WireGuard.Routes.On() {
			continue
		}
		for _, peer := range sortedKeys(i.WireGuard.Peers) {
			for n, a := range i.WireGuard.Peers[peer].Allowed {
				inside := slices.ContainsFunc(i.Addresses, func(own Address) bool {
					return ipnet.Within(a.Prefix, own.Prefix)
				})
				if a.Bits() > 0 && !inside {
					path := indexPath(joinPath(joinPath("interfaces", name)+".wireguard.peers", peer)+".allowed", n)
					list = append(list, TunnelRoute{a.Prefix, name, masters[name].Name, path})
				}
			}
		}
	}
	return list
}

// tunnelRoutes refuses routes of peers that another route takes; static are the configured ones.
func (c *checker) tunnelRoutes(static map[routeKey]int) {
	seen := map[routeKey]string{}
	for _, r := range TunnelRoutes(c.cfg) {
		key := routeKey{r.VRF, r.Prefix, 1}
		if n, again := static[key]; again {
			c.refuse(r.path, fmt.Sprintf("routing.static[%d] leads to %s already", n, r.Prefix), "one route; routes: off leaves all of them to others", "")
		}
		if other, again := seen[key]; again && other != r.Interface {
			c.refuse(r.path, fmt.Sprintf("a peer of %s has %s already", other, r.Prefix), "one route; routes: off leaves all of them to others", "")
		}
		seen[key] = r.Interface
	}
}

// EndpointPorts are the UDP ports to which the router speaks WireGuard, in order.
func (w *WireGuard) EndpointPorts() (list []uint16) {
	for _, p := range w.Peers {
		if n := strings.LastIndexByte(p.Endpoint, ':'); n >= 0 {
			if port, err := decimal(p.Endpoint[n+1:], 65535); err == nil {
				list = append(list, uint16(port))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
