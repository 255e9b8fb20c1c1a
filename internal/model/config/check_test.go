// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

// What operators really write must pass, unusual as some of it is.
func TestAccepted(t *testing.T) {
	const head = "version: 1\nsystem: {router-id: 192.0.2.1}\ninterfaces:\n  lo: {addresses: [192.0.2.1/32]}\n  wan: {addresses: [198.51.100.2/30, \"2001:db8:f::2/64\"]}\n  lan: {addresses: [10.0.0.1/24, \"2001:db8:1::1/64\"]}\n"
	for name, text := range map[string]string{
		"only a version":              "version: 1\n",
		"JSON":                        `{"version": 1, "interfaces": {"lan": {"addresses": ["192.0.2.1/24"]}}}`,
		"document marks":              "---\nversion: 1\n...\n",
		"several addresses per net":   "version: 1\ninterfaces: {lan: {addresses: [192.0.2.1/24, 192.0.2.2/24, 192.0.2.3/32]}}",
		"point to point":              "version: 1\ninterfaces: {a: {addresses: [192.0.2.0/31, \"2001:db8::/127\"]}, b: {addresses: [192.0.2.3/31]}}",
		"same link-local addresses":   "version: 1\ninterfaces: {a: {addresses: [\"fe80::1/64\"]}, b: {addresses: [\"fe80::1/64\"]}}",
		"loopback address on lo":      "version: 1\ninterfaces: {lo: {addresses: [127.0.0.53/32, \"::1/128\"]}}",
		"swapped names":               "version: 1\ninterfaces: {eth0: {match: {name: eth1}}, eth1: {match: {name: eth0}}}",
		"QinQ":                        "version: 1\ninterfaces: {t: {}, o: {vlan: {parent: t, id: 5, protocol: 802.1ad}}, i: {vlan: {parent: o, id: 5}}, p: {vlan: {parent: t, id: 5}}}",
		"gateway outside the network": "version: 1\ninterfaces: {wan: {addresses: [192.0.2.7/32]}}\nrouting: {static: [{prefix: 0.0.0.0/0, via: [198.51.100.1%wan]}]}",
		"default by interface":        head + "routing: {static: [{prefix: 0.0.0.0/0, via: [wan]}]}",
		"several next hops":           head + "routing: {static: [{prefix: 0.0.0.0/0, via: [198.51.100.1, 10.0.0.2, wan]}]}",
		"link-local next hop":         head + "routing: {static: [{prefix: \"::/0\", via: [fe80::1%wan]}]}",
		"floating routes":             head + "routing: {static: [{prefix: 0.0.0.0/0, via: [198.51.100.1]}, {prefix: 0.0.0.0/0, via: [10.0.0.2], distance: 5}, {prefix: 0.0.0.0/0, blackhole: true, distance: 255}]}",
		"blackholes":                  head + "routing: {static: [{prefix: 10.0.0.0/8, blackhole: true}, {prefix: 224.0.0.0/4, blackhole: true}, {prefix: \"fc00::/7\", blackhole: true}]}",
		"external peer":               head + "routing: {bgp: {asn: 65001.10, announce: [10.0.0.0/24], peers: {a: {address: 198.51.100.1, asn: 4200000000}}}}",
		"both families in one":        head + "routing: {bgp: {asn: 64500, peers: {a: {address: 198.51.100.1, asn: 64496, families: [ipv4, ipv6], import: {accept: [\"2001:db8::/32\"], max-prefixes: {ipv4: 1, ipv6: 1}}}}}}",
		"internal peer far away":      head + "routing: {bgp: {asn: 64500, peers: {a: {address: 192.0.2.9, asn: 64500, source: 192.0.2.1}}}}",
		"multihop":                    head + "routing: {bgp: {asn: 64500, peers: {a: {address: 203.0.113.9, asn: 64496, multihop: 3, source: 192.0.2.1}}}}",
		"link-local peers":            head + "routing: {bgp: {asn: 64500, peers: {a: {address: \"fe80::1\", interface: wan, asn: 64496}, b: {address: \"fe80::1\", interface: lan, asn: 64497}}}}",
		"times":                       head + "routing: {bgp: {asn: 64500, restart-time: 4095s, peers: {a: {address: 198.51.100.1, asn: 64496, hold-time: 3s, export: {med: 0, prepend: 0}}}}}",
		"stub and nssa":               head + "routing: {ospf: {areas: {0: {interfaces: {lan: {}}}, 1: {type: stub, interfaces: {wan: {}}}, 0.0.0.2: {type: nssa, interfaces: {lo: {passive: true}}}}}}",
		"OSPFv3 without addresses":    "version: 1\nsystem: {router-id: 192.0.2.1}\ninterfaces: {lan: {}}\nrouting: {ospf3: {areas: {0: {interfaces: {lan: {hello: 1s, dead: 3s, priority: 0}}}}}}",
		"keys":                        head + "routing: {ospf: {areas: {0: {interfaces: {lan: {auth: {key-id: 1, secret: isp-a}}}}}}, ospf3: {areas: {0: {interfaces: {lan: {auth: {key-id: 1, algorithm: sha256, secret: isp-a}}}}}}}",
		"address by DHCP":             "version: 1\ninterfaces: {wan: {dhcp: on, dhcp-distance: 5}}\nrouting: {static: [{prefix: 0.0.0.0/0, via: [wan]}]}",
		"services":                    head + "services: {dhcp: {lan: {pool: 10.0.0.100-10.0.0.199, dns: [10.0.0.1, 9.9.9.9], static: {nas: {mac: \"52:54:00:12:34:56\", address: 10.0.0.100}}}}, router-advertisements: {lan: {prefixes: [\"2001:db8:1::/64\"]}}, dns: {interfaces: [lan], upstream: [127.0.0.53, \"2001:db8::53\"], names: {printer: 10.0.0.7, www.example.com: 10.0.0.8}}, ntp: {servers: [192.0.2.123, pool.ntp.org]}}",
		"DNS learned by DHCP":         "version: 1\ninterfaces: {wan: {dhcp: on}, lan: {addresses: [10.0.0.1/24]}}\nservices: {dns: {interfaces: [lan]}}",
		"a network called like a key": "version: 1\ninterfaces: {routing: {}, null-0: {}, on: {}, mtu: {}, _x: {}, 1a: {}}",
	} {
		cfg, err := Parse(name, []byte(text))
		if err == nil {
			err = Check(cfg, testSecrets(t))
		}
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}
