// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"strings"
	"testing"

	"minne/internal/testing/testimage"
)

// The router has three radios; all others have one each, in namespaces of their own.
const airConfig = `version: 1
system: {hostname: attic}
radios:
  phy0: {country: DE, band: 5GHz, channel: 36, width: 80MHz}
  phy1: {country: DE}
  roof: {match: {path: hwsim2}, country: DE, band: 5GHz, channel: 40}
interfaces:
  home: {wifi: {radio: phy0, access-point: {ssid: Home, security: wpa2, passphrase: home}}}
  guests: {zone: guests, addresses: [10.2.0.1/24], wifi: {radio: phy0, access-point: {ssid: Gäste, security: wpa3, passphrase: guest, isolate: on}}}
  lan: {bridge: {ports: [home]}, zone: lan, addresses: [10.1.0.1/24]}
  uplink: {zone: wan, dhcp: on, wifi: {radio: phy1, station: {ssid: Mast, security: wpa2, passphrase: mast}}}
  far: {zone: mesh, addresses: [10.20.0.1/24], wifi: {radio: roof, mesh: {id: village, passphrase: mast}}}
firewall:
  policies:
    - {from: lan, to: wan, default: permit}
    - {from: mesh, to: lan, default: permit}
nat:
  - {from: lan, to: wan, masquerade: true}
services:
  dhcp: {lan: {pool: 10.1.0.100-10.1.0.199}, guests: {pool: 10.2.0.100-10.2.0.199}}
`

const airSecrets = `home: at home we trust
guest: welcome "guest" 1
mast: long haul link
`

// air gives radios 3 to 8 to others: c1 at home, g1 and g2 among the guests, the provider, a router of the mesh, and who does not know the passphrase.
const air = `modprobe mac80211_hwsim radios=9
n=3; for host in c1 g1 g2 isp m1 bad; do
  ip netns add $host; iw phy phy$n set netns name $host; ip -n $host link set lo up; n=$((n+1))
done`

// station is a wpa_supplicant of a host, with its network.
func station(m *testimage.Machine, host, link string, network ...string) {
	m.Write("/tmp/"+host+".conf", "ctrl_interface=/tmp/ctl\nsae_pwe=2\ncountry=DE\nnetwork={\n"+strings.Join(network, "\n")+"\n}")
	m.Run("ip netns exec " + host + " wpa_supplicant -B -D nl80211 -i " + link + " -c /tmp/" + host + ".conf -P /tmp/" + host + ".pid -f /tmp/" + host + ".log")
}

// until waits on the machine; the test's own patience bounds it.
func until(m *testimage.Machine, condition string) {
	m.Run("until " + condition + "; do sleep 1; done")
}

