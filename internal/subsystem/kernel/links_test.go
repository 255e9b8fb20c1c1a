// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/affinity"
	"minne/internal/base/ethtool"
	"minne/internal/base/tc"
	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// pretended is a kernel in memory, with VLANs, hardware addresses and bus paths. It has the real
// one's rules as far as they matter here: names are unique, a VLAN is no larger than its parent and
// goes with it.
type pretended struct {
	devices  []link
	on       map[int][]netip.Prefix
	routes   []rib.Route
	settings map[string]string
	hardware map[string]int // by the port's name and the setting's
	cpus     []int
	tied     map[int][]int                   // threads, and the CPUs that they may run on
	taken    map[string][]affinity.Interrupt // by the port's name
	sending  map[string][]affinity.Sender
	spread   map[string][]int // indirection tables
	filters  []ethtool.Rule   // of the one card, which has room for most
	most     int
	refuses  []ethtool.Match
	nft      string
	host     string
	done     []string // writes, in order
	now      bridging
	ends     map[int][]netip.Addr // of VXLAN
	ruled    []tableRule
	queues   []tc.Discipline
	diverted map[int]tc.Redirected // what filters do, by index
	noCake   bool
	refused  map[string]error // writes that it refuses, in the words of done
}

func (p *pretended) disciplines(context.Context) ([]tc.Discipline, error) { return p.queues, nil }

func (p *pretended) redirects(index int) (tc.Redirected, error) { return p.diverted[index], nil }

func (p *pretended) lacks(string) (bool, error) { return false, nil }

func (p *pretended) classes(context.Context, int) ([]tc.ClassNow, error) { return nil, nil }

func (p *pretended) sorter(int) (int, error) { return 0, nil }

func (p *pretended) changeTree(context.Context, int, tc.TreeChange) error { return nil }

func (p *pretended) sort(int, int) error { return nil }

func (p *pretended) lacksCake() (bool, error) { return p.noCake, nil }

func (p *pretended) setCake(index int, c tc.Cake, inPlace bool) error {
	p.did("cake on %s %d, in place %v", p.at(index).Name, c.Rate, inPlace)
	p.queues = append(slices.DeleteFunc(p.queues, func(d tc.Discipline) bool { return d.Link == index && d.Parent == tc.Root }),
		tc.Discipline{Link: index, Parent: tc.Root, Handle: tc.OwnHandle, Kind: "cake", Cake: c})
	return nil
}

func (p *pretended) removeRoot(index int) error {
	p.did("no cake on %s", p.at(index).Name)
	p.queues = slices.DeleteFunc(p.queues, func(d tc.Discipline) bool { return d.Link == index && d.Parent == tc.Root })
	return nil
}

func (p *pretended) redirect(index, to int) error {
	p.did("redirect %s to %s", p.at(index).Name, p.at(to).Name)
	p.queues = append(p.queues, tc.Discipline{Link: index, Handle: 0xffff << 16, Kind: "ingress"})
	p.diverted[index] = tc.Redirected{To: to, Own: 1, Others: p.diverted[index].Others}
	return nil
}

func (p *pretended) endRedirect(index int) error {
	p.did("no redirect of %s", p.at(index).Name)
	p.diverted[index] = tc.Redirected{Others: p.diverted[index].Others}
	return nil
}

func (p *pretended) links() ([]link, error) { return slices.Clone(p.devices), nil }

func (p *pretended) addresses() (all []address, err error) {
	for _, d := range p.devices {
		for _, a := range p.on[d.Index] {
			all = append(all, address{Index: d.Index, Prefix: a})
		}
	}
	return all, nil
}

func (p *pretended) staticRoutes(context.Context, []uint32) ([]rib.Route, error) {
	return p.routes, nil
}

