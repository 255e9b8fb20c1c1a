// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"minne/internal/base/ipnet"
)

// Login is a network whose hosts reach nothing but a login page, until somebody logs in on them.
type Login struct {
	Interfaces []string     `yaml:"interfaces" json:"interfaces" doc:"Interfaces whose hosts have to log in. Each has a zone, and all interfaces of that zone belong to the same login." required:"true" example:"dorm" names:"interface"`
	Users      []string     `yaml:"users" json:"users" doc:"Who may log in: local (users-file), vouchers (minne login voucher), radius (section radius)." required:"true" example:"vouchers"`
	UsersFile  string       `yaml:"users-file" json:"users-file,omitempty" doc:"File with a user a line, NAME:HASH, as minne login hash prints it. Hashes are those of crypt(5) ($6$…, $y$…, $2b$…). The file is readable by root only." example:"users.txt" names:"file"`
	RADIUS     *LoginRADIUS `yaml:"radius" json:"radius,omitempty" doc:"RADIUS servers that know the users."`
	Title      string       `yaml:"title" json:"title,omitempty" doc:"Title of the login page." example:"Village network" default:"Network login"`
	Terms      string       `yaml:"terms" json:"terms,omitempty" doc:"File with terms of use, plain text with an empty line between paragraphs. Users have to agree." example:"terms.txt" names:"file"`
	Name       string       `yaml:"name" json:"name,omitempty" doc:"Name of the portal. The router's DNS leads it to the portal, and redirects name it. Absent: redirects name the router's address." example:"login.campus.example"`
	Cert       string       `yaml:"certificate" json:"certificate,omitempty" doc:"File with the certificate of the portal's name and those above it (PEM): the portal is then reached by HTTPS. A relative path starts at the configuration's directory. Absent: plain HTTP." names:"file" example:"portal.pem"`
	Key        string       `yaml:"key" json:"key,omitempty" doc:"File with the certificate's private key (PEM), mode 0600." names:"file" example:"portal.key"`
	ACME       *ACME        `yaml:"acme" json:"acme,omitempty" doc:"A certificate authority that gives the portal its certificate, in the place of files."`
	Free       []string     `yaml:"free" json:"free,omitempty" doc:"Walled garden: what hosts reach without a login. Addresses, prefixes, sets as @NAME, and DNS names, whose addresses are followed." example:"portal.campus.example"`
	Time       Duration     `yaml:"time" json:"time,omitempty" doc:"How long a session of a user lasts, 1 minute to 365 days. A voucher has a time of its own. Absent: until logout."`
	Idle       Duration     `yaml:"idle" json:"idle,omitempty" doc:"Without traffic for this time, a session ends. 1 minute to 24 hours." default:"30m"`
	Quota      string       `yaml:"quota" json:"quota,omitempty" doc:"What a user may send and receive together in a calendar month, with all devices, as 100GB/month. A voucher has bytes of its own. Absent: any number." example:"100GB/month"`
	Rate       *LoginRate   `yaml:"rate" json:"rate,omitempty" doc:"Speed of each user, for all devices together. A RADIUS server may give another one. The kernel forwards all packets of the login's interfaces then, because the fast path has no queues. Absent: no bound, whatever RADIUS says."`
	Devices    int          `yaml:"devices" json:"devices,omitempty" doc:"Devices that one user may have logged in at the same time. A voucher has a number of its own." default:"3" min:"1" max:"100"`
	Attempts   int          `yaml:"attempts" json:"attempts,omitempty" doc:"Failed logins of a host within a minute, or of an account, after which it has to wait." default:"3" min:"1" max:"100"`
	Lockout    Duration     `yaml:"lockout" json:"lockout,omitempty" doc:"How long it has to wait. 1 minute to 24 hours." default:"15m"`
}

// LoginRate is the speed of a user.
type LoginRate struct {
	Down Rate `yaml:"down" json:"down" doc:"Speed to the user, in bits of Ethernet frames a second." required:"true" example:"50Mbit"`
	Up   Rate `yaml:"up" json:"up" doc:"Speed from the user." required:"true" example:"20Mbit"`
}

// In says whether a speed is one that the router can give.
func (r LoginRate) In() bool {
	return min(r.Down, r.Up) >= leastShaped && max(r.Down, r.Up) <= mostShaped
}

