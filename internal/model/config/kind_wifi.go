// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// WiFi makes an interface of a radio (IEEE 802.11): exactly one of access point, station and mesh.
type WiFi struct {
	Radio       string       `yaml:"radio" json:"radio" doc:"The radio, a section under radios." required:"true" example:"phy0"`
	AccessPoint *AccessPoint `yaml:"access-point" json:"access-point,omitempty" doc:"A network that hosts join. Several of them share one radio."`
	Station     *Station     `yaml:"station" json:"station,omitempty" doc:"Joins the network of an access point, as the way to a provider or a far mast."`
	Mesh        *Mesh        `yaml:"mesh" json:"mesh,omitempty" doc:"Speaks with each router around that has the same mesh id (IEEE 802.11s). A routing protocol, as Babel, finds the ways: the radio itself forwards nothing."`
}

// AccessPoint is one network of a radio (BSS).
type AccessPoint struct {
	SSID       string       `yaml:"ssid" json:"ssid" doc:"Name of the network (SSID): at most 32 bytes." required:"true" example:"Home"`
	Security   WiFiSecurity `yaml:"security" json:"security,omitempty" doc:"wpa2, wpa3, or both (wpa2+wpa3): with a passphrase. enterprise: each user has a name and a password of his own, which a RADIUS server checks (802.1X). owe: encrypted without a passphrase. open: everybody around reads along." default:"wpa2+wpa3" enum:"wpa2,wpa2+wpa3,wpa3,enterprise,owe,open"`
	Passphrase string       `yaml:"passphrase" json:"passphrase,omitempty" doc:"Name of the secret that holds the passphrase: 8 to 63 ASCII characters." names:"secret" example:"home-wifi"`
	RADIUS     []RADIUS     `yaml:"radius" json:"radius,omitempty" doc:"RADIUS servers of enterprise security; the next one is asked when one is silent." ordered:"true"`
	Isolate    *OnOff       `yaml:"isolate" json:"isolate,omitempty" doc:"Clients reach the router, but not each other. Two networks that are ports of one bridge are kept apart by isolated of the bridge." default:"off" enum:"on,off"`
	Hidden     *OnOff       `yaml:"hidden" json:"hidden,omitempty" doc:"Beacons are without the network's name. It is found nevertheless: this is no protection." default:"off" enum:"on,off"`
	Roaming    *OnOff       `yaml:"roaming" json:"roaming,omitempty" doc:"For networks of several access points with the same name and passphrase: clients change over without agreeing on keys anew (802.11r), may ask for neighbours and measurements (802.11k), and can be told to change over (802.11v). Some old devices do not join a network with 802.11r." default:"off" enum:"on,off"`
	MaxClients int          `yaml:"max-clients" json:"max-clients,omitempty" doc:"Maximum of clients. Absent: as many as the driver takes." min:"1" max:"2007"`
}

// RADIUS is a server that knows users (RFC 2865).
type RADIUS struct {
	Address netip.Addr `yaml:"address" json:"address" doc:"The server's address." required:"true" example:"192.0.2.53"`
	Port    int        `yaml:"port" json:"port,omitempty" doc:"UDP port." default:"1812" min:"1" max:"65535"`
	Secret  string     `yaml:"secret" json:"secret" doc:"Name of the secret that holds what router and server share." required:"true" names:"secret" example:"radius"`
}

// Station joins a network.
type Station struct {
	SSID       string       `yaml:"ssid" json:"ssid" doc:"Name of the network (SSID)." required:"true" example:"Mast"`
	Security   WiFiSecurity `yaml:"security" json:"security,omitempty" doc:"What is accepted of the access point. wpa2, wpa3 or both: with a passphrase. enterprise: with eap." default:"wpa2+wpa3" enum:"wpa2,wpa2+wpa3,wpa3,enterprise,owe,open"`
	Passphrase string       `yaml:"passphrase" json:"passphrase,omitempty" doc:"Name of the secret that holds the passphrase." names:"secret" example:"mast"`
	EAP        *EAP         `yaml:"eap" json:"eap,omitempty" doc:"User and password of enterprise security."`
	BSSID      MAC          `yaml:"bssid" json:"bssid,omitzero" doc:"MAC address of the only access point to join. Absent: the strongest of the name." example:"52:54:00:12:34:56"`
}