// connectedRoutes has all that there should be.
func (p *pretended) connectedRoutes(context.Context) (list []rib.Route, err error) {
	for index, addresses := range p.on {
		for _, a := range addresses {
			o := onNet{index: index, address: a}
			list = append(list, rib.Route{Prefix: a.Masked(), Metric: o.metric(), Hops: []rib.Hop{{Interface: index}}})
		}
	}
	return list, nil
}
func (p *pretended) barrier() error           { return nil }
func (p *pretended) addConnected(onNet) error { return nil }
func (p *pretended) setting(path string) (string, bool, error) {
	v, ok := p.settings[path]
	return v, ok, nil
}
func (p *pretended) antiSpoof(context.Context) (string, error)          { return p.nft, nil }
func (p *pretended) hostname() (string, error)                          { return p.host, nil }
func (p *pretended) loadAntiSpoof(_ context.Context, text string) error { p.nft = text; return nil }
func (p *pretended) setHostname(name string) error                      { p.host = name; return nil }
func (p *pretended) setSetting(path, value string) error                { p.settings[path] = value; return nil }

func (p *pretended) proxies(context.Context) ([]proxy, error) { return nil, nil }
func (p *pretended) addProxy(proxy) error                     { return nil }
func (p *pretended) removeProxy(proxy) error                  { return nil }

func (p *pretended) portSetting(name string, s ethtool.Setting) (now, most int, err error) {
	v, ok := p.hardware[name+" "+string(s)]
	if !ok {
		return 0, 0, unix.EOPNOTSUPP
	}
	return v, map[ethtool.Setting]int{ethtool.RxRing: 4096, ethtool.Queues: cmp.Or(p.hardware["most"], 8)}[s], nil
}

// setPort refuses queues that the table of flows does not know, and spreads the flows over all of them when there
// was none of an operator, as drivers do.
func (p *pretended) setPort(name string, s ethtool.Setting, to int) error {
	if s == ethtool.Queues && slices.ContainsFunc(p.filters, func(r ethtool.Rule) bool { return r.Queue >= to }) {
		return unix.EINVAL
	}
	if table := p.spread[name]; s == ethtool.Queues && table != nil {
		if slices.Max(table) >= to && !evenly(table, p.hardware[name+" queues"]) {
			return unix.EINVAL
		}
		if evenly(table, p.hardware[name+" queues"]) {
			p.spread[name] = even(len(table), to)
		}
	}
	p.hardware[name+" "+string(s)] = to
	return nil
}

func (p *pretended) online() ([]int, error) { return p.cpus, nil }
func (p *pretended) programs(cpus []int) (threads []int, err error) {
	for id, on := range p.tied {
		if slices.Equal(on, cpus) {
			threads = append(threads, id)
		}
	}
	return threads, nil
}
func (p *pretended) tie(thread int, cpus []int) error { p.tied[thread] = cpus; return nil }
func (p *pretended) interrupts(name string, _ int) ([]affinity.Interrupt, error) {
	return p.taken[name], nil
}
func (p *pretended) senders(name string, _ int) ([]affinity.Sender, error) {
	return p.sending[name], nil
}

func (p *pretended) setInterrupt(number int, cpus []int) error {
	for _, list := range p.taken {
		for n := range list {
			if list[n].Number == number {
				list[n].CPUs = cpus
			}
		}
	}
	return nil
}

func (p *pretended) setSender(name string, queue int, cpus []int) error {
	p.sending[name][queue].CPUs = cpus
	return nil
}

// even is the table that a driver has by itself.
func even(size, queues int) []int {
	table := make([]int, size)
	for n := range table {
		table[n] = n % queues
	}
	return table
}

func evenly(table []int, queues int) bool { return slices.Equal(table, even(len(table), queues)) }

func (p *pretended) indirection(name string) ([]int, error) {
	if p.spread[name] == nil {
		return nil, unix.EOPNOTSUPP
	}
	return slices.Clone(p.spread[name]), nil
}

func (p *pretended) setIndirection(name string, table []int) error {
	if table == nil {
		table = even(len(p.spread[name]), p.hardware[name+" queues"])
	}
	p.spread[name] = table
	return nil
}

func (p *pretended) cardRules(string) ([]ethtool.Rule, int, error) {
	if p.most == 0 {
		return nil, 0, unix.EOPNOTSUPP
	}
	return slices.Clone(p.filters), p.most, nil
}

func (p *pretended) addCardRule(_ string, m ethtool.Match, queue int) error {
	switch {
	case slices.Contains(p.refuses, m) || queue >= p.hardware["trunk queues"]:
		return unix.EINVAL
	case len(p.filters) == p.most:
		return unix.ENOSPC
	}
	location := p.most - 1
	for slices.ContainsFunc(p.filters, func(r ethtool.Rule) bool { return r.Location == location }) {
		location--
	}
	p.filters = append(p.filters, ethtool.Rule{Location: location, Match: m, Queue: queue})
	return nil
}

