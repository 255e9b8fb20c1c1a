// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

func (p *pretended) setMaster(index, master int) error {
	l := p.at(index)
	l.Master = master
	if master == 0 {
		p.did("release %s", l.Name)
		delete(p.now.ports, index)
		return nil
	}
	m := p.at(master)
	if m.Kind == "bond" && l.Up {
		return unix.EPERM
	}
	p.did("%s into %s", l.Name, m.Name)
	if m.Kind == "bridge" {
		port := p.now.ports[index]
		port.treePort, port.master = treePort{State: "forwarding", Cost: 100, Priority: usualPriority, Number: index}, master
		p.now.ports[index] = port
	}
	l.Up = true
	return nil
}

func (p *pretended) bridging() (bridging, error) { return p.now, nil }

func (p *pretended) farEnds() (map[int][]netip.Addr, error) { return p.ends, nil }

func (p *pretended) setFarEnd(index int, a netip.Addr, there bool) error {
	p.did("far end %s of %s: %t", a, p.at(index).Name, there)
	if p.ends == nil {
		p.ends = map[int][]netip.Addr{}
	}
	if p.ends[index] = slices.DeleteFunc(p.ends[index], func(o netip.Addr) bool { return o == a }); there {
		p.ends[index] = sortedAddrs(append(p.ends[index], a))
	}
	return nil
}

func (p *pretended) setTree(index int, attribute uint16, to int) error {
	t := p.now.trees[index]
	switch attribute {
	case iflaBRSTPState:
		t.On = to != 0
	case iflaBRPriority:
		t.Priority = to
	case iflaBRHelloTime, iflaBRMaxAge, iflaBRForwardDelay:
		if t.isRoot() { // else the kernel keeps it, and tells the root's
			t.Times[map[uint16]int{iflaBRHelloTime: 0, iflaBRMaxAge: 1, iflaBRForwardDelay: 2}[attribute]] = float64(to) / userTicks
		}
	}
	p.did("bridge %s: %d = %d", p.at(index).Name, attribute, to)
	p.now.trees[index] = t
	return nil
}

func (p *pretended) setTreePort(index int, attribute uint16, to int) error {
	port := p.now.ports[index]
	if port.Number == 0 {
		return unix.EINVAL
	}
	if attribute == iflaBRPortCost {
		port.Cost = to
	} else {
		port.Priority = to * kernelPriority
	}
	p.now.ports[index] = port
	return nil
}

func (p *pretended) setIsolated(index int, on bool) error {
	port := p.now.ports[index]
	port.Isolated = on
	p.now.ports[index] = port
	return nil
}

func (p *pretended) setBridgeVLAN(index, id int, flags uint16, self, there bool) error {
	port := p.now.ports[index]
	if self != (p.at(index).Kind == "bridge") || !self && p.at(index).Master == 0 {
		return unix.EOPNOTSUPP
	}
	if port.VLANs == nil {
		port.VLANs = map[int]uint16{}
	}
	if delete(port.VLANs, id); there {
		port.VLANs[id] = flags
	}
	p.now.ports[index] = port
	return nil
}

func (p *pretended) rules(family uint8) (list []tableRule, _ error) {
	for _, u := range p.ruled {
		if u.Family == family {
			list = append(list, u)
		}
	}
	return list, nil
}

func (p *pretended) addRule(u tableRule) error { p.ruled = append(p.ruled, u); return nil }

func (p *pretended) removeRule(u tableRule) error {
	p.ruled = slices.DeleteFunc(p.ruled, func(o tableRule) bool {
		return o.Family == u.Family && o.Priority == u.Priority && o.Table == u.Table
	})
	return nil
}

// ports is a machine with four ports.
func ports() *pretended {
	p := machine()
	p.now = bridging{map[int]tree{}, map[int]bridgePort{}}
	for n, name := range []string{"eth2", "eth3"} {
		p.devices = append(p.devices, link{Index: 10 + n, Name: name, MAC: [6]byte{2, 0, 0, 0, 1, byte(n)}, MTU: 1500, Ethernet: true, Up: true})
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		p.ruled = append(p.ruled, tableRule{rib.Rule{Family: family, Table: rib.TableLocal}, unix.RTPROT_KERNEL},
			tableRule{rib.Rule{Family: family, Priority: 32766, Table: rib.TableMain}, unix.RTPROT_KERNEL})
	}
	return p
}

func (p *pretended) masterOf(name string) string {
	for _, l := range p.devices {
		if m := p.at(l.Master); l.Name == name && m != nil {
			return m.Name
		}
	}
	return ""
}

