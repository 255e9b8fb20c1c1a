// SPDX-License-Identifier: Apache-2.0

package wifi

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"

	"minne/internal/base/nl80211"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
)

// One hostapd has all access points of a radio. It makes the interfaces of all but the first, and takes them away when it
// ends; the first, and the radio's other interfaces, are made here.

// lines writes the text of a configuration.
type lines struct{ strings.Builder }

func (l *lines) add(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

// accessPoints is the hostapd of a radio.
func (d Desired) accessPoints(name string, names []string, phy *nl80211.Radio, dir string) program.Desired {
	r := d.cfg.Radios[name]
	var l lines
	l.add("# Made by minne; changes here are lost.")
	l.add("driver=nl80211\nctrl_interface=%s", filepath.Join(dir, control))
	l.add("logger_syslog=0\nlogger_stdout=-1\nlogger_stdout_level=2")
	l.add("country_code=%s\nieee80211d=1", r.Country)
	l.channel(r, phy)
	var facts []string
	for n, i := range names {
		a := d.cfg.Interfaces[i].WiFi.AccessPoint
		if n == 0 {
			l.add("interface=%s", i)
		} else {
			l.add("\nbss=%s\nbssid=%s", i, address(phy.MAC, n))
		}
		d.network(&l, i, a)
		facts = append(facts, fmt.Sprintf("%s as %s (%s)", printable(a.SSID), i, a.Security))
	}
	return program.Desired{
		Object: "Wi-Fi access points on " + name,
		Facts:  facts,
		Argv:   []string{hostapd, filepath.Join(dir, "hostapd.conf")},
		Serves: filepath.Join(control, names[0]),
		Files:  map[string]string{"hostapd.conf": l.String(), made: names[0] + "\n"},
		Modes:  map[string]fs.FileMode{"hostapd.conf": 0o600},
		Needs:  needs(hostapd, "hostapd"),
	}
}

// address is that of the n-th access point of a radio: the radio's, locally administered, with the number in the highest bits.
func address(mac net.HardwareAddr, n int) string {
	own := append(net.HardwareAddr{}, mac...)
	own[0] = (own[0] | 2) ^ byte(n<<2)
	return own.String()
}

// channel writes what the radio's access points share: channel, width, and what the card can do.
func (l *lines) channel(r *config.Radio, phy *nl80211.Radio) {
	width := r.Width.MHz()
	first := cmp.Or(r.Channel, r.Band.Channels()[0])
	band, _ := phy.Find(r.Band.MHz(first))
	if band == nil {
		band = &nl80211.Band{}
	}
	if r.Band == config.Band5 {
		l.add("hw_mode=a\nieee80211h=1")
	} else {
		l.add("hw_mode=g")
	}
	if r.Channel == 0 {
		l.add("channel=acs_survey")
	} else {
		l.add("channel=%d", r.Channel)
	}
	l.add("wmm_enabled=1")
	if band.HT == 0 {
		return
	}
	l.add("ieee80211n=1")
	var words strings.Builder
	if block := r.Band.Block(first, width); width >= 40 && len(block) > 1 {
		words.WriteString(second(r.Band, first, block))
	}
	for _, c := range htWords {
		if uint32(band.HT)&c.mask == c.value {
			words.WriteString("[" + c.word + "]")
		}
	}
	if words.Len() > 0 {
		l.add("ht_capab=%s", words.String())
	}
	seg := 0 // the middle of 80 or 160 MHz
	if block := r.Band.Block(first, width); width >= 80 && r.Channel != 0 {
		seg = (block[0] + block[len(block)-1]) / 2
	}
	wide := map[int]int{80: 1, 160: 2}[width]
	if band.IsVHT && r.Band == config.Band5 {
		words.Reset()
		for _, c := range vhtWords {
			if band.VHT&c.mask == c.value {
				words.WriteString("[" + c.word + "]")
			}
		}
		l.add("ieee80211ac=1\nvht_oper_chwidth=%d", wide)
		if words.Len() > 0 {
			l.add("vht_capab=%s", words.String())
		}
		if seg != 0 {
			l.add("vht_oper_centr_freq_seg0_idx=%d", seg)
		}
	}
	if band.HE {
		l.add("ieee80211ax=1")
		if r.Band == config.Band5 {
			l.add("he_oper_chwidth=%d", wide)
			if seg != 0 {
				l.add("he_oper_centr_freq_seg0_idx=%d", seg)
			}
		}
	}
}

// second says on which side of the first channel the second one of 40 MHz lies.
func second(band config.RadioBand, channel int, block []int) string {
	pair := block
	if len(block) > 2 {
		pair = band.Block(channel, 40)
	}
	if channel == pair[0] {
		return "[HT40+]"
	}
	return "[HT40-]"
}

// capability is what a card can do, in hostapd's words: bits of its capabilities under a mask.
type capability struct {
	mask, value uint32
	word        string
}

// htWords are those of 802.11n (HT Capability Information, IEEE 802.11 9.4.2.55.2).
var htWords = []capability{
	{1 << 0, 1 << 0, "LDPC"}, {1 << 5, 1 << 5, "SHORT-GI-20"}, {1 << 6, 1 << 6, "SHORT-GI-40"}, {1 << 7, 1 << 7, "TX-STBC"},
	{3 << 8, 1 << 8, "RX-STBC1"}, {3 << 8, 2 << 8, "RX-STBC12"}, {3 << 8, 3 << 8, "RX-STBC123"},
	{1 << 11, 1 << 11, "MAX-AMSDU-7935"}, {1 << 12, 1 << 12, "DSSS_CCK-40"},
}

// vhtWords are those of 802.11ac (VHT Capabilities Information, IEEE 802.11 9.4.2.157.2).
var vhtWords = []capability{
	{3, 1, "MAX-MPDU-7991"}, {3, 2, "MAX-MPDU-11454"}, {3 << 2, 1 << 2, "VHT160"}, {3 << 2, 2 << 2, "VHT160-80PLUS80"},
	{1 << 4, 1 << 4, "RXLDPC"}, {1 << 5, 1 << 5, "SHORT-GI-80"}, {1 << 6, 1 << 6, "SHORT-GI-160"}, {1 << 7, 1 << 7, "TX-STBC-2BY1"},
	{7 << 8, 1 << 8, "RX-STBC-1"}, {7 << 8, 2 << 8, "RX-STBC-12"}, {7 << 8, 3 << 8, "RX-STBC-123"}, {7 << 8, 4 << 8, "RX-STBC-1234"},
	{7 << 23, 7 << 23, "MAX-A-MPDU-LEN-EXP7"}, {1 << 28, 1 << 28, "RX-ANTENNA-PATTERN"}, {1 << 29, 1 << 29, "TX-ANTENNA-PATTERN"},
}

// network writes one access point. All ciphers are CCMP; management frames are protected wherever the other end can.
func (d Desired) network(l *lines, name string, a *config.AccessPoint) {
	l.add("ssid2=%s\nutf8_ssid=1\nauth_algs=1", quoted(a.SSID))
	if bridge := d.bridges[name]; bridge != "" {
		l.add("bridge=%s", bridge)
	}
	keys, protect := suites(a.Security)
	if a.Roaming.On() {
		keys = fast(keys)
	}
	if keys != "" {
		l.add("wpa=2\nwpa_key_mgmt=%s\nrsn_pairwise=CCMP\nieee80211w=%d", keys, protect)
	}
	switch {
	case a.Security.Personal():
		value, _ := d.secrets.Get(a.Passphrase)
		l.add("wpa_passphrase=%s", value)
		if a.Security != "wpa2" {
			l.add("sae_require_mfp=1\nsae_pwe=2")
		}
	case a.Security == config.Enterprise:
		l.add("ieee8021x=1\nnas_identifier=%s", d.identifier(name, a))
		for _, r := range a.RADIUS {
			secret, _ := d.secrets.Get(r.Secret)
			l.add("auth_server_addr=%s\nauth_server_port=%d\nauth_server_shared_secret=%s", r.Address, r.Port, secret)
		}
	}
	if a.Roaming.On() {
		d.roaming(l, name, a)
	}
	if a.Isolate.On() {
		l.add("ap_isolate=1")
	}
	if a.Hidden.On() {
		l.add("ignore_broadcast_ssid=1")
	}
	if a.MaxClients != 0 {
		l.add("max_num_sta=%d", a.MaxClients)
	}
}

// suites are how keys are agreed on, in the words of both programs, and whether management frames are protected (802.11w):
// 0 no, 1 where the other end can, 2 always.
func suites(s config.WiFiSecurity) (keys string, protect int) {
	switch s {
	case "wpa2":
		return "WPA-PSK WPA-PSK-SHA256", 1
	case "wpa2+wpa3":
		return "WPA-PSK WPA-PSK-SHA256 SAE", 1
	case "wpa3":
		return "SAE", 2
	case config.Enterprise:
		return "WPA-EAP WPA-EAP-SHA256", 1
	case "owe":
		return "OWE", 2
	}
	return "", 0
}

// quoted is the name of a network for both programs: in quotes, or in hexadecimal where quotes could mean something else.
func quoted(text string) string {
	plain := !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
	if plain {
		return `"` + text + `"`
	}
	return hex.EncodeToString([]byte(text))
}
