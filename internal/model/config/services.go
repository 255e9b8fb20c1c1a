// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// What the router does for its neighbours and for who looks after it. A service is
// on where an interface is named and nowhere else, and opens the firewall there itself.

// Services are the programs beside routing: addresses, names, time, and a login.
type Services struct {
	DHCP                 map[string]*DHCPServer          `yaml:"dhcp" json:"dhcp,omitempty" doc:"DHCP servers (RFC 2131) by interface."`
	RouterAdvertisements map[string]*RouterAdvertisement `yaml:"router-advertisements" json:"router-advertisements,omitempty" doc:"IPv6 router advertisements (RFC 4861) by interface: hosts make themselves addresses from the prefixes told."`
	DNS                  *DNSForwarder                   `yaml:"dns" json:"dns,omitempty" doc:"DNS for the hosts around: answers from memory, asks servers upstream, knows the names given here and those of DHCP clients."`
	NTP                  *NTP                            `yaml:"ntp" json:"ntp,omitempty" doc:"Time: the router's own, and for others when asked."`
	SSH                  *SSH                            `yaml:"ssh" json:"ssh,omitempty" doc:"Login of the user admin over the network. Absent: none."`
}

// Admin is the user admin of a router that owns its host.
type Admin struct {
	Password string   `yaml:"password" json:"password,omitempty" doc:"Name of the secret that holds the hash of the password, as crypt(5) writes it ($6$…). Absent: the password is left alone." secret:"true"`
	SSHKeys  []string `yaml:"ssh-keys" json:"ssh-keys,omitempty" doc:"Public keys that may log in by SSH, as in a file id_ed25519.pub." example:"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat@laptop"`
}

// DHCPServer gives addresses to the hosts of one interface.
type DHCPServer struct {
	Pool      AddressRange            `yaml:"pool" json:"pool" doc:"First and last address to give." required:"true" example:"192.0.2.100-192.0.2.199"`
	LeaseTime Duration                `yaml:"lease-time" json:"lease-time,omitempty" doc:"How long a host may keep an address without asking again." default:"12h"`
	Router    netip.Addr              `yaml:"router" json:"router,omitzero" doc:"The default router told to hosts. Absent: this one."`
	DNS       []netip.Addr            `yaml:"dns" json:"dns,omitempty" doc:"DNS servers told to hosts. Absent: this router where it serves DNS, else services.dns.upstream." ordered:"true"`
	Static    map[string]*StaticLease `yaml:"static" json:"static,omitempty" doc:"Hosts that always get the same address, by their name, which DNS then knows."`
}

// StaticLease ties an address to a host.
type StaticLease struct {
	MAC     MAC        `yaml:"mac" json:"mac" doc:"The host's MAC address." required:"true"`
	Address netip.Addr `yaml:"address" json:"address" doc:"Its address, in the network of the interface, best outside the pool." required:"true"`
}

// RouterAdvertisement is IPv6 for the hosts of one interface.
type RouterAdvertisement struct {
	Prefixes      []Prefix `yaml:"prefixes" json:"prefixes" doc:"Networks of length 64 in which hosts make themselves addresses; the interface has an address in each." required:"true" example:"2001:db8:0:1::/64"`
	DefaultRouter *OnOff   `yaml:"default-router" json:"default-router,omitempty" doc:"Whether hosts use this router for all of IPv6: off where it has no way out itself." default:"on" enum:"on,off"`
	Lifetime      Duration `yaml:"lifetime" json:"lifetime,omitempty" doc:"How long hosts keep addresses of a prefix that is told no more." default:"12h"`
}

// DNSForwarder is the DNS server for the hosts around.
type DNSForwarder struct {
	Interfaces []string              `yaml:"interfaces" json:"interfaces" doc:"Interfaces whose hosts may ask." required:"true" example:"lan"`
	Upstream   []netip.Addr          `yaml:"upstream" json:"upstream,omitempty" doc:"Servers to ask. Absent: those that a DHCP server told an interface with dhcp: on." example:"192.0.2.53"`
	Domain     string                `yaml:"domain" json:"domain,omitempty" doc:"Domain of the hosts here; it is told to DHCP clients, and their names in it are known." example:"home.arpa"`
	Names      map[string]netip.Addr `yaml:"names" json:"names,omitempty" doc:"Addresses by name: a label is a host in the domain, a name with dots is taken whole."`
	Private    []string              `yaml:"private-domains" json:"private-domains,omitempty" doc:"Domains that servers upstream may answer for with private addresses. For all others such answers are dropped, since by them a page on the Internet could reach into the network here (DNS rebinding). The domain above is one of them." example:"corp.example"`
	Cache      int                   `yaml:"cache" json:"cache,omitempty" doc:"Answers kept in memory." default:"1000" min:"1" max:"100000"`
}

// NTP is time by chrony.
type NTP struct {
	Servers    []string `yaml:"servers" json:"servers,omitempty" doc:"Time servers by name or address. A name may stand for several, of which up to four are used." example:"2.debian.pool.ntp.org"`
	Interfaces []string `yaml:"interfaces" json:"interfaces,omitempty" doc:"Interfaces whose hosts may ask this router for the time. Absent: none." example:"lan"`
}

// SSH is the login over the network. The WAN is never meant: an interface is named or stays shut.
type SSH struct {
	Interfaces []string `yaml:"interfaces" json:"interfaces" doc:"Interfaces with a fixed address on which logins are taken." required:"true" example:"lan"`
	Port       int      `yaml:"port" json:"port,omitempty" doc:"TCP port." default:"22" min:"1" max:"65535"`
	Passwords  *OnOff   `yaml:"passwords" json:"passwords,omitempty" doc:"Whether the password of admin is enough. Off: only a key of system.admin.ssh-keys is." default:"off" enum:"on,off"`
}
