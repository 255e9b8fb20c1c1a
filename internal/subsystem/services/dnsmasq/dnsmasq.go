// SPDX-License-Identifier: Apache-2.0

// Package dnsmasq serves the hosts around a router: addresses by DHCP, IPv6 by
// router advertisements, names by DNS. One dnsmasq does all three, because DNS is to know
// the hosts that DHCP gave addresses to.
//
// What it leased it keeps in the instance's run directory: on the router's image
// nothing is written to the medium while it runs. After a reboot hosts ask for the
// address they had and get it, since dnsmasq asks the network before it gives an
// address to somebody else.
//
// Servers to ask come from the configuration or, without any there, from the
// DHCP servers that the router itself is a client of: Upstream writes those down,
// and dnsmasq notices the change of the file.
//
// dnsmasq knows nothing of VRFs. Each VRF whose interfaces have services gets one of its own, which runs inside of it (package
// invrf): with files, leases and cache of its own, and servers to ask that it reaches by the VRF's routes.
package dnsmasq

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
)

// Name is the program's directory below the run directory, and the task; "-" and the VRF's name follow for one in a VRF.
const Name = "dnsmasq"

// The binary, its user, and what it writes.
const (
	binary     = "dnsmasq"
	user       = "dnsmasq"
	leaseFile  = "leases"
	serverFile = "upstream" // resolv.conf(5) with the servers that providers gave
)

// Desired is what runs, by VRF; "" stands for the main table.
type Desired map[string]Instance

// Instance is one dnsmasq.
type Instance struct {
	program.Desired
	Learn []string // interfaces whose providers' servers it asks
}

// Render makes the configuration of each dnsmasq; runDir is the instance's run directory.
func Render(cfg *config.Config, runDir string) (Desired, error) {
	d, in := Desired{}, cfg.VRFs()
	tables := map[string][]string{"": nil} // the interfaces in each
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		tables[in[name]] = append(tables[in[name]], name)
	}
	for vrf, interfaces := range tables {
		if p := render(serving(cfg, interfaces), runDir, vrf); !p.Empty() {
			d[vrf] = Instance{p, interfaces}
		}
	}
	return d, nil
}

// serving is a configuration with the services of some interfaces alone.
func serving(cfg *config.Config, interfaces []string) *config.Config {
	some := *cfg
	s := &some.Services
	s.DHCP, s.DHCPRelay, s.DHCPv6 = of(s.DHCP, interfaces), of(s.DHCPRelay, interfaces), of(s.DHCPv6, interfaces)
	s.RouterAdvertisements = of(s.RouterAdvertisements, interfaces)
	if s.DNS != nil {
		dns := *s.DNS
		dns.Interfaces = slices.DeleteFunc(slices.Clone(dns.Interfaces), func(name string) bool { return !slices.Contains(interfaces, name) })
		if s.DNS = &dns; len(dns.Interfaces) == 0 {
			s.DNS = nil
		}
	}
	return &some
}

// of are the entries of some interfaces.
func of[S any](all map[string]S, interfaces []string) map[string]S {
	some := map[string]S{}
	for _, name := range interfaces {
		if s, ok := all[name]; ok {
			some[name] = s
		}
	}
	return some
}

// key is what follows Name in the directory of a VRF's dnsmasq.
func key(vrf string) string {
	if vrf == "" {
		return ""
	}
	return "-" + vrf
}

func render(cfg *config.Config, runDir, vrf string) program.Desired {
	s := cfg.Services
	if len(s.DHCP)+len(s.RouterAdvertisements) == 0 && s.DNS == nil {
		return program.Desired{}
	}
	dir := program.Dir(runDir, Name+key(vrf))
	w := &text{cfg: cfg, dir: dir, vrf: vrf}
	w.head()
	w.dns()
	w.dhcp()
	w.advertisements()
	conf := filepath.Join(dir, "dnsmasq.conf")
	return program.Desired{
		Object: w.object(),
		Facts:  w.facts,
		Argv:   []string{binary, "--keep-in-foreground", "--conf-file=" + conf},
		Check:  []string{binary, "--test", "--conf-file=" + conf},
		Files:  map[string]string{"dnsmasq.conf": w.b.String()},
		VRF:    vrf,
	}
}

// text is the configuration while it is written.
type text struct {
	cfg   *config.Config
	dir   string
	vrf   string
	b     strings.Builder
	facts []string
}

func (w *text) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

func (w *text) fact(format string, args ...any) {
	w.facts = append(w.facts, fmt.Sprintf(format, args...))
}