// TestWiFi has real programs on pretended radios: two networks on one radio, a wrong passphrase, isolated clients, a WAN by
// radio, a mesh, a daemon that is killed, and a channel that the country does not allow.
func TestWiFi(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t, "wifi"), Memory: 768})
	shell(m)
	m.Run(air)
	// The provider.
	m.Write("/tmp/isp.conf", "interface=wlan6\ndriver=nl80211\nhw_mode=g\nchannel=6\nssid=Mast\nwpa=2\nwpa_key_mgmt=WPA-PSK\nrsn_pairwise=CCMP\nwpa_passphrase=long haul link")
	m.Run("ip netns exec isp hostapd -B -P /tmp/isp.pid /tmp/isp.conf && ip -n isp addr add 198.51.100.1/24 dev wlan6")
	m.Run("ip netns exec isp dnsmasq -C /dev/null -p 0 -i wlan6 -z -F 198.51.100.100,198.51.100.150,1h -x /tmp/ispd.pid -l /tmp/isp.leases -u root")

	m.Write("/tmp/secrets", airSecrets)
	m.Run("mount -o remount,rw /config && (umask 077; cat /tmp/secrets >/etc/minne/secrets.yaml); mount -o remount,ro /config")

	// What the country does not allow is refused at its line, and nothing is begun.
	m.Write("/tmp/bad.yaml", strings.Replace(strings.ReplaceAll(airConfig, "country: DE", "country: US"), "channel: 40", "channel: 177", 1))
	out, code := m.Try("minne apply --dry-run /tmp/bad.yaml 2>&1")
	if code == "0" || !strings.Contains(out, "channel 177 of 20MHz is one that") || !strings.Contains(out, "expected one of 36, 40, 44, 48") {
		t.Errorf("exit code %s:\n%s", code, out)
	}
	if _, code := m.Try("pidof hostapd | grep ' '"); code == "0" {
		t.Error("a preview started hostapd")
	}
	configure(m, airConfig)

	// Clients of both networks get addresses by DHCP, one in the bridge and two in a zone.
	station(m, "c1", "wlan3", `ssid="Home"`, "key_mgmt=WPA-PSK", `psk="at home we trust"`)
	station(m, "g1", "wlan4", "ssid=47c3a4737465", "key_mgmt=SAE", "ieee80211w=2", `psk="welcome "guest" 1"`)
	station(m, "g2", "wlan5", "ssid=47c3a4737465", "key_mgmt=SAE", "ieee80211w=2", `psk="welcome "guest" 1"`)
	station(m, "bad", "wlan8", `ssid="Home"`, "key_mgmt=WPA-PSK", `psk="at home we distrust"`)
	for _, h := range []struct{ host, link, address, router string }{
		{"c1", "wlan3", "10.1.0.2/24", "10.1.0.1"}, {"g1", "wlan4", "10.2.0.2/24", "10.2.0.1"}, {"g2", "wlan5", "10.2.0.3/24", "10.2.0.1"},
	} {
		until(m, "ip netns exec "+h.host+" udhcpc -i "+h.link+" -n -q -t 3 -s /bin/true")
		m.Run("ip -n " + h.host + " addr add " + h.address + " dev " + h.link + " && ip -n " + h.host + " route add default via " + h.router)
		until(m, "ip netns exec "+h.host+" ping -c 1 -W 2 "+h.router)
	}
	// A wrong passphrase gives nothing.
	until(m, "grep -q 'pre-shared key may be incorrect\\|WRONG_KEY' /tmp/bad.log")
	if out := m.Run("iw dev home station dump"); strings.Contains(out, "02:00:00:00:08:00") && strings.Contains(out[strings.Index(out, "02:00:00:00:08:00"):], "authorized:\tyes") {
		t.Errorf("a wrong passphrase joined:\n%s", out)
	}
	// Guests are kept apart, and reach nothing that no rule permits.
	for _, to := range []string{"10.2.0.3", "198.51.100.1", "10.1.0.2"} {
		if out, code := m.Try("ip netns exec g1 ping -c 3 -i 0.3 -W 2 " + to); code == "0" {
			t.Errorf("a guest reaches %s:\n%s", to, out)
		}
	}
	// The WAN by radio carries what comes from the bridge, translated.
	until(m, "ip netns exec c1 ping -c 1 -W 2 198.51.100.1")

	// The mesh.
	m.Run("ip netns exec m1 iw phy phy7 interface add m type mp && ip -n m1 addr add 10.20.0.2/24 dev m")
	station(m, "m1", "m", "mode=5", `ssid="village"`, "frequency=5200", "key_mgmt=SAE", "ieee80211w=2", `psk="long haul link"`, "mesh_fwding=0", "disable_ht40=1", "disable_vht=1")
	until(m, "ip netns exec m1 ping -c 1 -W 2 10.20.0.1")
	said(t, m.Run("iw dev far get mesh_param mesh_fwding"), "0")

	views := m.Run("minne show wifi; minne show fast-path")
	said(t, views, "access point Home (wpa2)", "channel 36 (5180 MHz), 80 MHz wide", "02:00:00:00:03:00", "station Mast (wpa2)", "mesh village (wpa3)",
		"the kernel carries what goes through Wi-Fi")
	if strings.Contains(views, "02:00:00:00:08:00") {
		t.Errorf("a client that did not join is shown:\n%s", views)
	}

	// The daemon is killed, and comes back: the same programs serve, and nobody was cut off.
	before := m.Run("pidof hostapd wpa_supplicant")
	m.Run("iw dev home station dump | grep connected; ip netns exec c1 ping -i 0.2 -c 100 -q 10.1.0.1 >/tmp/pings & kill -9 $(pidof minne); wait")
	said(t, m.Run("cat /tmp/pings"), "100 packets transmitted, 100 ")
	until(m, "minne show wifi | grep -q 02:00:00:00:03:00")
	if after := m.Run("pidof hostapd wpa_supplicant"); after != before {
		t.Errorf("the programs were %s and are %s", before, after)
	}

	// A secret is in no view and no log.
	if out, code := m.Try("minne show config; minne show log"); code == "0" && strings.Contains(out, "we trust") {
		t.Error("a passphrase is shown")
	}
	// The first network of the radio goes, and another one, which hostapd had made, is the first.
	configure(m, `version: 1
radios:
  phy0: {country: DE, band: 5GHz, channel: 36}
interfaces:
  home: {wifi: {radio: phy0, access-point: {ssid: Home, security: wpa2, passphrase: home}}}
  lan: {bridge: {ports: [home]}, addresses: [10.1.0.1/24]}
`)
	until(m, "ip netns exec c1 ping -c 1 -W 2 10.1.0.1")
	// Without Wi-Fi, its programs and links go.
	configure(m, "version: 1\ninterfaces: {lan: {dummy: {}, addresses: [10.1.0.1/24]}}\n")
	if out := m.Run("iw dev"); strings.Contains(out, "Interface home") || strings.Contains(out, "Interface guests") || strings.Contains(out, "Interface far") || strings.Contains(out, "Interface uplink") {
		t.Errorf("links stay:\n%s", out)
	}
}

