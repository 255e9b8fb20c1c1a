// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"slices"
	"strings"
	"testing"
)

func TestFindingANodeAmongLabs(t *testing.T) {
	all := []place{
		{"11-1", "router", "left", "minne-11-1-left"},
		{"11-1", "router", "only", "minne-11-1-only"},
		{"12-1", "pair", "left", "minne-12-1-left"},
		{"13-1", "", "isp-a", "minne-13-1-isp-a"},
	}
	for which, want := range map[string]string{
		"only":      "minne-11-1-only",
		"11-1/left": "minne-11-1-left",
		"pair/left": "minne-12-1-left",
		"isp-a":     "minne-13-1-isp-a",
	} {
		if p, err := find(which, all); err != nil || p.namespace != want {
			t.Errorf("%s: %+v (%v), expected %s", which, p, err, want)
		}
	}
	for which, says := range map[string][]string{
		"left":      {"several labs", "11-1/left (lab router)", "12-1/left (lab pair)"},
		"a":         {`no node "a"`, "13-1/isp-a"},
		"pair/only": {`no node "pair/only"`, "11-1/only (lab router)"},
		"router/":   {"no node"},
	} {
		_, err := find(which, all)
		for _, word := range says {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, expected %q", which, err, word)
			}
		}
	}
	if _, err := find("left", nil); err == nil || !strings.Contains(err.Error(), "no lab is up") {
		t.Errorf("without labs: %v", err)
	}
}

// Names of nodes have dashes, and so do those of runs.
func TestPlacesOfALab(t *testing.T) {
	l, err := Start(t.Context(), Topology{Name: "x", Nodes: []Node{{Name: "a"}, {Name: "isp-a"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var found []string
	for _, p := range places() {
		if p.lab == l.Run {
			found = append(found, p.name+" "+p.node)
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, []string{"x a", "x isp-a"}) {
		t.Errorf("%q", found)
	}
}

func TestFRRDaemonsOfAConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		"": "zebra",
		"interface eth0\n ip address 192.0.2.1/24\n":                                       "zebra",
		"ip route 192.0.2.0/24 blackhole\n":                                                "zebra staticd",
		"router bgp 64500\n neighbor 192.0.2.1 remote-as 64501\n neighbor 192.0.2.1 bfd\n": "zebra bgpd bfdd",
		"router bgp 64500\n neighbor bfd remote-as 64501\n":                                "zebra bgpd",
		"interface eth0\n ip ospf area 0\n":                                                "zebra ospfd",
		"router ospf\n":                                                                    "zebra ospfd",
		"router ospf6\n":                                                                   "zebra ospf6d",
		"bfd\n":                                                                            "zebra bfdd",
	} {
		got := slices.DeleteFunc(neededFRR(config), func(d string) bool { return d == "mgmtd" })
		if strings.Join(got, " ") != want {
			t.Errorf("%q needs %v, expected %s", config, got, want)
		}
	}
}
