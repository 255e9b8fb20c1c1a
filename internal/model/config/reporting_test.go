// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// The router's figures are not for the Internet, its token not for a line that anybody reads.
func TestReportingChecks(t *testing.T) {
	const head = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  wan: {addresses: [198.51.100.2/30]}
  dsl: {dhcp: on}
routing: {static: [{prefix: 0.0.0.0/0, via: [198.51.100.1]}]}
services:
`
	for services, want := range map[string]string{
		"  metrics: {interfaces: [lan]}\n":                                       "",
		"  metrics: {interfaces: [lan, wan]}\n":                                  "wan leads to the Internet",
		"  metrics: {interfaces: [dsl]}\n":                                       "dsl gets its address from a DHCP server",
		"  metrics: {interfaces: []}\n":                                          "no interface is named",
		"  metrics: {interfaces: [lan], port: 22}\n  ssh: {interfaces: [lan]}\n": "services.ssh has this port",
		"  syslog: {a: {address: 192.0.2.9}}\n":                                  "",
		"  syslog: {a: {address: 224.0.0.1}}\n":                                  "224.0.0.1 is no host",
		"  syslog: {a: {address: 192.0.2.9, name: logs}}\n":                      "only tls has certificates",
		"  webhooks: {a: {url: \"https://192.0.2.9/x\"}}\n":                      "",
		"  webhooks: {a: {url: \"ftp://192.0.2.9/x\"}}\n":                        "is no address of a web server",
		"  webhooks: {a: {url: \"https://pat:x@192.0.2.9/\"}}\n":                 "is no address of a web server",
		"  webhooks: {a: {url: \"http://192.0.2.9/x\", token: t}}\n":             "clear text",
	} {
		cfg, err := Parse("test", []byte(head+services))
		if err == nil {
			err = Check(cfg, Secrets{unknown: true})
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s%v, want %q", services, err, want)
		}
	}
}

// Records go to a host; what only one protocol or transport has is not written for another.
func TestCollectorChecks(t *testing.T) {
	for collector, want := range map[string]string{
		"{address: 192.0.2.9}":                                        "",
		"{address: 192.0.2.9, protocol: netflow9}":                    "",
		"{address: 192.0.2.9, transport: tls, ca: a, certificate: b}": "",
		"{address: 0.0.0.0}":                                          "0.0.0.0 is no host",
		"{address: 192.0.2.9, protocol: netflow9, transport: tcp}":    "NetFlow v9 is sent over udp only",
		"{address: 192.0.2.9, transport: tcp, certificate: b}":        "only tls has certificates",
		"{address: 192.0.2.9, templates: 2h}":                         "templates 2h is out of range",
		"{address: 192.0.2.9, protocol: sflow}":                       "sflow",
		"{transport: udp}":                                            "address",
	} {
		cfg, err := Parse("test", []byte("version: 1\ninterfaces: {lan: {zone: lan, addresses: [192.0.2.1/24]}}\nflow-log: {collectors: {a: "+collector+"}}\n"))
		if err == nil {
			err = Check(cfg, Secrets{unknown: true})
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", collector, err, want)
		}
	}
}
