// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// What the router does for its neighbours and for who looks after it. A service is
// on where an interface is named and nowhere else, and opens the firewall there itself.

// Services are the programs beside routing: addresses, names, time, and a login.
type Services struct {
	DHCP                 map[string]*DHCPServer          `yaml:"dhcp" json:"dhcp,omitempty" doc:"DHCP servers (RFC 2131) by interface." names:"interface"`
	DHCPRelay            map[string]*DHCPRelay           `yaml:"dhcp-relay" json:"dhcp-relay,omitempty" doc:"DHCP relays (RFC 1542) by interface: servers elsewhere give the hosts addresses." names:"interface"`
	RouterAdvertisements map[string]*RouterAdvertisement `yaml:"router-advertisements" json:"router-advertisements,omitempty" doc:"IPv6 router advertisements (RFC 4861) by interface: hosts form addresses from the advertised prefixes (SLAAC)." names:"interface"`
	IRDP                 map[string]*IRDP                `yaml:"irdp" json:"irdp,omitempty" doc:"ICMP router discovery (RFC 1256) by interface: IPv4 hosts that listen find their default router." names:"interface"`
	DHCPv6               map[string]*DHCPv6Server        `yaml:"dhcpv6" json:"dhcpv6,omitempty" doc:"DHCPv6 servers (RFC 8415) by interface, beside router-advertisements: {} tells hosts DNS servers, a pool gives them addresses." names:"interface"`
	DNS                  *DNSForwarder                   `yaml:"dns" json:"dns,omitempty" doc:"Caching DNS server. It forwards to upstream servers and knows the names below and those of DHCP clients."`
	NTP                  *NTP                            `yaml:"ntp" json:"ntp,omitempty" doc:"NTP client for the router's clock, and NTP server for hosts."`
	SSH                  *SSH                            `yaml:"ssh" json:"ssh,omitempty" doc:"SSH server for the user admin. Absent: no SSH."`
	LLDP                 *LLDP                           `yaml:"lldp" json:"lldp,omitempty" doc:"LLDP (IEEE 802.1AB): the router announces its name and port to its neighbours on a cable, and shows theirs. Absent: no LLDP."`
	Login                map[string]*Login               `yaml:"login" json:"login,omitempty" doc:"Networks whose hosts reach only a login page until somebody logs in on them, by name."`
	Web                  *Web                            `yaml:"web" json:"web,omitempty" doc:"Web page and API over HTTPS. Absent: neither."`
	Syslog               map[string]*SyslogServer        `yaml:"syslog" json:"syslog,omitempty" doc:"Syslog servers (RFC 5424), each under a name that you choose: the router sends its log there, alarms and commits too."`
	Webhooks             map[string]*Webhook             `yaml:"webhooks" json:"webhooks,omitempty" doc:"Web servers that are told of alarms, each under a name that you choose."`
	Metrics              *Metrics                        `yaml:"metrics" json:"metrics,omitempty" doc:"Figures for Prometheus at /metrics. Absent: none."`
}

// Admin is the user admin of a router that owns its host.
type Admin struct {
	Password string   `yaml:"password" json:"password,omitempty" doc:"Name of the secret that holds the password's hash in the format of crypt(5) ($6$…). Absent: the password does not change." names:"secret"`
	SSHKeys  []string `yaml:"ssh-keys" json:"ssh-keys,omitempty" doc:"Public keys that may log in by SSH, one line each, as in id_ed25519.pub." example:"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat@laptop"`
}

// DHCPServer gives addresses to the hosts of one interface.
type DHCPServer struct {
	Pool      AddressRange            `yaml:"pool" json:"pool" doc:"First and last address of the pool." required:"true" example:"192.0.2.100-192.0.2.199"`
	LeaseTime Duration                `yaml:"lease-time" json:"lease-time,omitempty" doc:"DHCP lease time." default:"12h"`
	Router    netip.Addr              `yaml:"router" json:"router,omitzero" doc:"Default router option. Absent: this router."`
	DNS       []netip.Addr            `yaml:"dns" json:"dns,omitempty" doc:"DNS servers option. Absent: this router if it serves DNS on the interface, else services.dns.upstream." ordered:"true"`
	Search    []string                `yaml:"search" json:"search,omitempty" doc:"DNS search list option (RFC 3397): domains in which hosts look for names without dots." example:"corp.example" ordered:"true"`
	Boot      *NetworkBoot            `yaml:"boot" json:"boot,omitempty" doc:"Network boot (PXE): where hosts without a system load one from. Absent: no network boot."`
	Static    map[string]*StaticLease `yaml:"static" json:"static,omitempty" doc:"Static leases (reservations) by host name. DNS knows these names."`
}