func (p *pretended) removeCardRule(_ string, location int) error {
	p.filters = slices.DeleteFunc(p.filters, func(r ethtool.Rule) bool { return r.Location == location })
	return nil
}

func (p *pretended) did(format string, args ...any) {
	p.done = append(p.done, fmt.Sprintf(format, args...))
}

func (p *pretended) at(index int) *link {
	i := slices.IndexFunc(p.devices, func(l link) bool { return l.Index == index })
	if i < 0 {
		return nil
	}
	return &p.devices[i]
}

func (p *pretended) used(name string) bool {
	return slices.ContainsFunc(p.devices, func(l link) bool { return l.Name == name || slices.Contains(l.AltNames, name) })
}

func (p *pretended) addLink(l netlink.Link) error {
	a := l.Attrs()
	parent := p.at(a.ParentIndex)
	if parent == nil && a.ParentIndex != 0 {
		return unix.ENODEV
	}
	if p.used(a.Name) {
		return unix.EEXIST
	}
	if err := p.refused["add "+a.Name]; err != nil {
		return err
	}
	made := link{Index: p.devices[len(p.devices)-1].Index + 1, Name: a.Name, Kind: l.Type(), Parent: a.ParentIndex,
		MTU: 1500, MAC: [6]byte{2, 2}, Ethernet: true, Group: a.Group, as: l}
	if v, ok := l.(*netlink.Vlan); ok {
		p.did("add %s on %s id %d proto %#x", a.Name, parent.Name, v.VlanId, int(v.VlanProtocol))
		made.MTU, made.MAC = parent.MTU, parent.MAC
	} else {
		p.did("add %s %s", l.Type(), a.Name)
	}
	p.devices = append(p.devices, made)
	if l.Type() == "bridge" && p.now.trees != nil {
		p.now.trees[made.Index] = tree{Priority: usualBridgePriority, Times: usualTimes}
	}
	return nil
}

func (p *pretended) changeLink(l netlink.Link) error {
	p.did("change %s", l.Attrs().Name)
	p.at(l.Attrs().Index).as = l
	return nil
}

func (p *pretended) removeLink(index int) error {
	l := p.at(index)
	if l == nil {
		return unix.ENODEV
	}
	p.did("remove %s", l.Name)
	for gone := []int{index}; len(gone) > 0; gone = gone[1:] {
		p.devices = slices.DeleteFunc(p.devices, func(l link) bool {
			if l.Kind == "vlan" && l.Parent == gone[0] {
				gone = append(gone, l.Index)
			}
			return l.Index == gone[0]
		})
	}
	return nil
}

func (p *pretended) rename(index int, name string) error {
	if p.used(name) {
		return unix.EEXIST
	}
	p.did("rename %s %s", p.at(index).Name, name)
	p.at(index).Name = name
	return nil
}

func (p *pretended) addAltName(index int, name string) error {
	if p.used(name) {
		return unix.EEXIST
	}
	p.at(index).AltNames = append(p.at(index).AltNames, name)
	return nil
}

func (p *pretended) removeAltName(index int, name string) error {
	l := p.at(index)
	l.AltNames = slices.DeleteFunc(slices.Clone(l.AltNames), func(n string) bool { return n == name })
	return nil
}

func (p *pretended) setMTU(index, mtu int) error {
	l := p.at(index)
	if parent := p.at(l.Parent); l.Kind == "vlan" && mtu > parent.MTU {
		return unix.ERANGE
	}
	p.did("mtu %s %d", l.Name, mtu)
	l.MTU = mtu
	for i := range p.devices {
		if v := &p.devices[i]; v.Kind == "vlan" && v.Parent == index && v.MTU > mtu {
			v.MTU = mtu
		}
	}
	return nil
}