// LoginRADIUS is who is asked about users (RFC 2865), and told of sessions (RFC 2866).
type LoginRADIUS struct {
	Servers    []netip.Addr `yaml:"servers" json:"servers" doc:"RADIUS servers. The next one is asked when one does not answer." required:"true" example:"192.0.2.53" ordered:"true"`
	Secret     string       `yaml:"secret" json:"secret" doc:"Name of the secret that the servers share with this router." required:"true" names:"secret"`
	Port       int          `yaml:"port" json:"port,omitempty" doc:"UDP port for authentication; accounting uses the next one." default:"1812" min:"1" max:"65534"`
	Method     string       `yaml:"method" json:"method,omitempty" doc:"How passwords are sent: pap or chap." default:"chap" enum:"pap,chap"`
	Accounting *OnOff       `yaml:"accounting" json:"accounting,omitempty" doc:"Tells the servers when sessions begin and end, and every interim interval what they have transferred." default:"on" enum:"on,off"`
	Interim    Duration     `yaml:"interim" json:"interim,omitempty" doc:"Interim interval, 1 minute to 24 hours. A server may give another one." default:"10m"`
	MAC        *OnOff       `yaml:"mac" json:"mac,omitempty" doc:"Asks the servers about the MAC address of each unknown host, as user and password (aabbccddeeff), so that printers need no login." default:"off" enum:"on,off"`
	Changes    *OnOff       `yaml:"changes" json:"changes,omitempty" doc:"Lets the servers end sessions and change their limits (RFC 5176, UDP port 3799)." default:"off" enum:"on,off"`
}

