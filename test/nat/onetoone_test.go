// SPDX-License-Identifier: Apache-2.0

package nat

import "testing"

const mapped = `firewall:
  policies:
    - {from: [wan, lan, dmz], to: dmz, rules: [permit tcp any any 80, permit ping]}
    - {from: dmz, to: wan, default: permit}
nat:
  - {from: dmz, to: wan, one-to-one: {outside: 203.0.113.16/29, inside: 10.3.0.16/29, hairpin: on}}
  - {from: dmz, to: wan, one-to-one: {outside: "2001:db8:ff::10/124", inside: "fd00:3::10/124", hairpin: on}}
`

// One-to-one translation in both directions. Nobody tells the host outside where
// the addresses are: it asks on its network.
func TestOneToOne(t *testing.T) { tryOneToOne(t, newBed(t)) }

func tryOneToOne(t *testing.T, b *bed) {
	b.apply(mapped)
	b.web(&b.inside, ":80")
	b.web(&b.outside, ":80")
	for _, c := range []struct {
		on              *host
		from, url, want string
	}{
		{&b.outside, "", "http://203.0.113.17/", "203.0.113.9 to 10.3.0.17"},
		{&b.outside, "", "http://203.0.113.18/", "203.0.113.9 to 10.3.0.18"},
		{&b.outside, "", "http://[2001:db8:ff::17]/", "2001:db8:ff::9 to fd00:3::17"},
		{&b.inside, "10.3.0.17", "http://203.0.113.9/", "203.0.113.17 to 203.0.113.9"},
		{&b.inside, "10.3.0.18", "http://203.0.113.9/", "203.0.113.18 to 203.0.113.9"},
		{&b.inside, "fd00:3::18", "http://[2001:db8:ff::9]/", "2001:db8:ff::18 to 2001:db8:ff::9"},
		// Hairpin: from another zone as it is, from the target's own by its outside address.
		{&b.lan, "", "http://203.0.113.17/", "10.1.0.7 to 10.3.0.17"},
		{&b.inside, "10.3.0.18", "http://203.0.113.17/", "203.0.113.18 to 10.3.0.17"},
		{&b.inside, "fd00:3::18", "http://[2001:db8:ff::17]/", "2001:db8:ff::18 to fd00:3::17"},
	} {
		b.sees(c.on, c.from, c.url, c.want)
	}
	b.run(&b.outside, "ping", "-c1", "-W2", "203.0.113.17")
	b.run(&b.outside, "ping", "-c1", "-W2", "2001:db8:ff::18")
	// The router answers for every address of the network, but nobody has this one.
	if out, err := b.try(&b.outside, "ping", "-c1", "-W1", "203.0.113.20"); err == nil {
		t.Errorf("an unused address answers: %s", out)
	}
	b.unanswered(&b.outside, "http://203.0.113.17:81/") // no rule permits it
}

// Hosts beside the target without an outside address of their own appear as the router.
func TestOneToOneHairpinOfOthers(t *testing.T) {
	b := newBed(t)
	b.apply(`firewall: {policies: [{from: dmz, to: wan, default: permit}]}
nat:
  - {from: dmz, to: wan, one-to-one: {outside: 203.0.113.17/32, inside: 10.3.0.17/32, hairpin: on}}
  - {from: dmz, to: wan, masquerade: true}
`)
	b.web(&b.inside, ":80")
	b.web(&b.outside, ":80")
	b.sees(&b.inside, "10.3.0.18", "http://203.0.113.17/", "10.3.0.1 to 10.3.0.17")
	b.sees(&b.inside, "10.3.0.17", "http://203.0.113.9/", "203.0.113.17 to 203.0.113.9")
	b.sees(&b.inside, "10.3.0.18", "http://203.0.113.9/", "203.0.113.1 to 203.0.113.9")
}

// A whole prefix of IPv6 outside, which is routed to the router.
func TestPrefixTranslation(t *testing.T) {
	b := newBed(t)
	b.apply(`firewall:
  policies: [{from: wan, to: dmz, rules: ["permit tcp any fd00:3::17 80"]}, {from: dmz, to: wan, default: permit}]
nat: [{from: dmz, to: wan, one-to-one: {outside: "2001:db8:f3::/48", inside: "fd00:3::/48"}}]
`)
	b.web(&b.inside, ":80")
	b.web(&b.outside, ":80")
	b.sees(&b.outside, "", "http://[2001:db8:f3::17]/", "2001:db8:ff::9 to fd00:3::17")
	b.sees(&b.inside, "fd00:3::18", "http://[2001:db8:ff::9]/", "2001:db8:f3::18 to 2001:db8:ff::9")
	b.unanswered(&b.outside, "http://[2001:db8:f3::18]/") // no rule permits it
	b.unanswered(&b.lan, "http://[2001:db8:f3::17]/")     // without hairpin
}

// The addresses of a pool lie in the network outside, and answers to them come back.
func TestPoolOnNetworkOutside(t *testing.T) {
	b := newBed(t)
	b.apply(`firewall: {policies: [{from: dmz, to: wan, default: permit}]}
nat: [{from: dmz, to: wan, pool: [203.0.113.64/32, "2001:db8:ff::64/128"]}]
`)
	b.web(&b.outside, ":80")
	b.sees(&b.inside, "10.3.0.17", "http://203.0.113.9/", "203.0.113.64 to 203.0.113.9")
	b.sees(&b.inside, "fd00:3::17", "http://[2001:db8:ff::9]/", "2001:db8:ff::64 to 2001:db8:ff::9")
}