// NetworkBoot is where hosts load their system from: the fields siaddr and file of RFC 2131, section 2.
type NetworkBoot struct {
	Server netip.Addr `yaml:"server" json:"server" doc:"IPv4 address of the TFTP server." required:"true" example:"192.0.2.20"`
	File   string     `yaml:"file" json:"file" doc:"Boot file on that server." required:"true" example:"pxelinux.0"`
}

// StaticLease ties an address to a host.
type StaticLease struct {
	MAC     MAC        `yaml:"mac" json:"mac" doc:"The host's MAC address." required:"true"`
	Address netip.Addr `yaml:"address" json:"address" doc:"The host's address, in the interface's network, preferably outside the pool." required:"true"`
}

// RouterAdvertisement is IPv6 for the hosts of one interface.
type RouterAdvertisement struct {
	Prefixes      []Prefix `yaml:"prefixes" json:"prefixes,omitempty" doc:"Advertised prefixes of length 64. The interface must have an address in each. The delegated prefix of the interface is advertised without being written here." example:"2001:db8:0:1::/64"`
	DefaultRouter *OnOff   `yaml:"default-router" json:"default-router,omitempty" doc:"Advertises this router as a default router. Set it to off where the router has no IPv6 route to the Internet." default:"on" enum:"on,off"`
	Lifetime      Duration `yaml:"lifetime" json:"lifetime,omitempty" doc:"Valid lifetime: how long hosts keep their addresses after the last advertisement of the prefix." default:"12h"`
}

// DNSForwarder is the DNS server for the hosts around.
type DNSForwarder struct {
	Interfaces []string              `yaml:"interfaces" json:"interfaces" doc:"Interfaces whose hosts may send DNS queries." required:"true" example:"lan" names:"interface"`
	Upstream   []netip.Addr          `yaml:"upstream" json:"upstream,omitempty" doc:"Upstream DNS servers (forwarders). Absent: the provider's, from interfaces with dhcp: on, dhcpv6 or pppoe. Hosts of a VRF are answered by way of the VRF, from its own providers' servers when this is absent." example:"192.0.2.53"`
	Domain     string                `yaml:"domain" json:"domain,omitempty" doc:"Local domain. DHCP clients get it, and DNS knows their names in it." example:"home.arpa"`
	Names      map[string]netip.Addr `yaml:"names" json:"names,omitempty" doc:"Host records: addresses by name. A name without dots is a host in the domain; a name with dots is complete."`
	Private    []string              `yaml:"private-domains" json:"private-domains,omitempty" doc:"Domains for which upstream servers may answer with private addresses, besides the local domain. Such answers for other domains are dropped (protection against DNS rebinding)." example:"corp.example"`
	Cache      int                   `yaml:"cache" json:"cache,omitempty" doc:"Cache size in answers." default:"1000" min:"1" max:"100000"`
}

// NTP is time by chrony.
type NTP struct {
	Servers    []string `yaml:"servers" json:"servers,omitempty" doc:"NTP servers by name or address. Of a name with several addresses, up to four are used." example:"2.debian.pool.ntp.org"`
	VRF        string   `yaml:"vrf" json:"vrf,omitempty" doc:"The VRF by whose routes the servers are asked. Absent: the main table. Names of servers are asked of the DNS servers of the main table." names:"interface"`
	Interfaces []string `yaml:"interfaces" json:"interfaces,omitempty" doc:"Interfaces whose hosts may use this router as an NTP server, also in VRFs. Absent: none." example:"lan" names:"interface"`
}

// SSH is the login over the network. The WAN is never meant: an interface is named or stays shut.
type SSH struct {
	Interfaces []string `yaml:"interfaces" json:"interfaces" doc:"Interfaces with a fixed address on which SSH listens." required:"true" example:"lan" names:"interface"`
	Port       int      `yaml:"port" json:"port,omitempty" doc:"TCP port." default:"22" min:"1" max:"65535"`
	Passwords  *OnOff   `yaml:"passwords" json:"passwords,omitempty" doc:"Allows login with the password of admin. Off: only with a key of system.admin.ssh-keys." default:"off" enum:"on,off"`
}
