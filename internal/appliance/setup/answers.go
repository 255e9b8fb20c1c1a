// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"

	"minne/internal/model/config"
)

// Answers are the answers, from the console or from a file. The zero value of
// each takes what the screen offers.
type Answers struct {
	WAN            string       `yaml:"wan" json:"wan,omitempty" doc:"Port that leads to the Internet: its name, MAC address or bus address."`
	WANAddress     string       `yaml:"wan-address" json:"wan-address,omitempty" doc:"dhcp, pppoe, or an address with its length." default:"dhcp"`
	User           string       `yaml:"pppoe-user" json:"pppoe-user,omitempty" doc:"User name at the provider, for pppoe."`
	Secret         string       `yaml:"pppoe-password" json:"pppoe-password,omitempty" doc:"Password at the provider, for pppoe."`
	VLAN           int          `yaml:"pppoe-vlan" json:"pppoe-vlan,omitempty" doc:"VLAN that the provider wants, for pppoe. Absent: no tag." min:"1" max:"4094"`
	WANGateway     netip.Addr   `yaml:"wan-gateway" json:"wan-gateway,omitzero" doc:"The provider's router, for a fixed address."`
	WANDNS         []netip.Addr `yaml:"wan-dns" json:"wan-dns,omitempty" doc:"The provider's DNS servers, for a fixed address."`
	LAN            string       `yaml:"lan" json:"lan,omitempty" doc:"This router's address in the LAN, with its length."`
	LANPorts       string       `yaml:"lan-ports" json:"lan-ports,omitempty" doc:"What the ports besides the WAN are: one network, as on a switch (bridge), or one each (separate)." default:"bridge" enum:"bridge,separate"`
	WiFi           string       `yaml:"wifi" json:"wifi,omitempty" doc:"Name of a Wi-Fi network (SSID) on the machine's card. Absent: none."`
	WiFiPassphrase string       `yaml:"wifi-passphrase" json:"wifi-passphrase,omitempty" doc:"Passphrase of the Wi-Fi network."`
	WiFiCountry    string       `yaml:"wifi-country" json:"wifi-country,omitempty" doc:"Country where the router is, two letters: it decides what the radio may do."`
	WiFiNetwork    string       `yaml:"wifi-network" json:"wifi-network,omitempty" doc:"lan: one network with the ports inside. separate: a network of its own." default:"lan" enum:"lan,separate"`
	Hostname       string       `yaml:"hostname" json:"hostname,omitempty" doc:"Name of the router."`
	SSH            string       `yaml:"ssh" json:"ssh,omitempty" doc:"Login from the LAN: key, password or off. Absent: key when there are keys, else off." enum:"key,password,off"`
	SSHKeys        []string     `yaml:"ssh-keys" json:"ssh-keys,omitempty" doc:"Public keys that may log in."`
	Password       string       `yaml:"password-hash" json:"password-hash,omitempty" doc:"Hash of the password of admin, as busybox mkpasswd -m sha512 prints it. Absent: a random password is made and shown."`

	radio    *Radio // that can be an access point; nil for none
	hostless bool   // there is no user admin on this host
	guest    bool   // the router shares its host with others, whose users are not its own
}

// What the screen offers.
const (
	defaultHostname = "minne"
	byDHCP          = "dhcp"
	byPPPoE         = "pppoe"
	bridged         = "bridge"
	separate        = "separate"
)

// fixed says whether the WAN has an address that was answered.
func (a Answers) fixed() bool { return a.WANAddress != byDHCP && a.WANAddress != byPPPoE }

// offeredLANs are networks that seldom are somebody else's already.
var offeredLANs = []string{"192.168.77.1/24", "10.77.0.1/24", "172.29.77.1/24"}

// ReadAnswers reads a file of answers. Its errors name the line, like those of a configuration.
func ReadAnswers(path string) (Answers, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Answers{}, err
	}
	var a Answers
	d, err := config.ReadDocument(path, b, &a, "answers, as wan: eth0; or no file")
	if err != nil {
		return Answers{}, err
	}
	for _, check := range []struct {
		path string
		err  error
	}{
		{"wan-address", checkWANAddress(a.WANAddress)},
		{"lan", checkLAN(a.LAN)},
		{"lan-ports", checkLANPorts(a.LANPorts)},
		{"hostname", checkHostname(a.Hostname)},
		{"wan-gateway", checkGateway(a)},
		{"pppoe-user", checkPPPoE(a)},
		{"wifi", checkWiFi(a)},
	} {
		if check.err != nil {
			d.Refuse(check.path, check.err.Error(), "", "")
		}
	}
	for i, key := range a.SSHKeys {
		if err := config.CheckSSHKey(key); err != nil {
			d.Refuse(fmt.Sprintf("ssh-keys[%d]", i), err.Error(), "", "")
		}
	}
	if a.SSH == "key" && len(a.SSHKeys) == 0 {
		d.Refuse("ssh", "there is no key that could log in", "ssh-keys, or ssh: password", "")
	}
	return a, d.Err()
}

