// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// twoPorts has a LAN and a WAN found by their MAC addresses.
func twoPorts() *config.Config {
	return named(map[string]*config.Interface{
		"lan": {Match: &config.Match{MAC: config.MAC{2, 0, 0, 0, 0, 1}}, Addresses: []config.Address{host("192.0.2.1/24")}},
		"wan": {Match: &config.Match{MAC: config.MAC{2, 0, 0, 0, 0, 2}}, Addresses: []config.Address{host("198.51.100.1/24")}},
	})
}

func pretend(p *pretended) *Kernel {
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	return k
}

func (p *pretended) has(name, address string) bool {
	i := slices.IndexFunc(p.devices, func(l link) bool { return l.Name == name })
	return i >= 0 && slices.Contains(p.on[p.devices[i].Index], host(address).Prefix)
}

func reassert(t *testing.T, k *Kernel) *Report {
	t.Helper()
	rep, err := k.Reassert(t.Context())
	if err != nil || rep == nil {
		t.Fatalf("report %v, error %v", rep, err)
	}
	return rep
}

// clone is a card that has the MAC address of another.
func clone(of *link) link {
	return link{Index: 9, Name: "usb0", MAC: of.MAC, PermMAC: of.PermMAC, BusPath: "usb-1-2", MTU: 1500, Ethernet: true}
}

// TestACloneAtBoot: a second card with the MAC address of one costs that one, not the others.
func TestACloneAtBoot(t *testing.T) {
	p := machine()
	p.devices = append(p.devices, clone(p.at(3)))
	k := pretend(p)
	err := k.ApplyPresent(t.Context(), render(t, twoPorts()))
	if err == nil {
		t.Fatal("nothing said that wan is left out")
	}
	expect(t, err.Error(), "interface wan: several links have MAC address 02:00:00:00:00:02: eth1, usb0; write match: {path: 0000:02:00.0} or match: {path: usb-1-2}")
	if !p.has("lan", "192.0.2.1/24") || len(p.on[3])+len(p.on[9]) != 0 {
		t.Errorf("addresses: %v", p.on)
	}
	rep := reassert(t, k)
	expect(t, rep.Faults["port wan"], "several links have MAC address")
	// The clone is pulled out.
	p.devices = slices.DeleteFunc(p.devices, func(l link) bool { return l.Index == 9 })
	rep = reassert(t, k)
	if len(rep.Faults) != 0 || !slices.Equal(rep.Returned, []string{"wan"}) || !p.has("wan", "198.51.100.1/24") {
		t.Errorf("report %+v, addresses %v", rep, p.on)
	}
}

// TestACloneLater: the port that works goes on when the clone is plugged in, and it is said what comes of it.
func TestACloneLater(t *testing.T) {
	p := machine()
	k := applyTo(t, p, twoPorts())
	p.devices = append(p.devices, clone(p.at(3)))
	writes := len(p.done)
	rep := reassert(t, k)
	expect(t, rep.Faults["port wan"], "wan, usb0", "after a reboot")
	if !p.has("wan", "198.51.100.1/24") || len(p.done) != writes {
		t.Errorf("addresses %v, writes %q", p.on, p.done[writes:])
	}
}

// TestChildrenAreNoClones: what sits on a link has its MAC address from there.
func TestChildrenAreNoClones(t *testing.T) {
	for _, kind := range []string{"macsec", "macvlan", "vlan", "kind of a later kernel"} {
		p := machine()
		p.devices = append(p.devices, link{Index: 8, Name: "child0", Kind: kind, Parent: 3, MAC: p.at(3).MAC, MTU: 1468, Ethernet: true})
		applyTo(t, p, twoPorts())
		if !p.has("wan", "198.51.100.1/24") || p.at(3).Name != "wan" {
			t.Errorf("%s: addresses %v", kind, p.on)
		}
	}
	// A veth's link beneath is its other end, which may be in another namespace and have any number.
	p := machine()
	p.devices = append(p.devices, link{Index: 8, Name: "veth0", Kind: "veth", Parent: 3, MAC: p.at(3).MAC, MTU: 1500, Ethernet: true})
	if err := pretend(p).ApplyPresent(t.Context(), render(t, twoPorts())); err == nil || !strings.Contains(err.Error(), "eth1, veth0") {
		t.Errorf("error %v", err)
	}
}