// A bond gets its ports, which go down for it; one that somebody takes out comes back; one that leaves the
// configuration leaves the bond, which goes last.
func TestABondAndItsPorts(t *testing.T) {
	p := ports()
	p.settings[ipv6Off("eth2")], p.settings[ipv6Off("default")] = "0", "0"
	all := map[string]*config.Interface{
		"eth2": {}, "eth3": {},
		"core": {Bond: &config.Bond{Mode: "active-backup", Ports: []string{"eth3", "eth2"}, Primary: "eth2"}, Addresses: []config.Address{host("192.0.2.1/24")}, MTU: 9000},
	}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	lines := planned(t, k, render(t, named(all)))
	for _, want := range []string{"+ bond (active-backup) as core", "~ master of eth3: none → core", "~ master of eth2: none → core", "~ mtu on eth2: 1500 → 9000"} {
		expectLine(t, lines, want)
	}
	k = applyTo(t, p, named(all))
	if p.masterOf("eth2") != "core" || p.masterOf("eth3") != "core" || p.settings[ipv6Off("eth2")] != "1" {
		t.Errorf("%+v %v", p.devices, p.settings)
	}
	if slices.Index(p.done, "eth3 into core") > slices.Index(p.done, "eth2 into core") {
		t.Errorf("the first port gives the bond its MAC address: %q", p.done)
	}

	p.at(10).Master = 0
	rep, err := k.Reassert(context.Background())
	if err != nil || rep == nil || !slices.Contains(rep.Repaired, Finding{"port eth2", "eth2 was taken out of core"}) || p.masterOf("eth2") != "core" {
		t.Errorf("%+v, %v", rep, err)
	}

	all["core"].Bond.Ports, all["core"].Bond.Primary = []string{"eth3"}, ""
	lines = planned(t, k, render(t, named(all)))
	expectLine(t, lines, "~ master of eth2: core → none")
	expectLine(t, lines, "~ primary port of core (in place)")
	applyTo(t, p, named(all))
	if p.masterOf("eth2") != "" || p.settings[ipv6Off("eth2")] != "0" {
		t.Errorf("%+v %v", p.devices, p.settings)
	}

	all["core"].Bond.Mode = "balance-xor"
	lines = planned(t, k, render(t, named(all)))
	expectLine(t, lines, "! link core: bond (active-backup) → bond (balance-xor) (made anew)")
	expectLine(t, lines, "~ master of eth3: core → core")
	applyTo(t, p, named(all))

	delete(all, "core")
	lines = planned(t, k, render(t, named(all)))
	if released, removed := slices.Index(lines, "~ master of eth3: core → none"), slices.Index(lines, "- bond core"); released < 0 || removed < released {
		t.Errorf("%q", lines)
	}
	applyTo(t, p, named(all))
}

// A bridge of somebody else's is used and changed in place, and stays when it is no more configured; of
// another kind, its name is taken.
func TestABridgeOfSomeoneElse(t *testing.T) {
	p := ports()
	p.devices = append(p.devices, link{Index: 20, Name: "lan", Kind: "bridge", MTU: 1500, Ethernet: true, as: &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}})
	p.at(11).Master = 20
	all := map[string]*config.Interface{"eth2": {}, "eth3": {}, "lan": {Bridge: &config.Bridge{Ports: []string{"eth2"}}}}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	lines := planned(t, k, render(t, named(all)))
	for _, want := range []string{"~ multicast snooping of lan (in place)", "~ master of eth2: none → lan", "~ master of eth3: lan → none"} {
		expectLine(t, lines, want)
	}
	applyTo(t, p, named(all))
	delete(all, "lan")
	if applyTo(t, p, named(all)); !p.used("lan") {
		t.Error("it was removed")
	}
	all["lan"] = &config.Interface{VRF: &config.VRF{Table: 9}}
	if err := k.Apply(context.Background(), render(t, named(all))); err == nil || !strings.Contains(err.Error(), "another link has this name") {
		t.Error(err)
	}
}

// VLANs, spanning tree and isolation of a bridge are put in place, and put right again.
func TestABridgeWithVLANs(t *testing.T) {
	p := ports()
	all := map[string]*config.Interface{
		"eth2": {}, "eth3": {},
		"lan": {Bridge: &config.Bridge{Ports: []string{"eth2", "eth3"}, STP: true, Isolated: []string{"eth3"}, VLANs: map[string]*config.BridgeVLAN{
			"eth2": {Trunk: []config.VLANRange{{First: 10, Last: 12}}, Native: 5}, "eth3": {Access: 10}}}},
		"staff": {VLAN: &config.VLAN{Parent: "lan", ID: 10}, Addresses: []config.Address{host("192.0.2.1/24")}},
	}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	lines := planned(t, k, render(t, named(all)))
	for _, want := range []string{"+ bridge as lan", "~ VLANs of eth2: none → 5 untagged, 10-12", "~ VLANs of eth3: none → 10 untagged", "~ VLANs of lan: none → 10",
		"~ spanning tree of lan: off → on", "~ isolation of eth3: off → on", "+ VLAN 10 on lan as staff"} {
		expectLine(t, lines, want)
	}
	k = applyTo(t, p, named(all))
	if mac := p.devices[slices.IndexFunc(p.devices, func(l link) bool { return l.Name == "lan" })].as.Attrs().HardwareAddr; mac.String() != "02:00:00:00:01:00" {
		t.Errorf("the bridge's MAC address is %v, expected that of eth2", mac)
	}
	p.now.ports[10] = bridgePort{VLANs: map[int]uint16{1: vlanPVID | vlanUntagged}}
	rep, err := k.Reassert(context.Background())
	if err != nil || rep == nil || !slices.Contains(rep.Repaired, Finding{"port eth2", "VLANs of eth2 were changed to 1 untagged"}) {
		t.Errorf("%+v, %v", rep, err)
	}
	if words := vlanWords(p.now.ports[10].VLANs); words != "5 untagged, 10-12" {
		t.Error(words)
	}
}

