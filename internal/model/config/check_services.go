// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// leasing checks the interfaces that ask a DHCP server for their address.
func (c *checker) leasing() {
	for _, name := range sortedKeys(c.cfg.Interfaces) {
		i, path := c.cfg.Interfaces[name], joinPath("interfaces", name)
		switch on := i.DHCP.On(); {
		case on && (c.cfg.Kind(name).Alone || c.cfg.Kind(name).Routed):
			c.refuse(path+".dhcp", name+" cannot be a DHCP client", "dhcp on a port or VLAN", "")
		case !on && i.DHCPv6 == nil && i.PPPoE == nil && c.cfg.Chosen(path+".dhcp-distance"):
			c.refuse(path+".dhcp-distance", "dhcp-distance without dhcp: on, dhcpv6 or pppoe", "both or neither", "")
		case on && c.sameDefault(c.vrfOf(name), i.DHCPDistance):
			c.refuse(path+".dhcp", fmt.Sprintf("a static default route has the distance %d too", i.DHCPDistance), "another dhcp-distance", "")
		}
	}
}

func (c *checker) sameDefault(vrf string, distance int) bool {
	return slices.ContainsFunc(c.cfg.Routing.Static, func(r StaticRoute) bool {
		return r.VRF == vrf && r.Prefix.Prefix == netip.PrefixFrom(netip.IPv4Unspecified(), 0) && r.Distance == distance
	})
}

func (c *checker) services() {
	c.admin()
	s := c.cfg.Services
	known := hosts{map[hostName]string{}, map[hostMAC]string{}}
	for _, name := range sortedKeys(s.DHCP) {
		path := joinPath("services.dhcp", name)
		if d := s.DHCP[name]; c.serves(path, name, "DHCP server") {
			c.dhcpServer(path, name, d, known)
		}
	}
	for _, name := range sortedKeys(s.RouterAdvertisements) {
		path := joinPath("services.router-advertisements", name)
		if r := s.RouterAdvertisements[name]; c.serves(path, name, "router advertisements") {
			c.advertisement(path, name, r)
		}
	}
	if s.DNS != nil {
		c.dns(s.DNS, known)
	}
	walk(reflect.ValueOf(&c.cfg.Services).Elem(), field{}, "services", func(v reflect.Value, _ field, path string) {
		if s, ok := v.Interface().(serviceSection); ok && !v.IsNil() {
			s.check(c, path)
		}
	})
}

// hosts are those with an address of their own, each VRF's for themselves.
type (
	hosts struct {
		names map[hostName]string // → where it stands
		macs  map[hostMAC]string  // → name
	}
	hostName struct{ vrf, name string }
	hostMAC  struct {
		vrf string
		mac MAC
	}
)

// serviceSection is a section of Services, by pointer, that says what it refuses.
type serviceSection interface{ check(c *checker, path string) }

// serves refuses an interface that can't have a service: that has no address of its own, or is the
// way to the network that gives us one, whose hosts are strangers.
func (c *checker) serves(path, name, what string) bool {
	i := c.cfg.Interfaces[name]
	switch {
	case i == nil:
	case c.cfg.Kind(name).Alone:
		c.refuse(path, name+" has no hosts to serve", "a port or VLAN", "")
	case i.DHCP.On():
		c.refuse(path, fmt.Sprintf("%s gets its address from a DHCP server, so this router cannot serve its hosts (%s)", name, what),
			"an interface with addresses of its own", "")
	case len(i.Addresses) == 0 && i.Delegated == nil:
		c.refuse(path, fmt.Sprintf("%s has no address for the %s", name, what), "addresses: under interfaces."+name, "")
	default:
		return true
	}
	return false
}

// servesAll checks a list of interfaces.
func (c *checker) servesAll(path string, list []string, what string) {
	for i, name := range list {
		c.serves(indexPath(path, i), name, what)
	}
	once(c, path, list, func(s string) string { return s })
}

