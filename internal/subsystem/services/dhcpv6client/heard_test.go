// SPDX-License-Identifier: Apache-2.0

package dhcpv6client

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/services/program"
)

// What the script writes, as dhcpcd 9.4.1 says it.
const (
	ra = `at=1000.50
nd1_acquired=995
nd1_from=fe80::1
nd1_lifetime=60
nd1_now=1000
nd1_prefix_information1_flags=LA
nd1_prefix_information1_length=64
nd1_prefix_information1_pltime=4294967295
nd1_prefix_information1_prefix=2001:db8:1::
nd1_prefix_information1_vltime=4294967295
nd1_prefix_information2_flags=L
nd1_prefix_information2_length=64
nd1_prefix_information2_prefix=2001:db8:2::
nd1_prefix_information2_vltime=100
nd1_rdnss1_lifetime=600
nd1_rdnss1_servers=2001:db8:53::1 fe80::53 junk
nd2_from=2001:db8::1
nd2_lifetime=60
`
	lease = `at=1000.00
new_dhcp6_ia_na1_ia_addr1=2001:db8:1::1000
new_dhcp6_ia_na1_ia_addr1_pltime=60
new_dhcp6_ia_na1_ia_addr1_vltime=120
new_dhcp6_ia_pd1_prefix1=2001:db8:a000::
new_dhcp6_ia_pd1_prefix1_length=56
new_dhcp6_ia_pd1_prefix1_pltime=0
new_dhcp6_ia_pd1_prefix1_vltime=300
new_dhcp6_ia_pd1_prefix2=2001:db8:b000:100::
new_dhcp6_ia_pd1_prefix2_length=56
new_dhcp6_ia_pd1_prefix2_pltime=60
new_dhcp6_ia_pd1_prefix2_vltime=120
new_dhcp6_ia_pd1_prefix3=::
new_dhcp6_ia_pd1_prefix3_length=0
new_dhcp6_ia_pd1_prefix3_pltime=4294967295
new_dhcp6_ia_pd1_prefix3_vltime=4294967295
new_dhcp6_name_servers=2001:db8:53::1 2001:db8:53::2
`
)

// What is used of that which a provider said, at some times since boot: each thing until its time is up, of two
// prefixes the one that the provider prefers, nothing that is no network.
func TestUse(t *testing.T) {
	runDir := t.TempDir()
	c := New(runDir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	c.suffix = func(string) (netip.Addr, bool) { return netip.MustParseAddr("fe80::5054:ff:fe12:3456"), true }
	dir := program.Dir(runDir, prefix+"wan")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ra": ra, "lease": lease} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inside := []Inside{{"lan", 1}, {"guests", 0x123}}
	slaac := "2001:db8:1:0:5054:ff:fe12:3456/64"
	for _, when := range []struct {
		at    time.Duration
		want  string
		fault string
	}{
		{1001, "[2001:db8:1::1000/128 " + slaac + "] fe80::1 2001:db8:b000:100::/56 [2001:db8:b000:101::1/64] [2001:db8:53::1 2001:db8:53::2]", "no network 291 for guests"},
		{1056, "[2001:db8:1::1000/128 " + slaac + "] invalid IP 2001:db8:b000:100::/56 [2001:db8:b000:101::1/64] [2001:db8:53::1 2001:db8:53::2]", "no network 291 for guests"},
		{1121, "[" + slaac + "] invalid IP 2001:db8:a000::/56 [2001:db8:a000:1::1/64] [2001:db8:53::1 2001:db8:53::2]", "no network 291 for guests"},
		{1301, "[" + slaac + "] invalid IP invalid Prefix [] [2001:db8:53::1]", "delegates no prefix"},
		{1700, "[" + slaac + "] invalid IP invalid Prefix [] []", "delegates no prefix"},
	} {
		c.clock = func() time.Duration { return when.at * time.Second }
		g, fault := c.use("wan", inside)
		got := fmt.Sprint(g.Addresses["wan"], " ", g.Router, " ", g.Prefix, " ", g.Addresses["lan"], " ", g.DNS)
		if got != when.want || !strings.Contains(fault, when.fault) {
			t.Errorf("after %d s:\n%s, %q\nexpected\n%s, %q", when.at, got, fault, when.want, when.fault)
		}
	}
}

func TestSubnet(t *testing.T) {
	for _, c := range []struct {
		prefix string
		number int
		want   string // "" for none
	}{
		{"2001:db8::/48", 0, "2001:db8::/64"},
		{"2001:db8::/48", 0xabcd, "2001:db8:0:abcd::/64"},
		{"2001:db8::/48", 0x10000, ""},
		{"2001:db8:0:ff00::/56", 255, "2001:db8:0:ffff::/64"},
		{"2001:db8:0:ff00::/56", 256, ""},
		{"2001:db8::/64", 0, "2001:db8::/64"},
		{"2001:db8::/64", 1, ""},
		{"2001:db8::/65", 0, ""},
	} {
		got, ok := subnet(netip.MustParsePrefix(c.prefix), c.number)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("network %d of %s: %s, %t, expected %q", c.number, c.prefix, got, ok, c.want)
		}
	}
}
