// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/affinity"
	"minne/internal/base/dump"
	"minne/internal/base/ethtool"
	"minne/internal/base/nlmsg"
	"minne/internal/base/tc"
	"minne/internal/model/rib"
)

// A system is the kernel as the reconciler sees it: what it reads, and the
// smallest writes. The real one is live; tests of VLANs and odd links use a
// pretended one, since not every test kernel has those drivers.
type system interface {
	links() ([]link, error)
	addresses() ([]address, error)
	staticRoutes(ctx context.Context, tables []uint32) ([]rib.Route, error)
	connectedRoutes(ctx context.Context) ([]rib.Route, error)
	barrier() error // waits until the kernel is through with what it was doing to all these
	proxies(ctx context.Context) ([]proxy, error)
	setting(path string) (value string, ok bool, err error)
	antiSpoof(ctx context.Context) (string, error)
	hostname() (string, error)
	bridging() (bridging, error)
	rules(family uint8) ([]tableRule, error)
	disciplines(ctx context.Context) ([]tc.Discipline, error)
	redirects(index int) (tc.Redirected, error)
	lacksCake() (bool, error)
	lacks(kind string) (bool, error)
	classes(ctx context.Context, index int) ([]tc.ClassNow, error)
	sorter(index int) (program int, err error)

	portSetting(name string, s ethtool.Setting) (now, most int, err error)
	setPort(name string, s ethtool.Setting, to int) error

	online() ([]int, error)
	programs(cpus []int) (threads []int, err error)
	tie(thread int, cpus []int) error
	interrupts(name string, index int) ([]affinity.Interrupt, error)
	setInterrupt(number int, cpus []int) error
	senders(name string, index int) ([]affinity.Sender, error)
	setSender(name string, queue int, cpus []int) error
	indirection(name string) ([]int, error)
	setIndirection(name string, table []int) error
	cardRules(name string) (rules []ethtool.Rule, room int, err error)
	addCardRule(name string, m ethtool.Match, queue int) error
	removeCardRule(name string, location int) error

	addLink(l netlink.Link) error
	changeLink(l netlink.Link) error
	removeLink(index int) error
	rename(index int, name string) error
	addAltName(index int, name string) error
	removeAltName(index int, name string) error
	setMTU(index, mtu int) error
	setAlias(index int, alias string) error
	setGroup(index int, group uint32) error
	setUp(index int, up bool) error
	setMaster(index, master int) error
	setTree(index int, attribute uint16, to int) error
	setTreePort(index int, attribute uint16, to int) error
	farEnds() (map[int][]netip.Addr, error)
	setFarEnd(index int, a netip.Addr, there bool) error
	setIsolated(index int, on bool) error
	setBridgeVLAN(index, id int, flags uint16, self, there bool) error
	setCake(index int, c tc.Cake, inPlace bool) error
	removeRoot(index int) error
	changeTree(ctx context.Context, index int, c tc.TreeChange) error
	sort(index, program int) error
	redirect(index, to int) error
	endRedirect(index int) error
	addRule(u tableRule) error
	removeRule(u tableRule) error
	addAddress(index int, a netip.Prefix) error
	removeAddress(index int, a netip.Prefix) error
	replaceRoute(r rib.Route) error
	removeRoute(r rib.Route) error
	addConnected(o onNet) error
	addProxy(p proxy) error
	removeProxy(p proxy) error
	setSetting(path, value string) error
	loadAntiSpoof(ctx context.Context, text string) error
	setHostname(name string) error
}

// link is a network device as far as the reconciler cares.
type link struct {
	Index    int
	Name     string
	AltNames []string
	MAC      [6]byte
	PermMAC  [6]byte // zero when the driver does not tell
	BusPath  string  // ethtool -i bus-info, "" when none
	Kind     string
	Parent   int
	MTU      int
	Up       bool // administratively
	Ready    bool // up, and the kernel knows of the carrier: it has made what it makes of a link
	Master   int
	Ethernet bool
	Alias    string
	Group    uint32
	as       netlink.Link // with what its kind says of it, for the verbs of the kind
}