func (p *pretended) setAlias(index int, alias string) error { p.at(index).Alias = alias; return nil }
func (p *pretended) setGroup(index int, group uint32) error { p.at(index).Group = group; return nil }
func (p *pretended) setUp(index int, up bool) error         { p.at(index).Up = up; return nil }
func (p *pretended) replaceRoute(r rib.Route) error {
	p.routes = append(slices.DeleteFunc(p.routes, func(o rib.Route) bool {
		return o.Prefix == r.Prefix && o.Metric == r.Metric && o.Table == r.Table
	}), r)
	return nil
}
func (p *pretended) removeRoute(rib.Route) error { return nil }

func (p *pretended) addAddress(index int, a netip.Prefix) error {
	p.did("address %s on %s", a, p.at(index).Name)
	if err := p.refused[p.done[len(p.done)-1]]; err != nil {
		return err
	}
	p.on[index] = append(p.on[index], a)
	return nil
}

func (p *pretended) removeAddress(index int, a netip.Prefix) error {
	p.on[index] = slices.DeleteFunc(p.on[index], func(b netip.Prefix) bool { return a == b })
	return nil
}

// machine is a computer with two ports and a VLAN that someone else made.
func machine() *pretended {
	return &pretended{on: map[int][]netip.Prefix{}, diverted: map[int]tc.Redirected{}, settings: map[string]string{"net/ipv4/conf/eth0/rp_filter": "1"}, devices: []link{
		{Index: 1, Name: "lo", MTU: 65536},
		{Index: 2, Name: "eth0", MAC: [6]byte{2, 0, 0, 0, 0, 9}, PermMAC: [6]byte{2, 0, 0, 0, 0, 1}, BusPath: "0000:01:00.0", MTU: 1500, Ethernet: true},
		{Index: 3, Name: "eth1", MAC: [6]byte{2, 0, 0, 0, 0, 2}, PermMAC: [6]byte{2, 0, 0, 0, 0, 2}, BusPath: "0000:02:00.0", MTU: 1500, Ethernet: true},
		{Index: 4, Name: "eth1.7", Kind: "vlan", Parent: 3, MAC: [6]byte{2, 0, 0, 0, 0, 2}, MTU: 1500, Ethernet: true,
			as: &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{ParentIndex: 3}, VlanId: 7, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}},
	}}
}

func applyTo(t *testing.T, p *pretended, cfg *config.Config) *Kernel {
	t.Helper()
	k := New(slog.New(slog.DiscardHandler), Options{OwnHost: true})
	k.system = p
	d := render(t, cfg)
	apply(t, k, d)
	if left := planned(t, k, d); len(left) != 0 {
		t.Errorf("left to do after an apply:\n%s", strings.Join(left, "\n"))
	}
	writes := k.Writes()
	if apply(t, k, d); k.Writes() != writes {
		t.Errorf("an unchanged apply wrote %d times", k.Writes()-writes)
	}
	return k
}

func named(interfaces map[string]*config.Interface) *config.Config {
	return &config.Config{System: config.System{Hostname: "r1"}, Interfaces: interfaces}
}

func TestVLANsComeAndGo(t *testing.T) {
	p := machine()
	trunk := &config.Interface{Match: &config.Match{MAC: config.MAC{2, 0, 0, 0, 0, 1}}, MTU: 9000}
	stack := map[string]*config.Interface{
		"trunk": trunk,
		"outer": {VLAN: &config.VLAN{Parent: "trunk", ID: 100, Protocol: "802.1ad"}, MTU: 8996},
		"inner": {VLAN: &config.VLAN{Parent: "outer", ID: 20}, MTU: 1500, Addresses: []config.Address{host("192.0.2.1/24")}},
		"guest": {VLAN: &config.VLAN{Parent: "trunk", ID: 30}, Description: "guests"},
	}
	applyTo(t, p, named(stack))
	want := []string{"rename eth0 trunk", "add guest on trunk id 30 proto 0x8100", "add outer on trunk id 100 proto 0x88a8",
		"add inner on outer id 20 proto 0x8100", "mtu trunk 9000", "mtu outer 8996"}
	for _, w := range want {
		expectLine(t, p.done, w)
	}
	expectLine(t, p.done, "address 192.0.2.1/24 on inner")
	if p.host != "r1" {
		t.Errorf("host name %q", p.host)
	}
	for _, l := range p.devices {
		if l.Name == "guest" && (l.MTU != 9000 || l.Alias != "guests" || !l.Up) || l.Name == "inner" && l.MTU != 1500 {
			t.Errorf("%+v", l)
		}
	}

	// Smaller: the VLANs first, or the kernel shrinks them itself. A changed tag makes a new link.
	p.done = nil
	trunk.MTU = 0
	stack["outer"].MTU = 0
	stack["inner"].MTU = 1400
	stack["guest"].VLAN.ID = 31
	applyTo(t, p, named(stack))
	expectLine(t, p.done, "remove guest")
	expectLine(t, p.done, "add guest on trunk id 31 proto 0x8100")
	expectLine(t, p.done, "mtu trunk 1500")
	if p.at(2).Group != 0 || p.at(2).MTU != 1500 {
		t.Errorf("trunk is not as it was: %+v", p.at(2))
	}

	// All VLANs go; the one that someone else made stays.
	p.done = nil
	applyTo(t, p, named(map[string]*config.Interface{"trunk": trunk}))
	if !p.used("eth1.7") || p.used("outer") || p.used("inner") || p.used("guest") {
		t.Errorf("left: %+v", p.devices)
	}
}

