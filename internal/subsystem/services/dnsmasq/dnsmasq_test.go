// SPDX-License-Identifier: Apache-2.0

package dnsmasq

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/config"
	"minne/internal/subsystem/services/service"
	"minne/internal/testing/servicetest"
)

// dnsmasq's configuration stays what it is, and dnsmasq takes it.
func TestRender(t *testing.T) {
	for name, text := range map[string]string{
		"whole": `
  dhcp:
    lan:
      pool: 192.0.2.100-192.0.2.199
      lease-time: 1h
      search: [home.arpa, corp.example]
      boot: {server: 192.0.2.20, file: pxe/boot.0}
      static:
        nas: {mac: "52:54:00:00:00:01", address: 192.0.2.20}
    guests: {pool: 198.51.100.10-198.51.100.20, router: 198.51.100.2, dns: [9.9.9.9, 1.1.1.1]}
  router-advertisements:
    lan: {prefixes: ["2001:db8::/64"], lifetime: 30m}
    guests: {prefixes: ["2001:db8:1::/64"], default-router: off}
  dns:
    interfaces: [lan]
    upstream: [203.0.113.53, "2001:db8:f::53"]
    domain: home.arpa
    names: {printer: 192.0.2.30, www.example.org: 192.0.2.80}
    private-domains: [corp.example]
    cache: 5000
  ntp: {servers: [192.0.2.123], interfaces: [lan]}
`,
		"learned": "\n  dns: {interfaces: [lan, guests]}\n",
		"dhcp":    "\n  dhcp: {lan: {pool: 192.0.2.100-192.0.2.199}}\n",
		"relay":   "\n  dhcp: {guests: {pool: 198.51.100.10-198.51.100.20}}\n  dhcp-relay: {lan: {servers: [203.0.113.67]}}\n  dns: {interfaces: [lan]}\n",
		"dhcpv6": `
  router-advertisements:
    lan: {prefixes: ["2001:db8::/64"], lifetime: 1h}
    guests: {prefixes: ["2001:db8:1::/64"]}
  dhcpv6:
    lan: {pool: "::1000-::1fff", slaac: off, search: [corp.example], static: {nas: {mac: "52:54:00:00:00:01", address: "::20"}, tv: {duid: "00:03:00:01:52:54:00:00:00:02", address: "::21"}}}
    guests: {}
  dns: {interfaces: [lan], upstream: [203.0.113.53, "2001:db8:f::53"]}
`,
		"ra": "\n  router-advertisements: {lan: {prefixes: [\"2001:db8::/64\"]}}\n",
	} {
		cfg := servicetest.Config(t, "services:"+text)
		d, err := Render(cfg, "/run/minne")
		if err != nil {
			t.Fatal(err)
		}
		servicetest.Golden(t, name+".conf", d[""].Desired)
		file := filepath.Join(t.TempDir(), "conf")
		if err := os.WriteFile(file, []byte(d[""].Files["dnsmasq.conf"]), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(binary, "--test", "--conf-file="+file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if d, err := Render(servicetest.Config(t, ""), "/run/minne"); err != nil || len(d) > 0 {
		t.Errorf("without services: %+v, %v", d, err)
	}
}

// TestRenderVRFs: each VRF has a dnsmasq that serves its interfaces alone.
func TestRenderVRFs(t *testing.T) {
	cfg, err := config.Parse("test.yaml", []byte(`version: 1
interfaces:
  red: {vrf: {table: 100, interfaces: [office, dsl]}}
  blue: {vrf: {table: 101, interfaces: [shop, cable]}}
  dsl: {dhcp: on, dhcpv6: {}}
  cable: {dhcp: on}
  office: {addresses: [192.0.2.1/24], delegated-prefix: {from: dsl, subnet: 1}}
  shop: {addresses: [192.0.2.1/24]}
  lan: {addresses: [192.0.2.1/24]}
services:
  dhcp:
    office: {pool: 192.0.2.100-192.0.2.199, static: {nas: {mac: "52:54:00:00:00:01", address: 192.0.2.20}}}
    shop: {pool: 192.0.2.50-192.0.2.59, static: {nas: {mac: "52:54:00:00:00:01", address: 192.0.2.30}}}
    lan: {pool: 192.0.2.10-192.0.2.19}
  router-advertisements: {office: {}}
  dns: {interfaces: [office, shop], domain: home.arpa}
`))
	if err == nil {
		err = config.Check(cfg, config.Secrets{})
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := Render(cfg, "/run/minne")
	if err != nil || len(d) != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	for vrf, learn := range map[string]string{"": "[blue lan red]", "red": "[dsl office]", "blue": "[cable shop]"} {
		servicetest.Golden(t, "vrf"+key(vrf)+".conf", d[vrf].Desired)
		if d[vrf].VRF != vrf || fmt.Sprint(d[vrf].Learn) != learn {
			t.Errorf("%q: in VRF %q, learns of %v", vrf, d[vrf].VRF, d[vrf].Learn)
		}
	}
}

func TestLeases(t *testing.T) {
	s := New(t.TempDir(), slog.New(slog.DiscardHandler))
	if list, err := s.Leases(); list != nil || err != nil {
		t.Errorf("without a server: %v, %v", list, err)
	}
	s.desired = Desired{"": {}}
	if err := os.MkdirAll(s.dir(""), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "1795287700 16 2001:db8::20 nas 00:03:00:01:52:54:00:00:00:01\n1795287600 52:54:00:00:00:07 192.0.2.107 laptop 01:52:54:00:00:00:07\n0 52:54:00:00:00:08 192.0.2.108 * *\nduid 00:01:00\nnonsense\n"
	if err := os.WriteFile(filepath.Join(s.dir(""), leaseFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	list, err := s.Leases()
	want := []Lease{
		{Address: netip.MustParseAddr("2001:db8::20"), DUID: "00:03:00:01:52:54:00:00:00:01", Name: "nas", Until: time.Unix(1795287700, 0).UTC()},
		{Address: netip.MustParseAddr("192.0.2.107"), MAC: "52:54:00:00:00:07", Name: "laptop", Until: time.Unix(1795287600, 0).UTC()},
		{Address: netip.MustParseAddr("192.0.2.108"), MAC: "52:54:00:00:00:08"},
	}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("%+v, %v", list, err)
	}
}

// Servers that are learned before dnsmasq runs are there when it does, and go with it.
func TestUpstream(t *testing.T) {
	s := New(t.TempDir(), slog.New(slog.DiscardHandler))
	if err := s.Upstream([]service.Server{{Interface: "wan", Address: netip.MustParseAddr("192.0.2.53")}, {Interface: "dsl", Address: netip.MustParseAddr("198.51.100.53")}}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir(""), serverFile)
	if _, err := os.Stat(file); err == nil {
		t.Error("written although nothing runs")
	}
	s.desired = Desired{"": {Learn: []string{"lan", "wan"}}, "red": {Learn: []string{"dsl"}}}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	for vrf, want := range map[string]string{"": "nameserver 192.0.2.53\n", "red": "nameserver 198.51.100.53\n"} { // each its own alone
		if b, err := os.ReadFile(filepath.Join(s.dir(vrf), serverFile)); err != nil || string(b) != "# Made by minne.\n"+want {
			t.Errorf("%q: %q, %v", vrf, b, err)
		}
	}
}

// dnsmasq has room for all leases of big pools: by itself it stops at 1,000.
func TestRoomForAllLeases(t *testing.T) {
	cfg := servicetest.Config(t, "services: {dhcp: {lan: {pool: 192.0.2.100-192.0.2.199}}}")
	wantRoom := func(line string) {
		t.Helper()
		d, err := Render(cfg, "/run/minne")
		if err != nil || !strings.Contains(d[""].Files["dnsmasq.conf"], line) {
			t.Errorf("%v\n%s\nwant %s", err, d[""].Files["dnsmasq.conf"], line)
		}
	}
	wantRoom("dhcp-lease-max=1000\n")
	cfg.Interfaces["campus"] = &config.Interface{Addresses: []config.Address{{Prefix: netip.MustParsePrefix("10.1.0.1/16")}}}
	cfg.Services.DHCP["campus"] = &config.DHCPServer{
		Pool:   config.AddressRange{First: netip.MustParseAddr("10.1.0.10"), Last: netip.MustParseAddr("10.1.255.9")},
		Static: map[string]*config.StaticLease{"nas": {MAC: config.MAC{0x52, 0x54}, Address: netip.MustParseAddr("10.1.0.2")}},
	}
	wantRoom("dhcp-lease-max=65381\n")
}

// Tags of an interface are none that dnsmasq gives by itself: options of an interface with the name
// known would go to hosts of another that are known.
func TestTagsAreOurs(t *testing.T) {
	cfg := servicetest.Config(t, "services: {dhcp: {lan: {pool: 192.0.2.100-192.0.2.199}}}")
	cfg.Interfaces["known"] = cfg.Interfaces["lan"]
	cfg.Services.DHCP["known"] = cfg.Services.DHCP["lan"]
	d, err := Render(cfg, "/run/minne")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"set:known", "tag:known"} {
		if strings.Contains(d[""].Files["dnsmasq.conf"], word) {
			t.Errorf("%s:\n%s", word, d[""].Files["dnsmasq.conf"])
		}
	}
}