// TestOneRefusalCostsOneStep: what the kernel refuses of one interface at boot is said, and all else is done.
func TestOneRefusalCostsOneStep(t *testing.T) {
	p := machine()
	p.refused = map[string]error{"address 192.0.2.1/24 on eth0": unix.EINVAL, "address 192.0.2.1/24 on lan": unix.EINVAL}
	k := pretend(p)
	err := k.ApplyPresent(t.Context(), render(t, twoPorts()))
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "address 192.0.2.1/24 on lan") {
		t.Errorf("error %v", err)
	}
	if !p.has("wan", "198.51.100.1/24") || !p.at(2).Up || !p.at(3).Up {
		t.Errorf("devices %+v, addresses %v", p.devices, p.on)
	}
	rep := reassert(t, k)
	expect(t, rep.Faults["port lan"], "address 192.0.2.1/24 on lan", "invalid argument")
	writes := len(p.done)
	if rep = reassert(t, k); len(p.done) != writes || rep.Faults["port lan"] == "" {
		t.Errorf("it was tried again at once, or forgotten: %+v", rep)
	}
	p.refused = nil
	k.seen.fights["address 192.0.2.1/24 on lan"].until = k.seen.fights["address 192.0.2.1/24 on lan"].until.Add(-firstPause)
	k.seen.fights["address 192.0.2.1/24 on lan"].next = k.seen.fights["address 192.0.2.1/24 on lan"].until
	if !k.Drifted() {
		t.Error("no other try is due")
	}
	if rep = reassert(t, k); len(rep.Faults) != 0 || !p.has("lan", "192.0.2.1/24") {
		t.Errorf("report %+v, addresses %v", rep, p.on)
	}
}

// TestAVLANComesBack: one that somebody removes is made again, with what is on it.
func TestAVLANComesBack(t *testing.T) {
	p := machine()
	k := applyTo(t, p, named(map[string]*config.Interface{
		"trunk":  {Match: &config.Match{Name: "eth0"}},
		"phones": {VLAN: &config.VLAN{Parent: "trunk", ID: 7}, Addresses: []config.Address{host("192.0.2.1/24")}},
	}))
	removed := func() {
		t.Helper()
		i := slices.IndexFunc(p.devices, func(l link) bool { return l.Name == "phones" })
		delete(p.on, p.devices[i].Index)
		p.devices = slices.Delete(p.devices, i, i+1)
	}
	removed()
	rep := reassert(t, k)
	if !p.has("phones", "192.0.2.1/24") || len(rep.Faults) != 0 || !slices.Contains(rep.Repaired, Finding{"port phones", "VLAN phones was removed"}) {
		t.Errorf("report %+v, addresses %v", rep, p.on)
	}
	// With the port that it is on: the port says it all.
	removed()
	trunk := slices.IndexFunc(p.devices, func(l link) bool { return l.Name == "trunk" })
	card := p.devices[trunk]
	p.devices = slices.Delete(p.devices, trunk, trunk+1)
	rep = reassert(t, k)
	expect(t, rep.Faults["port trunk"], "no link with name eth0")
	card.Index, card.Name, card.AltNames, card.Up = 20, "eth0", nil, false
	p.devices = append(p.devices, card)
	rep = reassert(t, k)
	if !p.has("phones", "192.0.2.1/24") || len(rep.Faults) != 0 || len(rep.Repaired) != 1 || !slices.Contains(rep.Returned, "trunk") {
		t.Errorf("report %+v, addresses %v", rep, p.on)
	}
}