// object names what is served, to an operator.
func (w *text) object() string {
	var parts []string
	s := w.cfg.Services
	if len(s.DHCP) > 0 {
		parts = append(parts, "DHCP server")
	}
	if s.DNS != nil {
		parts = append(parts, "DNS server")
	}
	if len(s.RouterAdvertisements) > 0 {
		parts = append(parts, "router advertisements")
	}
	if len(s.DHCPv6) > 0 {
		parts = append(parts, "DHCPv6 server")
	}
	what := strings.Join(parts, ", ")
	if w.vrf != "" {
		what += " in VRF " + w.vrf
	}
	return what
}

// head is what holds for all three. Sockets are bound to the interfaces' addresses as these come and
// go, so that nothing listens elsewhere and a port that is not plugged in stops nothing.
func (w *text) head() {
	w.line("# Made by minne from minne.yaml; changes here are lost.")
	if v := w.cfg.Interfaces[w.vrf]; v != nil && v.VRF != nil { // with another table it is another link, to begin anew with
		w.line("# In VRF %s, table %d.", w.vrf, v.VRF.Table)
	}
	w.line("user=%s", user)
	w.line("group=nogroup")
	w.line("pid-file=%s", filepath.Join(w.dir, "pid"))
	w.line("no-hosts")
	w.line("no-ident")
	w.line("bind-dynamic")
	for _, name := range w.interfaces() {
		w.line("interface=%s", name)
		if s := w.cfg.Services; s.DHCPRelay[name] != nil && len(s.DHCP) > 0 { // it would complain of each request that is for the relay
			w.line("no-dhcpv4-interface=%s", name)
		}
	}
	if w.vrf != "" || w.cfg.Services.DNS == nil { // the loopback addresses are the main table's
		w.line("except-interface=lo")
	}
}

// interfaces are all that something is served on.
func (w *text) interfaces() []string {
	on := map[string]bool{}
	for name := range w.cfg.Services.DHCP {
		on[name] = true
	}
	for name := range w.cfg.Services.RouterAdvertisements {
		on[name] = true
	}
	if d := w.cfg.Services.DNS; d != nil {
		for _, name := range d.Interfaces {
			on[name] = true
		}
	}
	return slices.Sorted(maps.Keys(on))
}

func (w *text) dns() {
	d := w.cfg.Services.DNS
	if d == nil {
		w.line("port=0")
		return
	}
	w.line("cache-size=%d", d.Cache)
	w.line("domain-needed") // a bare name is nobody's business upstream
	w.line("bogus-priv")    // nor are the names of private addresses
	w.line("dns-loop-detect")
	// A page on the Internet whose name leads to an address here could do what its reader may do here.
	w.line("stop-dns-rebind")
	for _, domain := range private(d) {
		w.line("rebind-domain-ok=/%s/", domain)
	}
	if len(d.Upstream) > 0 {
		w.line("no-resolv")
		for _, a := range d.Upstream {
			w.line("server=%s", a)
		}
	} else {
		w.line("resolv-file=%s", filepath.Join(w.dir, serverFile))
	}
	if d.Domain != "" {
		w.line("domain=%s", d.Domain)
		w.line("local=/%s/", d.Domain)
		w.line("expand-hosts")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Names)) {
		w.line("host-record=%s", record(name, d.Names[name], d.Domain))
	}
	for _, name := range slices.Sorted(maps.Keys(w.cfg.Services.Login)) { // portals have the address of the interface that is asked
		if l := w.cfg.Services.Login[name]; l.Name != "" {
			w.line("localise-queries")
			for _, i := range l.Interfaces {
				w.line("interface-name=%s,%s", l.Name, i)
			}
		}
	}
	w.fact("DNS on %s", strings.Join(d.Interfaces, ", "))
}

