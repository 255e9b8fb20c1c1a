// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// Hosts on the network outside find the addresses of a one-to-one translation there,
// through all that the daemon sets up.
func TestOneToOneTranslation(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1", "2001:db8:2::9/64": "2001:db8:2::1"})
	lan.serve(":80")
	wan.serve(":80")
	b.want(0, "+ answers for 10 translated addresses, 198.51.100.32 to 2001:db8:2::11, on wan", "apply", b.file("nat.yaml", `version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24, "2001:db8:1::1/64"]}
  wan: {zone: wan, addresses: [198.51.100.1/24, "2001:db8:2::1/64"]}
firewall: {policies: [{from: any, to: any, default: permit}]}
nat:
  - {from: lan, to: wan, one-to-one: {outside: 198.51.100.32/29, inside: 192.0.2.8/29}}
  - {from: lan, to: wan, one-to-one: {outside: "2001:db8:2::10/127", inside: "2001:db8:1::10/127"}}
`))
	eventually(t, "IPv6 through the router", func() bool { return wan.reach("[2001:db8:2::10]:80") == "2001:db8:2::9" })
	for range 3 {
		wan.wantReach("198.51.100.34:80", "198.51.100.9")
		lan.wantReach("198.51.100.9:80", "198.51.100.34")
		wan.wantReach("[2001:db8:2::10]:80", "2001:db8:2::9")
		lan.wantReach("[2001:db8:2::9]:80", "2001:db8:2::10")
	}
	b.want(0, "nothing to change", "apply", "--dry-run", b.root+"/nat.yaml")
}