// EAP is how a station proves who its user is (RFC 3748).
type EAP struct {
	Method        EAPMethod `yaml:"method" json:"method,omitempty" doc:"EAP method; both check the password by MSCHAPv2 inside TLS." default:"peap" enum:"peap,ttls"`
	Identity      string    `yaml:"identity" json:"identity" doc:"Name of the user." required:"true" example:"mast-7@isp.example"`
	Anonymous     string    `yaml:"anonymous-identity" json:"anonymous-identity,omitempty" doc:"What is told outside TLS in the place of the name." example:"anonymous@isp.example"`
	Password      string    `yaml:"password" json:"password" doc:"Name of the secret that holds the user's password." required:"true" names:"secret" example:"mast-password"`
	CACertificate string    `yaml:"ca-certificate" json:"ca-certificate" doc:"File with the certificate (PEM) of who signed the server's: without it, anybody could ask for the password. A relative path starts at the configuration's directory." required:"true" names:"file" example:"isp-ca.pem"`
	Domain        string    `yaml:"domain" json:"domain,omitempty" doc:"Name that the server's certificate must have, or end in. Needed where the certificate's signer signs for others, too." example:"radius.isp.example"`
}

// Mesh is an 802.11s mesh.
type Mesh struct {
	ID         string `yaml:"id" json:"id" doc:"Name of the mesh: at most 32 bytes." required:"true" example:"village"`
	Passphrase string `yaml:"passphrase" json:"passphrase" doc:"Name of the secret that holds the passphrase of all its routers (SAE)." required:"true" names:"secret" example:"mesh"`
}

// WiFiSecurity is how a network is protected.
type WiFiSecurity string

// EAPMethod is one of EAP.
type EAPMethod string

// Personal says whether it is a passphrase that protects.
func (s WiFiSecurity) Personal() bool { return strings.HasPrefix(string(s), "wpa") }

// Enterprise is security by 802.1X.
const Enterprise WiFiSecurity = "enterprise"

func (w *WiFi) kind() Kind {
	return Kind{Name: "wifi", Brought: true, Kernel: "the kernel carries what goes through Wi-Fi: the drivers of radios have no XDP"}
}

// bridgeable says whether the interface can be a port of a bridge: its frames may have any MAC address.
func (w *WiFi) bridgeable() bool { return w.AccessPoint != nil }

// uses names what the interface does with its radio.
func (w *WiFi) uses() string {
	switch {
	case w.AccessPoint != nil:
		return "an access point"
	case w.Station != nil:
		return "a station"
	}
	return "a mesh"
}

const maxWiFiMTU = 2304 // the longest MSDU (IEEE 802.11 table 9-25)

func (w *WiFi) check(c *checker, path, name string) {
	r := c.cfg.Radios[w.Radio]
	if r == nil {
		all := sortedKeys(c.cfg.Radios)
		expected := "a radio under radios, as radios: {phy0: {country: DE, band: 2.4GHz}}"
		if len(all) > 0 {
			expected = "one of the radios " + strings.Join(all, ", ")
		}
		c.refuse(path+".radio", fmt.Sprintf("there is no radio %q", abridge(w.Radio)), expected, nearest(w.Radio, all))
		return
	}
	set := 0
	for _, there := range []bool{w.AccessPoint != nil, w.Station != nil, w.Mesh != nil} {
		if there {
			set++
		}
	}
	if set != 1 {
		c.refuse(path, fmt.Sprintf("%s is %d of access-point, station and mesh", name, set), "exactly one of them", "")
		return
	}
	if mtu := c.cfg.Interfaces[name].MTU; mtu > maxWiFiMTU {
		c.refuse(joinPath("interfaces", name)+".mtu", fmt.Sprintf("mtu %d is more than Wi-Fi carries", mtu), fmt.Sprintf("at most %d", maxWiFiMTU), "")
	}
	if w.Station == nil && r.Band == "" {
		c.refuse(joinPath("radios", w.Radio), fmt.Sprintf("%s is %s, and its radio has no band", name, w.uses()), "band: 2.4GHz or 5GHz", "")
	}
	for _, other := range c.cfg.WiFiOn(w.Radio) {
		o := c.cfg.Interfaces[other].WiFi
		switch {
		case other >= name: // told once, at the second
		case o.Station != nil || w.Station != nil:
			c.refuse(path+".radio", fmt.Sprintf("%s is on this radio, and a station goes where its access point's channel is", other), "a radio of its own for a station", "")
		case o.Mesh != nil && w.Mesh != nil:
			c.refuse(path+".radio", fmt.Sprintf("%s is a mesh on this radio already", other), "one mesh on a radio", "")
		}
	}
	switch {
	case w.AccessPoint != nil:
		w.AccessPoint.check(c, path+".access-point", name, w.Radio)
	case w.Station != nil:
		w.Station.check(c, path+".station")
	default:
		at := path + ".mesh"
		c.ssid(at+".id", w.Mesh.ID)
		c.passphrase(at+".passphrase", w.Mesh.Passphrase)
		if r.Band != "" && r.Channel == 0 {
			c.refuse(joinPath("radios", w.Radio), fmt.Sprintf("the mesh %s needs a channel, the same for all its routers", name), "channel: 36, or another", "")
		}
	}
}