// TestVLANOfSomeoneElse is used and renamed, and never removed.
func TestVLANOfSomeoneElse(t *testing.T) {
	p := machine()
	both := map[string]*config.Interface{
		"eth1": {}, "phones": {VLAN: &config.VLAN{Parent: "eth1", ID: 7}, MTU: 1400},
	}
	applyTo(t, p, named(both))
	if l := p.at(4); l.Name != "phones" || !slices.Contains(l.AltNames, "eth1.7") || l.MTU != 1400 {
		t.Errorf("%+v", l)
	}
	delete(both, "phones")
	applyTo(t, p, named(both))
	if p.at(4) == nil {
		t.Error("it was removed")
	}
}

func TestMatching(t *testing.T) {
	for _, c := range []struct {
		words string
		match config.Match
		want  string // name of the link found, or words of the error
	}{
		{"permanent MAC", config.Match{MAC: config.MAC{2, 0, 0, 0, 0, 1}}, "eth0"},
		{"changed MAC is not the permanent one", config.Match{MAC: config.MAC{2, 0, 0, 0, 0, 9}}, "no link with MAC address 02:00:00:00:00:09"},
		{"a VLAN borrows its MAC", config.Match{MAC: config.MAC{2, 0, 0, 0, 0, 2}}, "eth1"},
		{"bus path", config.Match{Path: "0000:02:00.0"}, "eth1"},
		{"name", config.Match{Name: "eth0"}, "eth0"},
		{"no name", config.Match{Name: "eth7"}, "no link with name eth7; present: lo, eth0 02:00:00:00:00:09 at 0000:01:00.0"},
	} {
		found, _, err := find(DesiredInterface{Name: "lan", Match: c.match}, machine().devices, neverHad)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = found.Name
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, expected %s", c.words, got, c.want)
		}
	}
	twice := machine().devices
	twice[2].BusPath = twice[1].BusPath
	if _, _, err := find(DesiredInterface{Name: "lan", Match: config.Match{Path: "0000:01:00.0"}}, twice, neverHad); err == nil {
		t.Error("two ports at one bus path must be told apart by name")
	}
}

func neverHad(string, int) bool { return false }

func TestNamesTaken(t *testing.T) {
	p := machine()
	k := New(slog.New(slog.DiscardHandler))
	k.system = p
	d := render(t, named(map[string]*config.Interface{"eth1": {Match: &config.Match{Name: "eth0"}}}))
	if err := k.Apply(context.Background(), d); err == nil || !strings.Contains(err.Error(), "another link has this name") || len(p.done) > 0 {
		t.Errorf("error %v after %q", err, p.done)
	}
	d = render(t, named(map[string]*config.Interface{"a": {Match: &config.Match{Name: "eth0"}}, "b": {Match: &config.Match{Path: "0000:01:00.0"}}}))
	if err := k.Apply(context.Background(), d); err == nil || !strings.Contains(err.Error(), "interfaces a and b both match link eth0") || len(p.done) > 0 {
		t.Errorf("error %v after %q", err, p.done)
	}
}