// What a bridge passes must not meet the packet filter: where the kernel has bridge netfilter, it is off, and off again when
// somebody turns it on. Without a bridge, or without the files, there is nothing to set.
func TestABridgePassesThePacketFilter(t *testing.T) {
	filters := []string{"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables", "net/bridge/bridge-nf-call-arptables"}
	all := map[string]*config.Interface{"eth2": {}, "eth3": {}}
	for _, s := range render(t, named(all)).Sysctls {
		if slices.Contains(filters, s.Path) {
			t.Errorf("without a bridge, %s is set", s.Path)
		}
	}
	all["lan"] = &config.Interface{Bridge: &config.Bridge{Ports: []string{"eth2", "eth3"}}}
	p := ports()
	applyTo(t, p, named(all)) // the module is not there
	for _, path := range filters {
		if value, there := p.settings[path]; there {
			t.Errorf("%s, which does not exist, was set to %s", path, value)
		}
		p.settings[path] = "1"
	}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	lines := planned(t, k, render(t, named(all)))
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "settings of the kernel") }) {
		t.Errorf("the preview does not say it: %q", lines)
	}
	k = applyTo(t, p, named(all))
	for _, path := range filters {
		if p.settings[path] != "0" {
			t.Errorf("%s is %q", path, p.settings[path])
		}
	}
	p.settings[filters[0]] = "1"
	rep := reassert(t, k)
	if p.settings[filters[0]] != "0" || !slices.Contains(rep.Repaired, Finding{"kernel", "bridge bridge-nf-call-iptables was changed to 1"}) {
		t.Errorf("%+v, %q", rep, p.settings[filters[0]])
	}
}

// The same with the files of this kernel, which has bridge netfilter.
func TestBridgeNetfilterOfANamespace(t *testing.T) {
	veths(t, "eth2", "eth3")
	t.Cleanup(func() { shell(t, "ip link del lan") })
	shell(t, "ip link add lan type bridge") // not by the router: this kernel may lack VLANs on bridges
	path := "net/bridge/bridge-nf-call-iptables"
	if err := writeSysctl(path, "1"); err != nil {
		t.Fatal(err)
	}
	all := map[string]*config.Interface{"eth2": {}, "eth3": {}, "lan": {Bridge: &config.Bridge{Ports: []string{"eth2", "eth3"}}}}
	k := New(slog.New(slog.DiscardHandler))
	apply(t, k, render(t, named(all)))
	if got, ok, err := readSysctl(path); got != "0" || !ok || err != nil {
		t.Errorf("%s is %q, %v, %v", path, got, ok, err)
	}
	if left := planned(t, k, render(t, named(all))); len(left) != 0 {
		t.Errorf("left to do: %q", left)
	}
}

// A VRF gets its interfaces, its table's end and its place before the local table; all of it goes with it.
func TestAVRF(t *testing.T) {
	p := ports()
	all := map[string]*config.Interface{"eth2": {Addresses: []config.Address{host("192.0.2.1/24")}}, "mgmt": {VRF: &config.VRF{Table: 100, Interfaces: []string{"eth2"}}}}
	cfg := named(all)
	cfg.Routing.Static = []config.StaticRoute{{Prefix: prefix("0.0.0.0/0"), Via: []config.NextHop{via("192.0.2.9")}, VRF: "mgmt"}}
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	lines := planned(t, k, render(t, cfg))
	for _, want := range []string{"+ VRF (table 100) as mgmt", "~ master of eth2: none → mgmt", "~ the rule for local addresses (IPv4): in front → behind that of the VRFs",
		"+ route 0.0.0.0/0 unreachable distance 255 in mgmt", "+ route ::/0 unreachable distance 255 in mgmt", "+ route 0.0.0.0/0 via 192.0.2.9 in mgmt"} {
		expectLine(t, lines, want)
	}
	k = applyTo(t, p, cfg)
	for _, route := range p.routes {
		if route.Table != 100 {
			t.Errorf("%+v", route)
		}
	}
	delete(all, "mgmt")
	cfg.Routing.Static = nil
	lines = planned(t, k, render(t, cfg))
	for _, want := range []string{"- VRF mgmt", "- route ::/0 unreachable distance 255 in table 100", "~ master of eth2: mgmt → none"} {
		expectLine(t, lines, want)
	}
	p.routes = nil
	applyTo(t, p, cfg)
	for _, u := range p.ruled {
		if u.Table == rib.TableLocal && u.Priority != 0 {
			t.Errorf("rules %+v", p.ruled)
		}
	}
}
