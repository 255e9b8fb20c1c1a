// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// customers is the configuration of testdata/golden/vrfs.yaml, with one line changed.
func customers(t *testing.T, change ...string) *config.Config {
	t.Helper()
	data, err := os.ReadFile("testdata/golden/vrfs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("vrfs.yaml", []byte(strings.NewReplacer(change...).Replace(string(data))))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

var customerSecrets = passwords{"isp-a": "s3cret", "ospf": "0spfkey"}

// FRR prints what is in VRFs as it was written, so that applying it again sends nothing; it takes changes, and one
// VRF leaves without the others. The kernel of this test has no VRFs, which FRR does not mind; traffic is for test/uml.
func TestVRFsAreTaken(t *testing.T) {
	l := newLab(t)
	l.apply(customers(t), customerSecrets)
	if s := contains(strings.Join(l.running(bgpd), "\n"), "router bgp 64500 vrf red", "router bgp 64505 vrf cust_2", "ip prefix-list red:own4 seq 5 permit 10.0.0.0/16"); s != "" {
		t.Error(s)
	}
	if s := contains(strings.Join(l.running(ospfd), "\n"), "router ospf vrf red"); s != "" {
		t.Error(s)
	}
	peers, err := l.router.BGPNeighbors(context.Background(), "red")
	if err != nil || len(peers) != 2 || peers[0].Name != "isp" || peers[1].Name != "local" {
		t.Errorf("peers in red: %+v, %v", peers, err)
	}
	if s, err := l.router.BGPSummary(context.Background(), "cust_2"); err != nil || s.ASN != 64505 || len(s.Peers) != 2 {
		t.Errorf("sessions in cust_2: %+v, %v", s, err)
	}
	if s, err := l.router.BGPSummary(context.Background(), ""); err != nil || s.ASN != 64500 || len(s.Peers) != 1 {
		t.Errorf("sessions in the main table: %+v, %v", s, err)
	}

	l.apply(customers(t, "asn: 64505", "asn: 64506", "router-id: 192.0.2.7", "router-id: 192.0.2.8", "asn: 64502", "asn: 64503"), customerSecrets)
	moved := customers(t)
	moved.Routing.VRFs["cust_2"].OSPF = moved.Routing.VRFs["red"].OSPF
	delete(moved.Routing.VRFs, "red")
	l.apply(moved, customerSecrets)
	if lines := l.running(bgpd); slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "red") }) {
		t.Errorf("left of red: %q", lines)
	}
	moved.Routing.BGP, moved.Routing.OSPF = nil, nil
	l.apply(moved, customerSecrets)
	if s, err := l.router.BGPSummary(context.Background(), "cust_2"); err != nil || s.ASN != 64505 {
		t.Errorf("sessions in cust_2 without the main table's: %+v, %v", s, err)
	}
}

// What a commit changes in one VRF is told for that one.
func TestEffectsInVRFs(t *testing.T) {
	render := func(c *config.Config) Desired {
		d, err := Render(config.Normalize(c), customerSecrets)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct {
		name   string
		change func(*config.Config)
		want   string
	}{
		{"nothing", func(*config.Config) {}, ""},
		{"the same address in two VRFs", func(c *config.Config) { c.Routing.VRFs["cust_2"].BGP.Peers["isp"].Disabled = true },
			"! BGP peer isp (198.51.100.2) in VRF cust_2 (BGP session isp ends)"},
		{"a speaker goes", func(c *config.Config) { c.Routing.VRFs["red"].BGP = nil; c.Routing.VRFs["red"].OSPF = nil },
			"- BGP AS 64500 in VRF red (all BGP sessions in VRF red end)\n- OSPF in VRF red (all OSPF adjacencies in VRF red end)"},
		{"a router id", func(c *config.Config) {
			c.Routing.VRFs["red"].RouterID = addr("1.2.3.4")
			c.Routing.VRFs["red"].BGP = nil
		},
			"- BGP AS 64500 in VRF red (all BGP sessions in VRF red end)\n~ OSPF router id in VRF red: 192.0.2.7 → 1.2.3.4\n" +
				"! OSPF on r-lan in VRF red (OSPF adjacency on r-lan resets)\n! OSPF on red in VRF red (OSPF adjacency on red resets)\n" +
				"~ OSPFv3 router id in VRF red: 192.0.2.7 → 1.2.3.4\n! OSPFv3 on r-lan in VRF red (OSPFv3 adjacency on r-lan resets)"},
		{"an interface leaves OSPF and the VRF", func(c *config.Config) {
			delete(c.Routing.VRFs["red"].OSPF3.Areas[0].Interfaces, "r-lan")
			c.Interfaces["red"].VRF.Interfaces = []string{"r-isp"}
		}, "- OSPFv3 on r-lan in VRF red (OSPFv3 adjacency on r-lan ends)"},
		{"an AS number", func(c *config.Config) { c.Routing.VRFs["cust_2"].BGP.ASN = 64506 },
			"~ BGP AS number in VRF cust_2: 64505 → 64506\n! BGP peer far (10.1.1.1) in VRF cust_2 (BGP session far resets)\n" +
				"~ BGP peer far (10.1.1.1) next hop in VRF cust_2: on → \n~ BGP import from far in VRF cust_2:  → 100 (routes are filtered again, the session stays)\n" +
				"~ BGP export to far in VRF cust_2 (routes are filtered again, the session stays)\n" +
				"! BGP peer isp (198.51.100.2) in VRF cust_2 (BGP session isp resets)"},
	} {
		changed := customers(t)
		c.change(changed)
		var got []string
		for _, ch := range between(render(customers(t)), render(changed)) {
			got = append(got, ch.String())
		}
		if s := strings.Join(got, "\n"); s != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, s, c.want)
		}
	}
}

func TestVRFNumbers(t *testing.T) {
	got := vrfNumbers("vrf blue inactive (configured)\nvrf red id 5 table 100\nvrf id id 7 table 101\n")
	if want := (map[string]uint32{"default": 0, "red": 5, "id": 7}); !maps.Equal(got, want) {
		t.Error(got)
	}
	if got := vrfNumbers(""); !maps.Equal(got, map[string]uint32{"default": 0}) {
		t.Error(got)
	}
}

// What zebra 8.4 says of a client, of a VRF that is no more too.
func TestHeldTables(t *testing.T) {
	const text = "Client: ospf\n------\nVRF         3           0           0           \nErrors: 0\n\nStale Client Information\n" +
		"VRF : default\nCapabilities : Graceful Restart(120 seconds)\nVRF : n/a\nCapabilities : Graceful Restart(120 seconds)\nVRF : red\nCapabilities : None\n" +
		"Client: ospf6\nVRF : red\nCapabilities : Graceful Restart(120 seconds)\n"
	if known, tables := heldTables(text, "ospf"); !known || !maps.Equal(tables, map[string]bool{"default": true, "n/a": true}) {
		t.Error(known, tables)
	}
	if known, tables := heldTables(text, "bgp"); known || len(tables) > 0 {
		t.Error(known, tables)
	}
}
