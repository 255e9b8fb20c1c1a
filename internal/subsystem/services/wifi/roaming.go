// SPDX-License-Identifier: Apache-2.0

package wifi

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"minne/internal/model/config"
)

// Clients that change over between access points of one network, of this router or of others with the same name and secret
// (IEEE 802.11r, "fast transition"). Where keys come of a passphrase by WPA2, each access point derives them by itself. Else the one that
// a client joined first is asked, over the network that their bridges share (802.11r's remote request broker); what they say to each other is
// encrypted with a key of the network's secret. An access point that does not answer costs a full login, and nothing else.

// fast are these key agreements and those for changing over.
func fast(keys string) string {
	for _, k := range []struct{ has, fast string }{{"WPA-PSK", "FT-PSK"}, {"SAE", "FT-SAE"}, {"WPA-EAP", "FT-EAP"}} {
		if strings.Contains(" "+keys+" ", " "+k.has+" ") {
			keys += " " + k.fast
		}
	}
	return keys
}

// identifier is what an access point calls itself to RADIUS servers, and to others of its network: for these it is to be unique.
func (d Desired) identifier(name string, a *config.AccessPoint) string {
	host := cmp.Or(d.cfg.System.Hostname, "minne")
	if a.Roaming.On() {
		const most = 48 // octets (R0KH-ID, IEEE 802.11 9.4.2.47)
		return host[:min(len(host), most-1-len(name))] + "-" + name
	}
	return host
}

func (d Desired) roaming(l *lines, name string, a *config.AccessPoint) {
	secret := a.Passphrase
	if a.Security == config.Enterprise {
		secret = a.RADIUS[0].Secret
	} else {
		l.add("nas_identifier=%s", d.identifier(name, a))
	}
	value, _ := d.secrets.Get(secret)
	key := hmac.New(sha256.New, []byte(value))
	key.Write([]byte("minne access points " + a.SSID))
	domain := sha256.Sum256([]byte(a.SSID))
	shared := hex.EncodeToString(key.Sum(nil))
	l.add("mobility_domain=%s\nft_over_ds=0\nft_psk_generate_local=1\npmk_r1_push=0", hex.EncodeToString(domain[:2]))
	l.add("r0kh=ff:ff:ff:ff:ff:ff * %s", shared)
	l.add("r1kh=00:00:00:00:00:00 00:00:00:00:00:00 %s", shared)
	l.add("rrm_neighbor_report=1\nrrm_beacon_report=1\nbss_transition=1")
}