// networkOf returns the network of an interface that contains an address, and the interface's
// address in it.
func (c *checker) networkOf(name string, a netip.Addr) (netip.Prefix, bool) {
	return NetworkOf(c.cfg.Interfaces[name], a)
}

// NetworkOf returns the interface's address, with its length, whose network contains an address.
func NetworkOf(i *Interface, a netip.Addr) (netip.Prefix, bool) {
	if i == nil {
		return netip.Prefix{}, false
	}
	for _, own := range i.Addresses {
		if own.Contains(a) {
			return own.Prefix, true
		}
	}
	return netip.Prefix{}, false
}

// ownNetworks names an interface's networks of a family for a message.
func (c *checker) ownNetworks(name string, four bool) string {
	var list []string
	for _, a := range c.cfg.Interfaces[name].Addresses {
		if a.Addr().Is4() == four {
			list = append(list, a.Masked().String())
		}
	}
	if len(list) == 0 {
		return "an IPv4 address under interfaces." + name + " first"
	}
	return "addresses in " + strings.Join(list, " or ") + " of " + name
}

func (c *checker) dhcpServer(path, name string, d *DHCPServer, known hosts) {
	vrf := c.vrfOf(name)
	own, ok := c.networkOf(name, d.Pool.First)
	switch {
	case !d.Pool.First.Is4():
		c.refuse(path+".pool", "DHCP gives IPv4 addresses only", "a range of IPv4 addresses; for IPv6 there are router-advertisements", "")
	case !ok || !own.Contains(d.Pool.Last):
		c.refuse(path+".pool", fmt.Sprintf("%s is not in a network of %s", d.Pool, name), c.ownNetworks(name, true), "")
	case d.Pool.Contains(own.Addr()):
		c.refuse(path+".pool", fmt.Sprintf("the pool contains the router's own address %s", own.Addr()), "a range without it", "")
	case edge(netip.PrefixFrom(d.Pool.First, own.Bits())) != "" || edge(netip.PrefixFrom(d.Pool.Last, own.Bits())) != "":
		c.refuse(path+".pool", fmt.Sprintf("the pool contains the network or broadcast address of %s", own.Masked()), "a range without them", "")
	}
	c.seconds(path+".lease-time", d.LeaseTime, 120, int((365*24*time.Hour)/time.Second))
	if d.Router.IsValid() && !own.Contains(d.Router) {
		c.refuse(path+".router", fmt.Sprintf("hosts of %s can't reach %s directly", name, d.Router), c.ownNetworks(name, true), "")
	}
	for i, a := range d.DNS {
		if !a.Is4() {
			c.refuse(indexPath(path+".dns", i), "DHCP can announce IPv4 addresses only", "an IPv4 address", "")
		}
	}
	c.announced(path, d)
	addresses := map[netip.Addr]string{}
	for _, host := range sortedKeys(d.Static) {
		at := joinPath(path+".static", host)
		c.hostLabel(at, host)
		s := d.Static[host]
		if s == nil {
			continue
		}
		if other, taken := known.names[hostName{vrf, host}]; taken {
			c.refuse(at, fmt.Sprintf("%[2]s already has the name %[1]s", host, other), "each name once", "")
		}
		if other, taken := known.macs[hostMAC{vrf, s.MAC}]; taken {
			c.refuse(at+".mac", fmt.Sprintf("%s has this MAC address already", other), "each MAC address once", "")
		}
		if other, taken := addresses[s.Address]; taken {
			c.refuse(at+".address", fmt.Sprintf("%s has this address already", other), "each address once", "")
		}
		if !own.Contains(s.Address) || !s.Address.Is4() {
			c.refuse(at+".address", fmt.Sprintf("%s is not in a network of %s", s.Address, name), c.ownNetworks(name, true), "")
		} else if s.Address == own.Addr() || edge(netip.PrefixFrom(s.Address, own.Bits())) != "" {
			c.refuse(at+".address", fmt.Sprintf("%s is the router's own address, or the network or broadcast address", s.Address), "another address", "")
		}
		known.names[hostName{vrf, host}], known.macs[hostMAC{vrf, s.MAC}], addresses[s.Address] = at, host, host
	}
}