// TestRoaming has one network on two radios: a client changes over, and agrees on no keys anew (802.11r).
func TestRoaming(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t, "wifi"), Memory: 768})
	shell(m)
	m.Run("modprobe mac80211_hwsim radios=3; ip netns add c1; iw phy phy2 set netns name c1; ip -n c1 link set lo up")
	m.Write("/tmp/secrets", airSecrets)
	m.Run("mount -o remount,rw /config && (umask 077; cat /tmp/secrets >/etc/minne/secrets.yaml); mount -o remount,ro /config")
	configure(m, `version: 1
system: {hostname: attic}
radios:
  phy0: {country: DE, band: 5GHz, channel: 36}
  phy1: {country: DE, band: 5GHz, channel: 44}
interfaces:
  home: {wifi: {radio: phy0, access-point: {ssid: Home, security: wpa2, passphrase: home, roaming: on}}}
  attic: {wifi: {radio: phy1, access-point: {ssid: Home, security: wpa2, passphrase: home, roaming: on}}}
  lan: {bridge: {ports: [home, attic]}, addresses: [10.1.0.1/24]}
`)
	station(m, "c1", "wlan2", `ssid="Home"`, "key_mgmt=FT-PSK", `psk="at home we trust"`, "scan_freq=5180 5220")
	m.Run("ip -n c1 addr add 10.1.0.2/24 dev wlan2")
	until(m, "ip netns exec c1 ping -c 1 -W 2 10.1.0.1")
	cli := "ip netns exec c1 wpa_cli -p /tmp/ctl -i wlan2 "
	for _, to := range []string{"attic", "home", "attic"} {
		// Where the emulation is slow, frames are sent twice, and an access point refuses what answers the first.
		m.Run("mac=$(cat /sys/class/net/" + to + "/address); until iw dev " + to + " station dump | grep -q 02:00:00:00:02:00; do " +
			cli + "scan >/dev/null; sleep 8; " + cli + "scan_results | grep -q $mac && " + cli + "roam $mac; sleep 5; done")
		until(m, cli+"status | grep -q wpa_state=COMPLETED")
		said(t, m.Run(cli+"status"), "key_mgmt=FT-PSK")
		until(m, "ip netns exec c1 ping -c 1 -W 2 10.1.0.1")
	}
	// The second access point never agreed on keys: it took those that the client had from the first.
	if joined, again := m.Run("cat /run/minne/services/wifi-ap-phy0/output"), m.Run("cat /run/minne/services/wifi-ap-phy1/output"); !strings.Contains(joined, "pairwise key handshake completed") ||
		strings.Contains(again, "pairwise key handshake completed") || !strings.Contains(again, "02:00:00:00:02:00 IEEE 802.11: associated") {
		t.Errorf("the first access point says\n%s\nthe second\n%s", joined, again)
	}
}
