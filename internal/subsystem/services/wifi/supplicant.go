// SPDX-License-Identifier: Apache-2.0

package wifi

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"

	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
)

// joins is the wpa_supplicant of a station or a mesh.
func (d Desired) joins(name, dir string) program.Desired {
	w := d.cfg.Interfaces[name].WiFi
	r := d.cfg.Radios[w.Radio]
	var l lines
	l.add("# Made by minne; changes here are lost.")
	l.add("ctrl_interface=%s\nupdate_config=0\ncountry=%s\nsae_pwe=2\np2p_disabled=1", filepath.Join(dir, control), r.Country)
	object := ""
	if w.Mesh != nil {
		object = fmt.Sprintf("Wi-Fi mesh %s as %s", printable(w.Mesh.ID), name)
		d.mesh(&l, w.Mesh, r)
	} else {
		object = fmt.Sprintf("Wi-Fi station of %s as %s", printable(w.Station.SSID), name)
		d.station(&l, w.Station)
	}
	argv := []string{supplicant, "-D", "nl80211", "-i", name, "-c", filepath.Join(dir, "supplicant.conf")}
	return program.Desired{
		Object: object,
		Argv:   argv,
		Serves: filepath.Join(control, name),
		Files:  map[string]string{"supplicant.conf": l.String(), made: name + "\n"},
		Modes:  map[string]fs.FileMode{"supplicant.conf": 0o600},
		Needs:  needs(supplicant, "wpasupplicant"),
	}
}

func (d Desired) station(l *lines, s *config.Station) {
	l.add("network={\n\tssid=%s\n\tscan_ssid=1", quoted(s.SSID)) // which finds hidden names, too
	if !s.BSSID.IsZero() {
		l.add("\tbssid=%s", s.BSSID)
	}
	keys, protect := suites(s.Security)
	if keys == "" {
		l.add("\tkey_mgmt=NONE")
	} else {
		l.add("\tkey_mgmt=%s\n\tproto=RSN\n\tpairwise=CCMP\n\tieee80211w=%d", keys, protect)
	}
	switch {
	case s.Security.Personal():
		value, _ := d.secrets.Get(s.Passphrase)
		l.add("\tpsk=\"%s\"", value) // up to the last quote of the line
	case s.EAP != nil:
		password, _ := d.secrets.Get(s.EAP.Password)
		method := map[config.EAPMethod]string{"peap": "PEAP", "ttls": "TTLS"}[s.EAP.Method]
		l.add("\teap=%s\n\tphase2=\"auth=MSCHAPV2\"\n\tidentity=\"%s\"", method, s.EAP.Identity)
		if s.EAP.Anonymous != "" {
			l.add("\tanonymous_identity=\"%s\"", s.EAP.Anonymous)
		}
		l.add("\tpassword=\"%s\"\n\tca_cert=\"%s\"", password, d.file(s.EAP.CACertificate))
		if s.EAP.Domain != "" {
			l.add("\tdomain_suffix_match=\"%s\"", s.EAP.Domain)
		}
	}
	l.add("}")
}

// mesh joins on the radio's channel. The radio forwards nothing: ways are found by a routing protocol.
func (d Desired) mesh(l *lines, m *config.Mesh, r *config.Radio) {
	value, _ := d.secrets.Get(m.Passphrase)
	l.add("network={\n\tmode=5\n\tssid=%s\n\tfrequency=%d\n\tkey_mgmt=SAE\n\tieee80211w=2\n\tpsk=\"%s\"\n\tmesh_fwding=0", quoted(m.ID), r.Band.MHz(r.Channel), value)
	switch r.Width.MHz() {
	case 20:
		l.add("\tdisable_ht40=1\n\tdisable_vht=1")
	case 40:
		l.add("\tdisable_vht=1")
	case 80:
		l.add("\tmax_oper_chwidth=1")
	case 160:
		l.add("\tmax_oper_chwidth=2")
	}
	l.add("}")
}

// file is the path of a file that the configuration names.
func (d Desired) file(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(cmp.Or(d.folder, "/etc/minne"), name)
}
