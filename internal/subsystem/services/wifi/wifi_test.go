// SPDX-License-Identifier: Apache-2.0

package wifi

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/nl80211"
	"minne/internal/model/config"
	"minne/internal/testing/servicetest"
)

const village = `version: 1
system: {hostname: attic}
radios:
  phy0: {country: DE, band: 5GHz, channel: 36, width: 80MHz, distance: 8000}
  up: {match: {path: "0000:02:00.0"}, country: DE, power: 17}
  low: {match: {mac: "02:00:00:00:02:00"}, country: DE, band: 2.4GHz, channel: 6, width: 40MHz}
interfaces:
  guests: {wifi: {radio: phy0, access-point: {ssid: Gäste, security: wpa3, passphrase: phrase, isolate: on, max-clients: 40}}, zone: guests}
  home: {wifi: {radio: phy0, access-point: {ssid: Home, passphrase: phrase, roaming: on}}}
  open: {wifi: {radio: phy0, access-point: {ssid: "Come in", security: open, hidden: on}}}
  owe: {wifi: {radio: phy0, access-point: {ssid: "#shy", security: owe}}}
  work:
    wifi:
      radio: phy0
      access-point: {ssid: Work, security: enterprise, roaming: on, radius: [{address: 192.0.2.1, secret: shared}, {address: "2001:db8::1", port: 1645, secret: shared}]}
  old: {disabled: on, wifi: {radio: phy0, access-point: {ssid: Old, security: open}}}
  uplink: {wifi: {radio: up, station: {ssid: Mast, security: enterprise, bssid: "02:00:00:00:09:00", eap: {identity: mast-7, anonymous-identity: nobody, password: shared, ca-certificate: ca.pem, domain: isp.example}}}, zone: wan}
  far: {wifi: {radio: low, mesh: {id: village, passphrase: phrase}}}
  lan: {bridge: {ports: [home]}}
`