// loginName keeps the names of the sets that it gives the firewall short.
var loginName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,15}$`)

// LoginSet is the set of the firewall with the addresses of the hosts that are logged in, LoginFree that with the addresses of the
// names of the walled garden.
func LoginSet(name string) string  { return "login-" + name }
func LoginFree(name string) string { return "login-" + name + "-free" }

// LoginOf is the login that an interface's hosts need, "" for none.
func (c *Config) LoginOf(iface string) string {
	for _, name := range sortedKeys(c.Services.Login) {
		if l := c.Services.Login[name]; l != nil && slices.Contains(l.Interfaces, iface) {
			return name
		}
	}
	return ""
}

// HTTPS says whether the portal has a certificate.
func (l *Login) HTTPS() bool { return l.Cert != "" || l.ACME != nil }

// PortalAPI is where a portal tells the systems of its hosts what state they are in (RFC 8908), "" where that can't be: it takes HTTPS.
func (l *Login) PortalAPI() string {
	if l == nil || !l.HTTPS() {
		return ""
	}
	return "https://" + l.Name + "/captive-portal/api"
}

// PortalAPI is that of an interface's login.
func (c *Config) PortalAPI(iface string) string {
	return c.Services.Login[c.LoginOf(iface)].PortalAPI()
}

// quotaForm is how a quota is written.
var quotaForm = regexp.MustCompile(`^([1-9][0-9]{0,8})(MB|GB|TB)/month$`)

// QuotaBytes is what a user may transfer in a month; 0 for any number.
func (l *Login) QuotaBytes() uint64 {
	part := quotaForm.FindStringSubmatch(l.Quota)
	if part == nil {
		return 0
	}
	n, _ := strconv.ParseUint(part[1], 10, 64)
	return n * map[string]uint64{"MB": 1e6, "GB": 1e9, "TB": 1e12}[part[2]]
}

// GardenNames are the DNS names of a walled garden.
func (l *Login) GardenNames() (list []string) {
	for _, f := range l.Free {
		if _, err := ipnet.Parse(f); err != nil && !strings.HasPrefix(f, "@") {
			list = append(list, f)
		}
	}
	return list
}

func (l *Login) check(c *checker, path string) {
	name := path[strings.LastIndex(path, ".")+1:]
	if !loginName.MatchString(name) {
		c.refuse(path, fmt.Sprintf("%q can't name a login", abridge(name)), "a small letter, then small letters, digits and dashes, at most 16 in all", "")
	}
	if len(l.Interfaces) == 0 {
		c.refuse(path+".interfaces", "the list of interfaces is empty", "interfaces whose hosts have to log in, or no login", "")
	}
	c.servesAll(path+".interfaces", l.Interfaces, "login")
	for i, iface := range l.Interfaces {
		c.loginInterface(indexPath(path+".interfaces", i), name, iface)
	}
	l.checkUsers(c, path)
	l.checkFree(c, path)
	l.checkHTTPS(c, path)
	if l.Name != "" && (!hostname.MatchString(l.Name) || !strings.Contains(l.Name, ".") || len(l.Name) > 253) {
		c.refuse(path+".name", fmt.Sprintf("%q is not a valid name of a portal", abridge(l.Name)), "labels with dots between, as login.campus.example", nearestHostname(l.Name))
	}
	if len(l.Title) > 60 {
		c.refuse(path+".title", "the title is longer than 60 bytes", "a short title", "")
	}
	if c.cfg.Chosen(path + ".time") {
		c.seconds(path+".time", l.Time, 60, int((365*24*time.Hour)/time.Second))
	}
	if l.Quota != "" && l.QuotaBytes() == 0 {
		c.refuse(path+".quota", fmt.Sprintf("%q is no quota", abridge(l.Quota)), "a number of MB, GB or TB in a month, as 100GB/month", "")
	}
	if l.Rate != nil {
		for _, rate := range []struct {
			key string
			to  Rate
		}{{"down", l.Rate.Down}, {"up", l.Rate.Up}} {
			if rate.to < leastShaped || rate.to > mostShaped {
				c.refuse(path+".rate."+rate.key, fmt.Sprintf("%s is no speed of a user", rate.to), fmt.Sprintf("%s to %s", leastShaped, mostShaped), "")
			}
		}
		for _, name := range l.Interfaces {
			if c.cfg.Interfaces[name] != nil && !c.cfg.Interfaces[name].Subscribers.On() {
				c.queues(path+".rate", name, "the rate")
			}
		}
	}
	c.seconds(path+".idle", l.Idle, 60, 24*3600)
	c.seconds(path+".lockout", l.Lockout, 60, 24*3600)
}

// loginInterface refuses an interface with which nobody could be kept back, or told apart.
func (c *checker) loginInterface(at, login, iface string) {
	i, kind := c.cfg.Interfaces[iface], c.cfg.Kind(iface)
	if i == nil {
		return
	}
	dns := c.cfg.Services.DNS
	switch {
	case kind.Routed:
		c.refuse(at, iface+" has no MAC addresses, by which hosts are told apart", "a port, VLAN, bond or bridge", "")
	case i.Zone == "":
		c.refuse(at, iface+" has no zone, so the firewall can't keep its hosts back", "zone: NAME under interfaces."+iface, "")
	case dns == nil || !slices.Contains(dns.Interfaces, iface):
		c.refuse(at, iface+" has no DNS server, without which no host finds the login page", iface+" in services.dns.interfaces", "")
	case c.vrfOf(iface) != "":
		c.refuse(at, iface+" is in a VRF, where login is not supported", "an interface of the main table", "")
	}
	for other, o := range c.cfg.Interfaces {
		if other != iface && i.Zone != "" && o.Zone == i.Zone && c.cfg.LoginOf(other) != login {
			c.refuse(at, fmt.Sprintf("%s is in zone %s too, and its hosts need no login", other, i.Zone), "a zone of its own for interfaces with a login", "")
			break
		}
	}
	if c.cfg.LoginOf(iface) != login {
		c.refuse(at, fmt.Sprintf("%s belongs to login %s already", iface, c.cfg.LoginOf(iface)), "each interface once", "")
	}
}

// checkHTTPS refuses a certificate without what belongs to it, and two services at one port.
func (l *Login) checkHTTPS(c *checker, path string) {
	switch {
	case l.Cert != "" && l.Key == "":
		c.refuse(path+".certificate", "a certificate without its private key", "key: FILE", "")
	case l.Key != "" && l.Cert == "":
		c.refuse(path+".key", "a private key without its certificate", "certificate: FILE", "")
	case l.Cert != "" && l.ACME != nil:
		c.refuse(path+".acme", "the certificate comes from a file already", "either certificate and key, or acme", "")
	}
	if l.ACME != nil {
		l.ACME.check(c, path+".acme")
	}
	if l.HTTPS() && l.Name == "" {
		c.refuse(path, "HTTPS needs the portal's name, for which the certificate is", "name: login.campus.example", "")
	}
	ports := []int{80}
	if l.HTTPS() {
		ports = append(ports, 443)
	}
	for _, iface := range l.Interfaces {
		if w := c.cfg.Services.Web; w != nil && slices.Contains(ports, w.Port) && slices.Contains(w.Interfaces, iface) {
			c.refuse(path, fmt.Sprintf("the login page needs port %d on %s, where the web page has it", w.Port, iface), "port: 8443 under services.web, or not "+iface+" in its interfaces", "")
		}
	}
	if s := c.cfg.Services.SSH; s != nil && slices.Contains(ports, s.Port) {
		c.refuse(path, fmt.Sprintf("the login page needs port %d, which SSH has", s.Port), "another port of services.ssh", "")
	}
}

// oddLogins warns of portals by plain HTTP.
func (c *checker) oddLogins() {
	for _, name := range sortedKeys(c.cfg.Services.Login) {
		if !c.cfg.Services.Login[name].HTTPS() {
			c.refuse("services.login."+name, "the portal has no certificate: anybody on the network can read passwords and codes, and phones are not told where the portal is (RFC 8910), which needs HTTPS", "", "")
		}
	}
}

func (l *Login) checkUsers(c *checker, path string) {
	once(c, path+".users", l.Users, func(s string) string { return s })
	if len(l.Users) == 0 {
		c.refuse(path+".users", "nobody may log in", "local, vouchers, radius, or several of them", "")
	}
	kinds := []string{"local", "vouchers", "radius"}
	for i, u := range l.Users {
		if !slices.Contains(kinds, u) {
			c.refuse(indexPath(path+".users", i), fmt.Sprintf("%q is no kind of users", abridge(u)), "local, vouchers or radius", Nearest(u, kinds))
		}
	}
	for _, need := range []struct {
		kind, key string
		there     bool
	}{{"local", "users-file", l.UsersFile != ""}, {"radius", "radius", l.RADIUS != nil}} {
		switch {
		case slices.Contains(l.Users, need.kind) && !need.there:
			c.refuse(path+".users", fmt.Sprintf("users: %s without %s", need.kind, need.key), need.key+" beside users", "")
		case need.there && !slices.Contains(l.Users, need.kind):
			c.refuse(path+"."+need.key, fmt.Sprintf("%s without users: %s", need.key, need.kind), "both or neither", "")
		}
	}
	if r := l.RADIUS; r != nil {
		at := path + ".radius"
		if len(r.Servers) == 0 {
			c.refuse(at+".servers", "there is no server", "servers: [ADDRESS, …]", "")
		}
		once(c, at+".servers", r.Servers, netip.Addr.String)
		for i, a := range r.Servers {
			if notUnicast(a) != "" && !a.IsLoopback() {
				c.refuse(indexPath(at+".servers", i), fmt.Sprintf("%s is not the address of a server", a), "the address of a RADIUS server", "")
			}
		}
		if c.cfg.Chosen(at + ".interim") {
			c.seconds(at+".interim", r.Interim, 60, 24*3600)
		}
	}
}

func (l *Login) checkFree(c *checker, path string) {
	once(c, path+".free", l.Free, func(s string) string { return s })
	for i, f := range l.Free {
		at := indexPath(path+".free", i)
		p, err := ipnet.Parse(f)
		switch {
		case strings.HasPrefix(f, "@"):
			if s := c.cfg.Firewall.Sets[f[1:]]; s == nil || len(s.Ports) > 0 {
				c.refuse(at, fmt.Sprintf("there is no set %q of addresses", abridge(f[1:])), "a set under firewall.sets", Nearest(f[1:], sortedKeys(c.cfg.Firewall.Sets)))
			}
		case err == nil && p.Masked() != p:
			c.refuse(at, fmt.Sprintf("%s has host bits", f), "a network without host bits", p.Masked().String())
		case err == nil && p.Bits() == 0:
			c.refuse(at, "everything is free, so nobody needs a login", "the networks that are free", "")
		case err != nil && (!hostname.MatchString(f) || !strings.Contains(f, ".") || len(f) > 253):
			c.refuse(at, fmt.Sprintf("%q is neither an address, a prefix nor a name", abridge(f)), "as 192.0.2.7, 2001:db8::/32, @SET or www.example.org", "")
		}
	}
}
