// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"minne/internal/testing/testimage"
)

// signed makes the certificate of an authority and that of a server which it signed, with the server's key, all as PEM.
func signed(t *testing.T, name string) (authority, server, key string) {
	t.Helper()
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	keys := [2]*ecdsa.PrivateKey{}
	for n := range keys {
		var err error
		if keys[n], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter}
	der := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	authority = text("CERTIFICATE", der(x509.CreateCertificate(rand.Reader, ca, ca, &keys[0].PublicKey, keys[0])))
	server = text("CERTIFICATE", der(x509.CreateCertificate(rand.Reader, leaf, ca, &keys[1].PublicKey, keys[0])))
	return authority, server, text("EC PRIVATE KEY", der(x509.MarshalECPrivateKey(keys[1])))
}

// TestUsersOfWiFi has users with names at both ends (802.1X): the router joins a provider's network as one, and lets the
// provider's RADIUS server, which is behind that link, decide who joins its own.
func TestUsersOfWiFi(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t, "wifi"), Memory: 768})
	shell(m)
	m.Run(`modprobe mac80211_hwsim radios=5
n=2; for host in isp good bad; do ip netns add $host; iw phy phy$n set netns name $host; ip -n $host link set lo up; n=$((n+1)); done`)
	authority, server, key := signed(t, "radius.isp.example")
	for file, text := range map[string]string{
		"ca.pem": authority, "server.pem": server, "server.key": key, "clients": "198.51.100.0/24 between-us",
		"users":    "* PEAP\n\"mast-7\" MSCHAPV2 \"my password\" [2]\n\"pat\" MSCHAPV2 \"pats password\" [2]",
		"secrets":  "line: my password\nshared: between-us",
		"isp.conf": "interface=wlan2\ndriver=nl80211\nhw_mode=g\nchannel=6\nssid=Mast\nwpa=2\nwpa_key_mgmt=WPA-EAP\nrsn_pairwise=CCMP\nieee8021x=1\neap_server=1\neap_user_file=/tmp/users\nca_cert=/tmp/ca.pem\nserver_cert=/tmp/server.pem\nprivate_key=/tmp/server.key\nradius_server_clients=/tmp/clients\nradius_server_auth_port=1812",
		"router.yaml": `version: 1
radios: {phy0: {country: DE, band: 5GHz, channel: 36}, phy1: {country: DE}}
interfaces:
  work: {zone: work, addresses: [10.4.0.1/24], wifi: {radio: phy0, access-point: {ssid: Work, security: enterprise, radius: [{address: 198.51.100.1, secret: shared}]}}}
  uplink:
    zone: wan
    addresses: [198.51.100.2/24]
    wifi: {radio: phy1, station: {ssid: Mast, security: enterprise, eap: {identity: mast-7, password: line, ca-certificate: ca.pem, domain: radius.isp.example}}}`,
	} {
		m.Write("/tmp/"+file, text)
	}
	m.Run("mount -o remount,rw /config && (umask 077; cat /tmp/secrets >/etc/minne/secrets.yaml); cp /tmp/ca.pem /etc/minne/; mount -o remount,ro /config")
	m.Run("ip netns exec isp hostapd -B -P /tmp/isp.pid -f /tmp/isp.log /tmp/isp.conf && ip -n isp addr add 198.51.100.1/24 dev wlan2")
	m.Run("minne apply /tmp/router.yaml")
	until(m, "minne show wifi --json | tr -d ' \\n' | grep -q '\"Mast\",\"security\":\"enterprise\",\"mac\":\"[0-9a-f:]*\",\"state\":\"up\"'")
	until(m, "ping -c 1 -W 2 198.51.100.1")

	for host, password := range map[string]string{"good": "pats password", "bad": "somebody's guess"} {
		link := map[string]string{"good": "wlan3", "bad": "wlan4"}[host]
		station(m, host, link, `ssid="Work"`, "key_mgmt=WPA-EAP", "eap=PEAP", `identity="pat"`, `password="`+password+`"`, `ca_cert="/tmp/ca.pem"`, `phase2="auth=MSCHAPV2"`)
	}
	m.Run("ip -n good addr add 10.4.0.2/24 dev wlan3")
	until(m, "ip netns exec good ping -c 1 -W 2 10.4.0.1")
	until(m, "grep -q 'EAP-FAILURE' /tmp/bad.log")
	out := m.Run("minne show wifi")
	said(t, out, "access point Work (enterprise)", "02:00:00:00:03:00")
	if out, code := m.Try("minne show wifi | grep 02:00:00:00:04:00"); code == "0" {
		t.Errorf("a wrong password joined:\n%s", out)
	}
}