func rendered(t *testing.T, text string) Desired {
	t.Helper()
	secrets, err := config.ParseSecrets("secrets.yaml", []byte("phrase: 'at \"home\" we trust'\nshared: Hunter2 x\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("test.yaml", []byte(text))
	if err == nil {
		err = config.Check(cfg, secrets)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := Render(cfg, secrets, "/etc/minne")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// cards are three radios: a fast one, a station, one of 2.4 GHz without 802.11ac.
func cards() machine {
	all := []nl80211.Type{nl80211.Station, nl80211.AccessPoint, nl80211.Mesh}
	fast, low := nl80211.Band{HT: 0x19ef, VHT: 0x0f8259b6, IsVHT: true, HE: true}, nl80211.Band{HT: 0x0162}
	for _, c := range config.Band5.Channels() {
		fast.Channels = append(fast.Channels, nl80211.Channel{MHz: config.Band5.MHz(c)})
	}
	for c := range 13 {
		low.Channels = append(low.Channels, nl80211.Channel{MHz: config.Band2.MHz(c + 1)})
	}
	radio := func(n int, path string, types []nl80211.Type, b nl80211.Band) nl80211.Radio {
		return nl80211.Radio{Index: n, Name: fmt.Sprintf("phy%d", n), Path: path, Types: types, Bands: []nl80211.Band{b},
			MAC: net.HardwareAddr{2, 0, 0, 0, byte(n), 0}}
	}
	germany := []nl80211.Rule{
		{First: 2400000, Last: 2483500, Widest: 40000}, {First: 5150000, Last: 5250000, Widest: 80000, Wide: true},
		{First: 5250000, Last: 5350000, Widest: 80000, Radar: true, Wide: true}, {First: 5470000, Last: 5725000, Widest: 160000, Radar: true},
		{First: 5725000, Last: 5875000, Widest: 80000, NoIR: true},
	}
	return machine{radios: []nl80211.Radio{radio(0, "hwsim0", all, fast), radio(1, "0000:02:00.0", all[:1], fast), radio(2, "hwsim2", all, low)}, rules: germany}
}

// What the programs get, for every way to secure a network.
func TestRender(t *testing.T) {
	d := rendered(t, village)
	if err := check(d.cfg, cards()); err != nil {
		t.Fatal(err)
	}
	all, links := d.programs(cards(), "/run/minne")
	for key, p := range all {
		servicetest.Golden(t, key+".txt", p)
		for name := range p.Files {
			if name != made && p.Modes[name] != 0o600 {
				t.Errorf("%s of %s has passphrases and the mode %o", name, key, p.Modes[name])
			}
		}
	}
	if got := sorted(all); !slices.Equal(got, []string{"ap-phy0", "interface-far", "interface-uplink"}) {
		t.Errorf("programs %q", got)
	}
	if l := links["ap-phy0"]; l.name != "guests" || l.typ != nl80211.AccessPoint {
		t.Errorf("%+v", l)
	}
	for _, text := range []string{fmt.Sprint(d), fmt.Sprintf("%+v", d), fmt.Sprintf("%#v", d)} {
		if strings.Contains(text, "trust") || strings.Contains(text, "Hunter2") {
			t.Errorf("a secret is printed: %s", text)
		}
	}
}

// What card or country do not allow is refused at its line, with what is allowed.
func TestRefused(t *testing.T) {
	const one = "version: 1\nradios: {%s}\ninterfaces: {a: {wifi: {radio: %s, %s}}}\n"
	ap, mesh := "access-point: {ssid: x, security: open}", "mesh: {id: x, passphrase: phrase}"
	for _, c := range []struct{ radio, name, use, want string }{
		{"phy0: {country: DE, band: 5GHz, channel: 36, width: 80MHz}", "phy0", ap, ""},
		{"phy0: {country: DE, band: 5GHz, channel: 149}", "phy0", ap, "test.yaml:2:51: channel 149 of 20MHz is one that DE does not allow"},
		{"phy0: {country: DE, band: 5GHz, channel: 149}", "phy0", ap, "expected one of 36, 40, 44, 48, 52, 56, 60, 64, 100, 104"},
		{"phy0: {country: DE, band: 5GHz, channel: 36, width: 160MHz}", "phy0", ap, ""},
		{"phy0: {country: DE, band: 5GHz, channel: 52}", "phy0", ap, ""},
		{"phy0: {country: DE, band: 5GHz, channel: 52}", "phy0", mesh, "would have to leave it when a radar is heard"},
		{"phy0: {country: DE, band: 2.4GHz, channel: 6}", "phy0", ap, "the card phy0 does not know"},
		{"phy2: {country: DE, band: 2.4GHz, channel: 13}", "phy2", ap, ""},
		{"phy2: {country: DE, band: 2.4GHz, channel: 14}", "phy2", ap, "does not know"},
		{"phy2: {country: DE, band: 2.4GHz}", "phy2", ap, ""},
		{"phy1: {country: DE, band: 5GHz, channel: 36}", "phy1", ap, "phy1 can't be an access point"},
		{"phy7: {country: DE, band: 5GHz}", "phy7", ap, "there is no such radio"},
		{"phy7: {country: DE, band: 5GHz}", "phy7", ap, "one of phy0 02:00:00:00:00:00 at hwsim0, phy1"},
		{"phy7: {match: {name: phy0}, country: DE, band: 5GHz}", "phy7", ap, ""},
	} {
		d := rendered(t, fmt.Sprintf(one, c.radio, c.name, c.use))
		err := check(d.cfg, cards())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s\n%v, want %q", c.radio, c.use, err, c.want)
		}
	}
	d := rendered(t, "version: 1\nradios: {phy0: {country: DE, band: 5GHz}, x: {match: {path: hwsim0}, country: DE}}\n"+
		"interfaces: {a: {wifi: {radio: phy0, "+ap+"}}, b: {wifi: {radio: x, station: {ssid: y, security: open}}}}\n")
	if err := check(d.cfg, cards()); err == nil || !strings.Contains(err.Error(), "is this radio (phy0), too") {
		t.Errorf("one radio in two sections: %v", err)
	}
}

// Distances become coverage classes of 450 m.
func TestCoverage(t *testing.T) {
	for distance, want := range map[int]uint8{1: 1, 450: 1, 451: 2, 8000: 18, 114750: 255} {
		if got, ok := coverage(distance); got != want || !ok {
			t.Errorf("%d m: %d", distance, got)
		}
	}
	if _, ok := coverage(0); ok {
		t.Error("no distance sets a class")
	}
}

// The further access points of a radio have addresses of their own, all of them local.
func TestAddresses(t *testing.T) {
	seen := map[string]bool{}
	for n := 1; n < 8; n++ {
		a := address(net.HardwareAddr{0, 0x11, 0x22, 0x33, 0x44, 0x55}, n)
		m, err := net.ParseMAC(a)
		if err != nil || m[0]&3 != 2 || seen[a] {
			t.Errorf("%d: %s", n, a)
		}
		seen[a] = true
	}
}

// Names that others send are shown without what a terminal would obey, and reach the programs as they are.
func TestNames(t *testing.T) {
	if got := printable("a\x1b[2Jb"); got != "a.[2Jb" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]string{"Home": `"Home"`, `a"b`: "612262", "Gäste": "47c3a4737465", `a\b`: "615c62"} {
		if got := quoted(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