// ssid checks the name of a network.
func (c *checker) ssid(path, text string) {
	odd := strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
	if n := len(text); n == 0 || n > 32 || odd {
		c.refuse(path, fmt.Sprintf("%q can't name a network", abridge(text)), "1 to 32 bytes without control characters", "")
	}
}

// passphrase checks what a secret says, without saying it (IEEE 802.11 annex J.4.1). "" is a missing key.
func (c *checker) passphrase(path, name string) {
	if value, ok := c.secrets.Get(name); name != "" && ok && !Passphrase(value) {
		c.refuse(path, "the secret is no passphrase of Wi-Fi", "8 to 63 printable ASCII characters", "")
	}
}

// Passphrase says whether a text can be one of WPA.
func Passphrase(text string) bool {
	odd := strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	return len(text) >= 8 && len(text) <= 63 && !odd
}

// secured checks that a network has what its security needs.
func (c *checker) secured(path string, s WiFiSecurity, passphrase string) {
	switch {
	case s.Personal() && passphrase == "":
		c.refuse(path, fmt.Sprintf("security %s needs a passphrase", s), "passphrase: NAME of a secret, or another security", "")
	case !s.Personal() && passphrase != "":
		c.refuse(path+".passphrase", fmt.Sprintf("security %s has no passphrase", s), "no passphrase, or security: wpa2+wpa3", "")
	}
	c.passphrase(path+".passphrase", passphrase)
}

func (a *AccessPoint) check(c *checker, path, name, radio string) {
	c.ssid(path+".ssid", a.SSID)
	c.secured(path, a.Security, a.Passphrase)
	if other, taken := c.taken[radioSSID{radio, a.SSID}]; taken {
		c.refuse(path+".ssid", fmt.Sprintf("%s has this name on the same radio", other), "a name for each network", "")
	}
	c.taken[radioSSID{radio, a.SSID}] = name
	if a.Roaming.On() && !a.Security.Personal() && a.Security != Enterprise {
		c.refuse(path+".roaming", fmt.Sprintf("security %s has no keys that access points could share", a.Security), "security: wpa2, wpa2+wpa3, wpa3 or enterprise, or no roaming", "")
	}
	switch enterprise := a.Security == Enterprise; {
	case enterprise && len(a.RADIUS) == 0:
		c.refuse(path, "security enterprise needs a RADIUS server", "radius: [{address: ADDRESS, secret: NAME}]", "")
	case !enterprise && len(a.RADIUS) > 0:
		c.refuse(path+".radius", fmt.Sprintf("security %s asks no RADIUS server", a.Security), "security: enterprise", "")
	}
	for n, r := range a.RADIUS {
		at := indexPath(path+".radius", n)
		if reason := notUnicast(r.Address); reason != "" || r.Address.Zone() != "" {
			c.refuse(at+".address", fmt.Sprintf("%s can't be a server's address", r.Address), "an address for one host", "")
		}
		if value, ok := c.secrets.Get(r.Secret); ok && (len(value) == 0 || len(value) > 128 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })) {
			c.refuse(at+".secret", "the secret is none of RADIUS", "1 to 128 printable ASCII characters", "")
		}
	}
}

// radioSSID is what each network of a radio has but once.
type radioSSID struct{ radio, ssid string }

func (s *Station) check(c *checker, path string) {
	c.ssid(path+".ssid", s.SSID)
	c.secured(path, s.Security, s.Passphrase)
	switch enterprise := s.Security == Enterprise; {
	case enterprise && s.EAP == nil:
		c.refuse(path, "security enterprise needs a user", "eap: {identity: NAME, password: NAME of a secret, ca-certificate: FILE}", "")
	case !enterprise && s.EAP != nil:
		c.refuse(path+".eap", fmt.Sprintf("security %s has no users", s.Security), "security: enterprise", "")
	}
	if s.EAP == nil {
		return
	}
	for _, text := range []struct{ key, value string }{{"identity", s.EAP.Identity}, {"anonymous-identity", s.EAP.Anonymous}, {"domain", s.EAP.Domain}, {"ca-certificate", s.EAP.CACertificate}} {
		if odd := strings.ContainsFunc(text.value, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' }); odd || len(text.value) > 253 {
			c.refuse(path+".eap."+text.key, fmt.Sprintf("%q can't be used", abridge(text.value)), "at most 253 characters without quotes", "")
		}
	}
	if value, ok := c.secrets.Get(s.EAP.Password); ok && (value == "" || len(value) > 256 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })) {
		c.refuse(path+".eap.password", "the secret is no password", "1 to 256 characters without control characters", "")
	}
}

func (w *WiFi) odd(c *checker, path, name string) {
	if w.AccessPoint != nil && w.AccessPoint.Security == "open" {
		c.refuse(path+".access-point.security", fmt.Sprintf("everybody around %s reads what its clients send", name), "", "security: owe")
	}
}
