// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// A changed tag makes the link anew, and what sits on it with it; the preview says so. The inner VLAN
// goes with the outer one before Minne can remove it.
func TestALinkMadeAnew(t *testing.T) {
	p := machine()
	stack := map[string]*config.Interface{
		"eth0":  {},
		"eth1":  {},
		"outer": {VLAN: &config.VLAN{Parent: "eth0", ID: 100, Protocol: "802.1ad"}},
		"inner": {VLAN: &config.VLAN{Parent: "outer", ID: 20}, Addresses: []config.Address{host("192.0.2.1/24")}},
		"guest": {VLAN: &config.VLAN{Parent: "eth0", ID: 30}},
	}
	k := applyTo(t, p, named(stack))
	stack["outer"].VLAN.ID = 101
	lines := planned(t, k, render(t, named(stack)))
	for _, want := range []string{
		"! link outer: VLAN 100 (802.1ad) on eth0 → VLAN 101 (802.1ad) on eth0 (made anew)",
		"! link inner: VLAN 20 on outer → VLAN 20 on outer (made anew)",
		"+ address 192.0.2.1/24 on inner",
	} {
		expectLine(t, lines, want)
	}
	if strings.Contains(strings.Join(lines, "\n"), "guest") {
		t.Errorf("guest is not concerned:\n%s", strings.Join(lines, "\n"))
	}
	applyTo(t, p, named(stack))
	expectLine(t, p.done, "address 192.0.2.1/24 on inner")

	// Another parent is another link too.
	stack["guest"].VLAN.Parent = "eth1"
	expectLine(t, planned(t, k, render(t, named(stack))), "! link guest: VLAN 30 on eth0 → VLAN 30 on eth1 (made anew)")
	applyTo(t, p, named(stack))

	// The name passes to a port: the link goes.
	delete(stack, "eth1")
	stack["guest"] = &config.Interface{Match: &config.Match{Name: "eth1"}}
	expectLine(t, planned(t, k, render(t, named(stack))), "- VLAN guest")
	applyTo(t, p, named(stack))
}

// What can be put right without making the link anew is put right in place, of links that Minne made.
func TestALinkChangedInPlace(t *testing.T) {
	p := machine()
	p.devices[3].as.(*netlink.Vlan).Gvrp = new(bool)
	*p.devices[3].as.(*netlink.Vlan).Gvrp = true // the operator's own, made elsewhere
	cfg := named(map[string]*config.Interface{
		"eth1":   {},
		"guest":  {VLAN: &config.VLAN{Parent: "eth1", ID: 30}},
		"phones": {VLAN: &config.VLAN{Parent: "eth1", ID: 7}},
	})
	k := applyTo(t, p, cfg)
	n := slices.IndexFunc(p.devices, func(l link) bool { return l.Name == "guest" })
	*p.devices[n].as.(*netlink.Vlan).LooseBinding = true
	expectLine(t, planned(t, k, render(t, cfg)), "~ VLAN flags of guest (in place)")
	p.done = nil
	rep, err := k.Reassert(context.Background())
	if err != nil || rep == nil || !slices.Contains(rep.Repaired, Finding{"port guest", "VLAN flags of guest were changed"}) {
		t.Errorf("%+v, %v", rep, err)
	}
	if !slices.Equal(p.done, []string{"change guest"}) {
		t.Errorf("%q", p.done)
	}
}

// A kernel that does not know a kind says "operation not supported", which helps nobody.
func TestAKindThatTheKernelLacks(t *testing.T) {
	p := machine()
	p.refused = map[string]error{"add guest": unix.EOPNOTSUPP}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	cfg := named(map[string]*config.Interface{"eth1": {}, "guest": {VLAN: &config.VLAN{Parent: "eth1", ID: 30}}})
	err := k.Apply(context.Background(), render(t, cfg))
	if !errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "modprobe 8021q") {
		t.Errorf("%v", err)
	}
}

// A link of somebody else that had an MTU from a configuration is not Minne's to remove, also one of a
// kind that Minne makes.
func TestAResizedLinkStays(t *testing.T) {
	p := machine()
	applyTo(t, p, named(map[string]*config.Interface{"phones": {Match: &config.Match{Name: "eth1.7"}, MTU: 1400}}))
	applyTo(t, p, named(map[string]*config.Interface{"eth0": {}}))
	if p.at(4) == nil {
		t.Error("a VLAN that somebody else made was removed")
	}
}

// A dummy interface comes with its address and goes with its section.
func TestADummyComesAndGoes(t *testing.T) {
	p := machine()
	cfg := named(map[string]*config.Interface{"eth0": {}, "loop1": {Dummy: &config.Dummy{}, Addresses: []config.Address{host("192.0.2.1/32")}}})
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	expectLine(t, planned(t, k, render(t, cfg)), "+ dummy interface as loop1")
	k = applyTo(t, p, cfg)
	expectLine(t, p.done, "address 192.0.2.1/32 on loop1")
	delete(cfg.Interfaces, "loop1")
	expectLine(t, planned(t, k, render(t, cfg)), "- dummy interface loop1")
	if applyTo(t, p, cfg); p.used("loop1") {
		t.Errorf("%+v", p.devices)
	}
}

// Each kind of the configuration has its row here, and the other way round.
func TestEveryKindHasBothHalves(t *testing.T) {
	for _, k := range kinds {
		if !slices.Contains(config.Kinds(), k.name) || k.title == "" || k.lacking == "" {
			t.Errorf("%+v", k)
		}
	}
	brought := slices.DeleteFunc([]string{"pppoe", "wifi"}, func(name string) bool { return !slices.Contains(config.Kinds(), name) }) // whose links services make
	if len(kinds)+len(brought) != len(config.Kinds()) || len(brought) != 2 {
		t.Errorf("the configuration has the kinds %q", config.Kinds())
	}
}