// bootFile is a path as TFTP servers have it. The field of RFC 2131 holds 127 bytes and a zero.
var bootFile = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,127}$`)

// searchRoom is how many bytes of domains one option carries (RFC 2132, section 2); a domain costs its
// letters and two more.
const searchRoom = 255

// announced checks the options for hosts that are neither router nor DNS server.
func (c *checker) announced(path string, d *DHCPServer) {
	c.searchList(path+".search", d.Search)
	if b := d.Boot; b != nil {
		if b.Server.IsValid() && (!b.Server.Is4() || notUnicast(b.Server) != "") {
			c.refuse(path+".boot.server", fmt.Sprintf("%s is not the IPv4 address of a server", b.Server), "the IPv4 address of a TFTP server", "")
		}
		if b.File != "" && !bootFile.MatchString(b.File) {
			c.refuse(path+".boot.file", fmt.Sprintf("%q is not a valid boot file", abridge(b.File)), "at most 127 letters, digits, dots, dashes, underscores and slashes, as pxelinux.0", "")
		}
	}
}

// searchList checks a DNS search list.
func (c *checker) searchList(path string, list []string) {
	once(c, path, list, func(s string) string { return s })
	room := 0
	for i, domain := range list {
		if len(domain) > 253 || !hostname.MatchString(domain) {
			c.refuse(indexPath(path, i), fmt.Sprintf("%q is not a valid domain", abridge(domain)), "labels with dots between, as corp.example", nearestHostname(domain))
		}
		room += len(domain) + 2
	}
	if room > searchRoom {
		c.refuse(path, fmt.Sprintf("the list needs %d bytes; a DHCP option holds %d", room, searchRoom), "fewer or shorter domains", "")
	}
}

func (c *checker) advertisement(path, name string, r *RouterAdvertisement) {
	if len(r.Prefixes) == 0 && c.cfg.Interfaces[name].Delegated == nil {
		c.refuse(path+".prefixes", "no prefix to advertise", fmt.Sprintf("a network of length 64 of %[1]s, or delegated-prefix under interfaces.%[1]s", name), "")
	}
	once(c, path+".prefixes", r.Prefixes, func(p Prefix) string { return p.String() })
	for i, p := range r.Prefixes {
		at := indexPath(path+".prefixes", i)
		_, ok := c.networkOf(name, p.Addr())
		own := slices.ContainsFunc(c.cfg.Interfaces[name].Addresses, func(a Address) bool { return a.Masked() == p.Prefix })
		switch {
		case !p.Addr().Is6():
			c.refuse(at, "router advertisements are IPv6", "an IPv6 network of length 64", "")
		case p.Bits() != 64:
			c.refuse(at, fmt.Sprintf("hosts cannot form addresses in a network of length %d", p.Bits()), "a network of length 64 (RFC 4862)", "")
		case !ok || !own:
			c.refuse(at, fmt.Sprintf("%s has no address in %s", name, p), "an address of that network with length 64 under interfaces."+name, "")
		}
	}
	c.seconds(path+".lifetime", r.Lifetime, 120, int((30*24*time.Hour)/time.Second))
}

// leaseWord is what the DHCP server takes for a word or a lease time where a host's name stands
// (dnsmasq(8), --dhcp-host).
var leaseWord = regexp.MustCompile(`^(?:(?i:[0-9]+[smhdw]?)|ignore|infinite)$`)

// hostLabel refuses what is no name of a host without domain.
func (c *checker) hostLabel(path, name string) {
	if leaseWord.MatchString(name) {
		c.refuse(path, fmt.Sprintf("%q can't name a host: to the DHCP server it is a word or a time", name), "another name", "host-"+strings.ToLower(name))
		return
	}
	if len(name) > 63 || strings.Contains(name, ".") || !hostname.MatchString(name) {
		c.refuse(path, fmt.Sprintf("%q is not a valid host name", abridge(name)), "letters, digits and dashes", nearestHostname(strings.ReplaceAll(name, ".", "-")))
	}
}

func (c *checker) dns(d *DNSForwarder, known hosts) {
	const path = "services.dns"
	if len(d.Interfaces) == 0 {
		c.refuse(path+".interfaces", "the list of interfaces is empty", "interfaces whose hosts may send queries, or no services.dns", "")
	}
	c.servesAll(path+".interfaces", d.Interfaces, "DNS server")
	vrfs := map[string]bool{} // where it serves, "" for the main table
	for _, name := range d.Interfaces {
		vrfs[c.vrfOf(name)] = true
	}
	for _, vrf := range sortedKeys(vrfs) {
		switch {
		case len(d.Upstream) > 0 || c.leases(vrf):
		case vrf == "":
			c.refuse(path+".upstream", "DNS has no upstream server, and no interface with dhcp: on, dhcpv6 or pppoe could get one", "upstream: [ADDRESS, …]", "")
		default:
			c.refuse(path+".upstream", fmt.Sprintf("DNS in VRF %s has no upstream server, and no interface with dhcp: on, dhcpv6 or pppoe in it could get one", vrf), "upstream: [ADDRESS, …]", "")
		}
	}
	once(c, path+".upstream", d.Upstream, netip.Addr.String)
	for i, a := range d.Upstream {
		own := slices.ContainsFunc(sortedKeys(vrfs), func(vrf string) bool { return c.owners[place{vrf, a}] != "" })
		if own || notUnicast(a) != "" && !a.IsLoopback() {
			c.refuse(indexPath(path+".upstream", i), fmt.Sprintf("%s is not the address of another server", a), "the address of a DNS server", "")
		}
	}
	if d.Domain != "" && !hostname.MatchString(d.Domain) {
		c.refuse(path+".domain", fmt.Sprintf("%q is not a valid domain", abridge(d.Domain)), "labels with dots between, as home.arpa", nearestHostname(d.Domain))
	}
	once(c, path+".private-domains", d.Private, func(s string) string { return s })
	for i, domain := range d.Private {
		if len(domain) > 253 || !hostname.MatchString(domain) {
			c.refuse(indexPath(path+".private-domains", i), fmt.Sprintf("%q is not a valid domain", abridge(domain)), "labels with dots between, as corp.example", nearestHostname(domain))
		}
	}
	for _, name := range sortedKeys(d.Names) {
		at := joinPath(path+".names", name)
		if len(name) > 253 || !hostname.MatchString(name) {
			c.refuse(at, fmt.Sprintf("%q is not a valid name", abridge(name)), "labels of letters, digits and dashes with dots between", nearestHostname(name))
		} else if _, err := netip.ParseAddr(name); err == nil || strings.Trim(name, "0123456789") == "" {
			c.refuse(at, fmt.Sprintf("%q is a number or an address, not a name", name), "a name with a letter in its last part (RFC 1123)", "")
		}
		for _, vrf := range sortedKeys(vrfs) {
			if other, taken := known.names[hostName{vrf, name}]; taken {
				c.refuse(at, fmt.Sprintf("%[2]s already has the name %[1]s", name, other), "each name once", "")
			}
		}
	}
}

// leases says whether some interface of a VRF, "" for the main table, learns its address and DNS servers from a provider.
func (c *checker) leases(vrf string) bool {
	for name, i := range c.cfg.Interfaces {
		if c.vrfOf(name) == vrf && i.leases() {
			return true
		}
	}
	return false
}

// leases says whether an interface learns its address and DNS servers from a provider.
func (i *Interface) leases() bool { return i.DHCP.On() || i.DHCPv6 != nil || i.PPPoE != nil }

func (n *NTP) check(c *checker, path string) {
	if len(n.Servers) == 0 {
		c.refuse(path+".servers", "NTP has no server", "servers: [2.debian.pool.ntp.org]", "")
	}
	once(c, path+".servers", n.Servers, func(s string) string { return s })
	for i, s := range n.Servers {
		if _, err := netip.ParseAddr(s); err != nil && (len(s) > 253 || !hostname.MatchString(s)) {
			c.refuse(indexPath(path+".servers", i), fmt.Sprintf("%q is neither a name nor an address", abridge(s)), "as 2.debian.pool.ntp.org or 192.0.2.123", "")
		}
	}
	if c.cfg.Interfaces[n.VRF] != nil && c.cfg.Kind(n.VRF).Name != "vrf" {
		c.refuse(path+".vrf", n.VRF+" is no VRF", "an interface with vrf: {table: N}", "")
	}
	c.servesAll(path+".interfaces", n.Interfaces, "NTP server")
}

func (s *SSH) check(c *checker, path string) {
	if len(s.Interfaces) == 0 {
		c.refuse(path+".interfaces", "the list of interfaces is empty", "interfaces for SSH, or no services.ssh", "")
	}
	c.servesAll(path+".interfaces", s.Interfaces, "SSH server")
	admin := c.cfg.System.Admin
	switch {
	case !s.Passwords.On() && len(admin.SSHKeys) == 0:
		c.refuse(path, "SSH has no way to log in: no key, and passwords are off", "system.admin.ssh-keys, or passwords: on", "")
	case s.Passwords.On() && admin.Password == "" && len(admin.SSHKeys) == 0:
		c.refuse(path+".passwords", "SSH has no way to log in: admin has no password", "system.admin.password, or system.admin.ssh-keys", "")
	}
}

// hashForm is a password's hash as crypt(5) writes it, of the kinds that are not broken.
var hashForm = regexp.MustCompile(`^\$(5|6|y|gy|2b|7)\$[./A-Za-z0-9$=,]{8,200}$`)

func (c *checker) admin() {
	a := c.cfg.System.Admin
	if a.Password != "" {
		const path = "system.admin.password"
		if hash, ok := c.secrets.Get(a.Password); ok && !hashForm.MatchString(hash) {
			c.refuse(path, "the secret is not a password hash", "what `busybox mkpasswd -m sha512` prints, beginning with $6$", "")
		}
	}
	once(c, "system.admin.ssh-keys", a.SSHKeys, func(string) string { return "the key" })
	for i, key := range a.SSHKeys {
		if why := notSSHKey(key); why != "" {
			c.refuse(indexPath("system.admin.ssh-keys", i), why, "a line as in id_ed25519.pub: ssh-ed25519 AAAA… name", "")
		}
	}
}

// sshKeyKinds are the kinds of keys that sshd takes by default.
var sshKeyKinds = []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
	"sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"}

// notSSHKey says why a text is no public key for authorized_keys(5), or "". A private key pasted by
// mistake is not repeated.
func notSSHKey(text string) string {
	if strings.Contains(text, "PRIVATE KEY") {
		return "this is a private key: keep it secret and write the public key here"
	}
	words := strings.Fields(text)
	if len(words) < 2 || !slices.Contains(sshKeyKinds, words[0]) {
		return fmt.Sprintf("%q is not a public key", abridge(text))
	}
	blob, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil || len(blob) < 4 {
		return "the key is cut off or mistyped"
	}
	n := int(binary.BigEndian.Uint32(blob)) // RFC 4253 section 6.6: the kind again, with its length
	if n != len(words[0]) || len(blob) < 4+n+16 || string(blob[4:4+n]) != words[0] {
		return "the key is cut off or mistyped"
	}
	return ""
}

// CheckSSHKey says what is wrong with a public key, for those who ask for one.
func CheckSSHKey(text string) error {
	if why := notSSHKey(text); why != "" {
		return fmt.Errorf("%s; expected a line as in id_ed25519.pub", why)
	}
	return nil
}