// private are the domains whose names may lead to private addresses: the own one, names with
// dots that are given here, and those that the operator lists.
func private(d *config.DNSForwarder) []string {
	list := slices.Clone(d.Private)
	if d.Domain != "" {
		list = append(list, d.Domain)
	}
	for name := range d.Names {
		if strings.Contains(name, ".") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// record is a name as dnsmasq takes it: one label also with the domain.
func record(name string, address netip.Addr, domain string) string {
	names := []string{name}
	if domain != "" && !strings.Contains(name, ".") {
		names = append(names, name+"."+domain)
	}
	return strings.Join(append(names, address.String()), ",")
}

func (w *text) dhcp() {
	servers := w.cfg.Services.DHCP
	if len(servers)+len(w.cfg.Services.DHCPv6) == 0 {
		return
	}
	w.line("dhcp-leasefile=%s", filepath.Join(w.dir, leaseFile))
	w.line("dhcp-lease-max=%d", leaseRoom(w.cfg))
	w.line("dhcp-authoritative") // hosts that come from elsewhere are told at once that their address is wrong
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		w.server(name, servers[name])
	}
}

// leastRoom is how many leases dnsmasq takes by itself.
const leastRoom = 1000

// mostRoom bounds the leases of an IPv6 pool, which may be larger than any memory.
const mostRoom = 1 << 16

// leaseRoom is how many leases there may be at once: every address of the pools, and every host that
// always gets the same one.
func leaseRoom(cfg *config.Config) uint64 {
	room := uint64(0)
	for _, d := range cfg.Services.DHCP {
		room += number(d.Pool.Last) - number(d.Pool.First) + 1 + uint64(len(d.Static))
	}
	for _, d := range cfg.Services.DHCPv6 {
		if d.Pool.First.IsValid() {
			room += min(number(d.Pool.Last)-number(d.Pool.First), mostRoom-1) + 1 + uint64(len(d.Static))
		}
	}
	return max(room, leastRoom)
}

// number is an address as one, of IPv6 the last 64 bits.
func number(a netip.Addr) (n uint64) {
	for _, b := range a.AsSlice() {
		n = n<<8 | uint64(b)
	}
	return n
}

// tag marks what belongs to an interface. The prefix keeps it from being a tag that dnsmasq sets itself,
// as known or bootp.
func tag(name string) string { return "net-" + name }

func (w *text) server(name string, d *config.DHCPServer) {
	own, _ := config.NetworkOf(w.cfg.Interfaces[name], d.Pool.First)
	w.line("dhcp-range=set:%s,%s,%s,%s,%d", tag(name), d.Pool.First, d.Pool.Last, netmask(own.Bits()), d.LeaseTime.Seconds())
	router := own.Addr()
	if d.Router.IsValid() {
		router = d.Router
	}
	w.line("dhcp-option=tag:%s,option:router,%s", tag(name), router)
	if servers := w.nameServers(name, own.Addr(), d); len(servers) > 0 {
		w.line("dhcp-option=tag:%s,option:dns-server,%s", tag(name), join(servers))
	} else {
		w.line("dhcp-option=tag:%s,option:dns-server", tag(name)) // none: dnsmasq would tell itself
	}
	if ntp := w.cfg.Services.NTP; ntp != nil && slices.Contains(ntp.Interfaces, name) {
		w.line("dhcp-option=tag:%s,option:ntp-server,%s", tag(name), own.Addr())
	}
	if len(d.Search) > 0 {
		w.line("dhcp-option=tag:%s,option:domain-search,%s", tag(name), strings.Join(d.Search, ","))
	}
	if api := w.cfg.PortalAPI(name); api != "" { // RFC 8910, section 2.1
		w.line("dhcp-option=tag:%s,114,%s", tag(name), api)
	}
	if b := d.Boot; b != nil {
		w.line("dhcp-boot=tag:%s,%s,,%s", tag(name), b.File, b.Server)
	}
	for _, host := range slices.Sorted(maps.Keys(d.Static)) {
		s := d.Static[host]
		w.line("dhcp-host=%s,%s,%s", s.MAC, s.Address, host)
		if dns := w.cfg.Services.DNS; dns != nil { // else the name is known only while it is leased
			w.line("host-record=%s", record(host, s.Address, dns.Domain))
		}
	}
	w.fact("DHCP on %s: %s", name, d.Pool)
}

// nameServers are those that hosts of an interface are told.
func (w *text) nameServers(name string, own netip.Addr, d *config.DHCPServer) []netip.Addr {
	dns := w.cfg.Services.DNS
	switch {
	case len(d.DNS) > 0:
		return d.DNS
	case dns != nil && slices.Contains(dns.Interfaces, name):
		return []netip.Addr{own}
	case dns == nil:
		return nil
	}
	var four []netip.Addr
	for _, a := range dns.Upstream {
		if a.Is4() && !a.IsLoopback() {
			four = append(four, a)
		}
	}
	return four
}

// netmask writes a prefix length of IPv4 as dnsmasq wants it.
func netmask(bits int) netip.Addr {
	all := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return netip.PrefixFrom(all, bits).Masked().Addr()
}

func join(list []netip.Addr) string {
	var words []string
	for _, a := range list {
		words = append(words, a.String())
	}
	return strings.Join(words, ",")
}