func checkWANAddress(text string) error {
	if text == "" || text == byDHCP || text == byPPPoE {
		return nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p.Bits() == 0 || p.Masked().Addr() == p.Addr() && p.Bits() < 31 {
		return fmt.Errorf("%q: expected dhcp, pppoe, or an address with its length as 198.51.100.2/30", text)
	}
	return nil
}

// checkGateway says what a fixed address lacks.
func checkGateway(a Answers) error {
	if a.WANAddress == "" || !a.fixed() {
		if a.WANGateway.IsValid() || len(a.WANDNS) > 0 {
			return errors.New("remove wan-gateway and wan-dns: they belong to a fixed wan-address; with dhcp and pppoe the provider assigns them")
		}
		return nil
	}
	p, err := netip.ParsePrefix(a.WANAddress)
	switch {
	case err != nil:
		return nil // said already
	case !a.WANGateway.IsValid():
		return errors.New("a fixed address needs the provider's router: wan-gateway")
	case !p.Contains(a.WANGateway) || p.Addr() == a.WANGateway:
		return fmt.Errorf("the gateway %s is not another host in %s", a.WANGateway, p.Masked())
	case len(a.WANDNS) == 0:
		return errors.New("a fixed address needs the provider's DNS servers: wan-dns")
	}
	return nil
}

// checkPPPoE says what a session lacks, or what is there without one.
func checkPPPoE(a Answers) error {
	switch given := a.User != "" || a.Secret != "" || a.VLAN != 0; {
	case a.WANAddress != byPPPoE && given:
		return errors.New("remove pppoe-user, pppoe-password and pppoe-vlan: they belong to wan-address: pppoe")
	case a.WANAddress == byPPPoE && (a.User == "" || a.Secret == ""):
		return errors.New("pppoe needs the provider's user name and password: pppoe-user and pppoe-password")
	}
	return nil
}

// checkLAN takes networks that leave room for a pool.
func checkLAN(text string) error {
	if text == "" {
		return nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p.Addr() == p.Masked().Addr() {
		return fmt.Errorf("%q: expected this router's address with the length of the network, as %s", text, offeredLANs[0])
	}
	if p.Bits() < 16 || p.Bits() > 28 {
		return fmt.Errorf("%s: expected a prefix length of 16 to 28", p)
	}
	return nil
}

func checkLANPorts(text string) error {
	if text != "" && text != bridged && text != separate {
		return fmt.Errorf("%q: expected %s or %s", text, bridged, separate)
	}
	return nil
}

var label = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func checkHostname(text string) error {
	if text != "" && !label.MatchString(text) {
		return fmt.Errorf("%q: expected letters, digits and dashes", text)
	}
	return nil
}

// offerLAN is a network that does not overlap what is behind the ports.
func offerLAN(ports []Port) string {
	for _, text := range offeredLANs {
		p, free := netip.MustParsePrefix(text), true
		for _, port := range ports {
			free = free && !(port.Network.IsValid() && port.Network.Overlaps(p))
		}
		if free {
			return text
		}
	}
	return offeredLANs[0]
}

// setsPassword says whether the router gives admin a password: there is that user, and it is its own.
func (a Answers) setsPassword() bool { return !a.hostless && !a.guest }

// complete fills in what was not answered, and says what can't be.
func (a Answers) complete(ports []Port) (Answers, error) {
	if len(ports) < 2 {
		found := "none"
		if len(ports) == 1 {
			found = ports[0].Name
		}
		return a, fmt.Errorf("a router needs two ports, found: %s; add a network card, or write %s by hand", found, "minne.yaml")
	}
	if a.WAN == "" {
		a.WAN = ports[guessWAN(ports)].Name
	}
	i, ok := findPort(ports, a.WAN)
	if !ok {
		return a, fmt.Errorf("no port %q; expected one of %s", a.WAN, portNames(ports))
	}
	a.WAN = ports[i].Name
	a.WANAddress = cmp.Or(a.WANAddress, byDHCP)
	if a.LAN == "" {
		a.LAN = offerLAN(ports)
	}
	a.LANPorts = cmp.Or(a.LANPorts, bridged)
	if a.WiFi != "" {
		if a.radio == nil {
			return a, errors.New("this machine has no Wi-Fi card that can be an access point, or hostapd is not installed: leave wifi out")
		}
		a.WiFiNetwork = cmp.Or(a.WiFiNetwork, "lan")
	}
	a.Hostname = cmp.Or(a.Hostname, defaultHostname)
	if a.SSH == "" {
		a.SSH = "off"
		if len(a.SSHKeys) > 0 {
			a.SSH = "key"
		}
	}
	if a.hostless && (a.SSH != "off" || a.Password != "") {
		return a, errors.New("this host has no user admin: create one (adduser admin), or leave ssh off and log in as before")
	}
	if a.guest && (a.SSH == "password" || a.Password != "") {
		return a, errors.New("this instance does not own its host, so it cannot set the password of admin: use an SSH key, or leave ssh off")
	}
	if wan, err := netip.ParsePrefix(a.WANAddress); err == nil && wan.Overlaps(netip.MustParsePrefix(a.LAN)) {
		return a, fmt.Errorf("the LAN %s overlaps the provider's network %s", a.LAN, wan.Masked())
	}
	return a, nil
}

func portNames(ports []Port) string {
	var names []string
	for _, p := range ports {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}