// TestAnApplySeesWhatHandsDid: a preview of the unchanged file lists what is not as it was, and an apply
// puts it right, without the watcher's help.
func TestAnApplySeesWhatHandsDid(t *testing.T) {
	veths(t, "eth0", "eth1")
	k, d := New(slog.New(slog.DiscardHandler)), render(t, campus())
	apply(t, k, d)
	if err := k.Forwarding(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shell(t, "echo 0 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv6/conf/all/forwarding")
	})
	if left := planned(t, k, d); len(left) != 0 {
		t.Fatalf("before any hand: %q", left)
	}
	for _, c := range []struct{ hand, want string }{
		{"ip route del 192.0.2.0/24 dev lan", "+ connected route 192.0.2.0/24 on lan"},
		{"ip -6 route del 2001:db8:1::/64 dev lan", "+ connected route 2001:db8:1::/64 on lan"},
		{"ip -6 route del fe80::/64 dev lan", "+ connected route fe80::/64 on lan"},
		{"ip -6 addr flush dev lan scope link", "+ the IPv6 link-local address on lan"},
		{"echo 0 >/proc/sys/net/ipv4/ip_forward", "~ ipv4 forwarding: 0 → 1"},
		{"echo 0 >/proc/sys/net/ipv6/conf/lan/forwarding", "~ ipv6 forwarding of lan: 0 → 1"},
		{"ip route del 10.0.0.0/8", "+ route 10.0.0.0/8 blackhole"},
	} {
		shell(t, c.hand)
		expectLine(t, planned(t, k, d), c.want)
		apply(t, k, d)
		if left := planned(t, k, d); len(left) != 0 {
			t.Errorf("%s: left to do after an apply: %q", c.hand, left)
		}
	}
	// All of IPv6 at once: what the kernel takes away with it comes back.
	before := shell(t, "ip -6 addr show lan | grep inet6; ip -6 route show dev lan | grep -v linkdown")
	shell(t, "echo 1 >/proc/sys/net/ipv6/conf/lan/disable_ipv6")
	rep := reassert(t, k)
	if after := shell(t, "ip -6 addr show lan | grep inet6; ip -6 route show dev lan"); len(rep.Faults) != 0 ||
		strings.Count(after, "inet6") != strings.Count(before, "inet6") || strings.Count(after, "\n") != strings.Count(before, "\n") {
		t.Errorf("report %+v; before:\n%safter:\n%s", rep, before, after)
	}
}

// TestAHostsNameIsKept: nobody announces that it was changed.
func TestAHostsNameIsKept(t *testing.T) {
	p := machine()
	k := applyTo(t, p, twoPorts())
	if k.Drifted() {
		t.Error("nothing has changed")
	}
	p.host = "elsewhere"
	if !k.Drifted() {
		t.Error("the name was not looked at")
	}
	rep := reassert(t, k)
	if p.host != "r1" || !slices.Contains(rep.Repaired, Finding{"kernel", "the host name was changed to elsewhere"}) || k.Drifted() {
		t.Errorf("host %s, report %+v", p.host, rep)
	}
}

// TestAFightIsNotWon: a program that undoes each repair is a fault, and is not run after.
func TestAFightIsNotWon(t *testing.T) {
	p := machine()
	k := applyTo(t, p, twoPorts())
	var rep *Report
	tries := 0
	for range 20 {
		p.on[2] = nil
		was := len(p.done)
		rep = reassert(t, k)
		tries += len(p.done) - was
	}
	if tries != fightCount {
		t.Errorf("%d repairs of 20, expected %d", tries, fightCount)
	}
	expect(t, rep.Faults["port lan"], "address 192.0.2.1/24 on lan was removed: again and again", "does another program change it?")
	if k.Drifted() {
		t.Error("another look before the pause is over")
	}
	// An apply of the operator's puts it right, and forgets.
	apply(t, k, render(t, twoPorts()))
	if rep = reassert(t, k); len(rep.Faults) != 0 || !p.has("lan", "192.0.2.1/24") {
		t.Errorf("report %+v, addresses %v", rep, p.on)
	}
}