// address is an address on a link.
type address struct {
	Index  int
	Prefix netip.Prefix // with host bits
	Auto   bool         // IPv6 link-local: made by the kernel, left alone
	Ours   bool         // added by Minne (IFA_PROTO), whatever the configuration says today

	Secondary bool // of an IPv4 network that another address of the link is in: that one has the connected route
	NoRoute   bool // added without a connected route
}

// live is the kernel of the process's namespace.
type live struct{}

func (live) links() ([]link, error) {
	found, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	tool, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	defer tool.Close()
	list := make([]link, 0, len(found))
	for _, f := range found {
		a := f.Attrs()
		l := link{
			Index: a.Index, Name: a.Name, AltNames: a.AltNames, Kind: f.Type(), Parent: a.ParentIndex,
			MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0, Ethernet: a.EncapType == "ether",
			Ready: a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_LOWER_UP != 0 &&
				(a.OperState == netlink.OperUp || a.OperState == netlink.OperUnknown),
			Master: a.MasterIndex, Alias: a.Alias, Group: a.Group, BusPath: tool.Driver(a.Name).Bus, as: f,
		}
		if standIn(l.Kind, l.Group) {
			l.Kind = wireGuard.name
		}
		copy(l.MAC[:], a.HardwareAddr)
		copy(l.PermMAC[:], a.PermHWAddr)
		if s, ok := a.Slave.(*netlink.BondSlave); ok && l.PermMAC == [6]byte{} {
			copy(l.PermMAC[:], s.PermHardwareAddr) // what it had before it got the bond's
		}
		list = append(list, l)
	}
	return list, nil
}

func (live) addresses() ([]address, error) {
	found, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	ours, err := ourAddresses()
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	list := make([]address, 0, len(found))
	for _, f := range found {
		p := prefixOf(f.IPNet)
		list = append(list, address{
			Index: f.LinkIndex, Prefix: p,
			Auto: p.Addr().Is6() && p.Addr().IsLinkLocalUnicast(),
			Ours: ours[placed{f.LinkIndex, p}],

			Secondary: f.Flags&unix.IFA_F_SECONDARY != 0,
			NoRoute:   f.Flags&unix.IFA_F_NOPREFIXROUTE != 0,
		})
	}
	return list, nil
}

func prefixOf(n *net.IPNet) netip.Prefix {
	a, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones)
}

// staticRoutes reads the routes of protocol static in tables.
func (live) staticRoutes(ctx context.Context, tables []uint32) (all []rib.Route, err error) {
	for _, table := range tables {
		routes, err := tableRoutes(ctx, table, protocolStatic, "static")
		if err != nil {
			return nil, err
		}
		all = append(all, routes...)
	}
	return all, nil
}

// mainRoutes reads the routes of one protocol in the main table.
func mainRoutes(ctx context.Context, protocol uint8, words string) ([]rib.Route, error) {
	return tableRoutes(ctx, rib.TableMain, protocol, words)
}

// tableRoutes reads the routes of one protocol in a table. The kernel does the
// filtering: among a million BGP routes, only those are copied.
func tableRoutes(ctx context.Context, table uint32, protocol uint8, words string) ([]rib.Route, error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	var list []rib.Route
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		routes, err := a.routes(ctx, family, func(body []byte, w *builder) {
			body[5] = protocol
			w.attr32(unix.RTA_TABLE, table)
		})
		if errors.Is(err, unix.ENOENT) {
			continue // a namespace that never had a route has no such table
		}
		if err != nil {
			return nil, fmt.Errorf("list %s routes: %w", words, err)
		}
		list = append(list, routes...)
	}
	return list, nil
}

