// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"testing"

	"minne/internal/model/config"
)

// A port that has left its VRF goes back into it: what it is connected to has no place in the main table meanwhile. The route
// would stay there, and packets of the main table would reach the VRF by it.
func TestNoConnectedRouteOfAVRFInMain(t *testing.T) {
	of := netip.MustParsePrefix("192.0.2.1/24")
	for text, want := range map[string]int{
		"interfaces: {red: {vrf: {table: 100, interfaces: [eth0]}}, eth0: {addresses: [192.0.2.1/24]}}": 0,
		"interfaces: {eth0: {addresses: [192.0.2.1/24]}}":                                               1,
	} {
		cfg, err := config.Parse("test", []byte("version: 1\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		r := round{links: []link{{Name: "eth0", Index: 3, Up: true}}, live: []address{{Index: 3, Prefix: of}}}
		for _, i := range render(t, cfg).Interfaces {
			if i.Name == "eth0" {
				r.bound = append(r.bound, &bound{DesiredInterface: i, link: &r.links[0]})
			}
		}
		if got := r.networks(); len(got) != want {
			t.Errorf("%s: connected routes in the main table: %+v, want %d", text, got, want)
		}
	}
}