// routes dumps routes of one family that pass the filter.
func (a *asker) routes(ctx context.Context, family uint8, filter func(body []byte, w *builder)) ([]rib.Route, error) {
	for range dumpRetries {
		var list []rib.Route
		var r routeMessage
		intact, err := a.dump(ctx, unix.RTM_GETROUTE, rtMsgLen, func(body []byte, w *builder) {
			body[0] = family
			filter(body, w)
		}, func(m nlmsg.Message) error {
			if err := r.decode(m.Body); err != nil {
				return err
			}
			route := r.Route
			route.Hops = append([]rib.Hop(nil), r.Hops...)
			list = append(list, route)
			return nil
		})
		if intact || err != nil {
			return list, err
		}
	}
	return nil, errUnsettled
}

// dumpRetries bounds how often a dump that changes under the reader is read again.
const dumpRetries = 10

var errUnsettled = errors.New("the kernel's state kept changing while it was read")

func (live) setting(path string) (string, bool, error)         { return readSysctl(path) }
func (live) setSetting(path, value string) error               { return writeSysctl(path, value) }
func (live) antiSpoof(ctx context.Context) (string, error)     { return listAntiSpoof(ctx) }
func (live) loadAntiSpoof(ctx context.Context, t string) error { return loadAntiSpoof(ctx, t) }
func (live) hostname() (string, error)                         { return os.Hostname() }
func (live) setHostname(name string) error                     { return unix.Sethostname([]byte(name)) }

// byIndex names a link to the netlink library.
func byIndex(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

func (live) addLink(l netlink.Link) error    { return netlink.LinkAdd(l) }
func (live) changeLink(l netlink.Link) error { return netlink.LinkModify(l) }
func (live) removeLink(index int) error      { return netlink.LinkDel(byIndex(index)) }

// rename works on a link that is up since Linux 6.0; before, it has to be down.
func (l live) rename(index int, name string) error {
	err := netlink.LinkSetName(byIndex(index), name)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := l.setUp(index, false); err != nil {
		return err
	}
	err = netlink.LinkSetName(byIndex(index), name)
	return errors.Join(err, l.setUp(index, true))
}

func (live) addAltName(index int, name string) error {
	return netlink.LinkAddAltName(byIndex(index), name)
}

func (live) removeAltName(index int, name string) error {
	return netlink.LinkDelAltName(byIndex(index), name)
}

func (live) setMaster(index, master int) error {
	return netlink.LinkSetMasterByIndex(byIndex(index), master)
}

func (live) setMTU(index, mtu int) error { return netlink.LinkSetMTU(byIndex(index), mtu) }

func (live) setAlias(index int, alias string) error {
	return netlink.LinkSetAlias(byIndex(index), alias)
}

func (live) setGroup(index int, group uint32) error {
	return netlink.LinkSetGroup(byIndex(index), int(group))
}

func (live) setUp(index int, up bool) error {
	if up {
		return netlink.LinkSetUp(byIndex(index))
	}
	return netlink.LinkSetDown(byIndex(index))
}

// addAddress adds an address that is usable at once. IPv6 duplicate address
// detection is left out (IFA_F_NODAD): for a second or more the address could
// not be bound or answered for, so every commit would cut BGP sessions, and an
// address that lost the race would stay dead until someone looks. A router's
// addresses are planned, not found.
func (live) addAddress(index int, a netip.Prefix) error {
	return addOurs(index, a)
}

func (live) removeAddress(index int, a netip.Prefix) error {
	return netlink.AddrDel(byIndex(index), addrOf(a))
}

func addrOf(a netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{
		IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen()),
	}}
}

func (live) replaceRoute(r rib.Route) error {
	return routeRequest(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r)
}

func (live) removeRoute(r rib.Route) error { return routeRequest(unix.RTM_DELROUTE, 0, r) }

func routeRequest(kind, flags uint16, r rib.Route) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	_, err = a.bulkSend([]rib.Route{r}, kind, flags)
	return err
}
