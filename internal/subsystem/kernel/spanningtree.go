// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/plan"
	"minne/internal/model/config"
)

// The spanning tree of a bridge: the kernel's own (IEEE 802.1D-1998), which has no roles of ports. They follow from what
// it tells of a port: who the root is, and which bridge sends the best announcements there.

// Attributes of linux/if_link.h. Times are in hundredths of a second (USER_HZ).
const (
	iflaBRForwardDelay   = 1  // IFLA_BR_FORWARD_DELAY
	iflaBRHelloTime      = 2  // IFLA_BR_HELLO_TIME
	iflaBRMaxAge         = 3  // IFLA_BR_MAX_AGE
	iflaBRSTPState       = 5  // IFLA_BR_STP_STATE, in IFLA_INFO_DATA of a bridge
	iflaBRPriority       = 6  // IFLA_BR_PRIORITY
	iflaBRRootID         = 10 // IFLA_BR_ROOT_ID
	iflaBRBridgeID       = 11 // IFLA_BR_BRIDGE_ID
	iflaBRRootPort       = 12 // IFLA_BR_ROOT_PORT: the number of a port
	iflaBRRootPathCost   = 13 // IFLA_BR_ROOT_PATH_COST
	iflaBRTopologyChange = 14 // IFLA_BR_TOPOLOGY_CHANGE

	iflaBRPortPriority         = 2  // IFLA_BRPORT_PRIORITY
	iflaBRPortCost             = 3  // IFLA_BRPORT_COST
	iflaBRPortDesignatedBridge = 14 // IFLA_BRPORT_BRIDGE_ID
	iflaBRPortDesignatedPort   = 15 // IFLA_BRPORT_DESIGNATED_PORT
	iflaBRPortID               = 17 // IFLA_BRPORT_ID
	iflaBRPortNumber           = 18 // IFLA_BRPORT_NO
)

// bridgeID is a bridge in the tree: priority and MAC address, in network byte order. The lower one is better.
type bridgeID [8]byte

// String is how it is written everywhere: 32768.02:00:00:00:00:01.
func (b bridgeID) String() string {
	return fmt.Sprintf("%d.%s", binary.BigEndian.Uint16(b[:2]), net.HardwareAddr(b[2:]))
}

// treeTimes are hello time, max age and forward delay, in seconds.
type treeTimes [3]float64

func (t treeTimes) String() string { return fmt.Sprintf("%g s, %g s, %g s", t[0], t[1], t[2]) }

// usualTimes are those that the kernel gives a bridge that it makes.
var usualTimes = treeTimes{2, 20, 15}

// tree is the spanning tree of a bridge. Times are those in force, the root's: a bridge that is not the root does not
// tell its own.
type tree struct {
	On       bool
	Priority int
	Times    treeTimes
	Own      bridgeID
	Root     bridgeID
	Cost     int
	RootPort int // number of the port, 0 for none
	Changing bool
}

// isRoot says whether the bridge is the root, so that its times are its own.
func (t tree) isRoot() bool { return t.Own == t.Root }

// treePort is a port in the tree. Priority is as IEEE 802.1D-2004 has it, 0 to 240; the kernel has a quarter of that.
type treePort struct {
	State              string
	Cost, Priority     int
	ID, Number         int
	Designated         bridgeID
	DesignatedPortOfIt int
}

// kernelPriority is how many times as big as the kernel's a port priority of IEEE 802.1D-2004 is: the kernel has 6 bits in
// front of the port's number, the standard has had 8.
const kernelPriority = 4

// role is the port's in the tree of a bridge.
func (p treePort) role(of tree) string {
	switch {
	case p.State == bridgePortStates[0] || !of.On:
		return ""
	case p.Number == of.RootPort && !of.isRoot():
		return "root"
	case p.Designated == of.Own && p.DesignatedPortOfIt == p.ID:
		return "designated"
	case p.Designated == of.Own:
		return "backup" // another port of this bridge is on the same cable
	}
	return "alternate"
}

// treeOf reads the spanning tree of a bridge from an RTM_NEWLINK body; ok is false for other links.
func treeOf(body []byte) (t tree, ok bool) {
	if len(body) < ifInfoLen || body[0] == familyBridge {
		return tree{}, false
	}
	for kind, value := range nlmsg.Attributes(body[ifInfoLen:]) {
		if kind != unix.IFLA_LINKINFO || infoKind(value) != bridge.name {
			continue
		}
		for kind, data := range nlmsg.Attributes(value) {
			if kind == unix.IFLA_INFO_DATA {
				return decodeTree(data), true
			}
		}
	}
	return tree{}, false
}

func decodeTree(data []byte) (t tree) {
	second := func(v []byte) float64 { return float64(numberOf(v)) / userTicks }
	for kind, v := range nlmsg.Attributes(data) {
		switch kind {
		case iflaBRSTPState:
			t.On = numberOf(v) != 0
		case iflaBRPriority:
			t.Priority = numberOf(v)
		case iflaBRHelloTime:
			t.Times[0] = second(v)
		case iflaBRMaxAge:
			t.Times[1] = second(v)
		case iflaBRForwardDelay:
			t.Times[2] = second(v)
		case iflaBRRootID:
			copy(t.Root[:], v)
		case iflaBRBridgeID:
			copy(t.Own[:], v)
		case iflaBRRootPort:
			t.RootPort = numberOf(v)
		case iflaBRRootPathCost:
			t.Cost = numberOf(v)
		case iflaBRTopologyChange:
			t.Changing = numberOf(v) != 0
		}
	}
	return t
}

// settings are what somebody may change of it, in one word to be compared.
func (t tree) settings() string { return fmt.Sprint(t.On, t.Priority, t.Times) }

// take reads one attribute of a port.
func (p *treePort) take(kind uint16, v []byte) {
	switch kind {
	case iflaBRPortState:
		p.State = bridgePortState(numberOf(v))
	case iflaBRPortCost:
		p.Cost = numberOf(v)
	case iflaBRPortPriority:
		p.Priority = numberOf(v) * kernelPriority
	case iflaBRPortDesignatedBridge:
		copy(p.Designated[:], v)
	case iflaBRPortDesignatedPort:
		p.DesignatedPortOfIt = numberOf(v)
	case iflaBRPortID:
		p.ID = numberOf(v)
	case iflaBRPortNumber:
		p.Number = numberOf(v)
	}
}

// numberOf is an integer of one, two or four bytes, of this machine.
func numberOf(v []byte) int {
	switch len(v) {
	case 1:
		return int(v[0])
	case 2:
		return int(native.Uint16(v))
	case 4:
		return int(native.Uint32(v))
	}
	return 0
}

// spanningTree compares the tree of a bridge. What has no effect while it is off is left alone then.
func (r *round) spanningTree(b *bound, now bridging) {
	want := b.Made.Bridge
	var is tree
	index := 0
	if b.link != nil {
		index = b.link.Index
		is = now.trees[index]
	}
	if bool(want.STP) != is.On {
		defer func() { // at last: it begins with the right values
			r.add(plan.Change{Action: plan.Modify, Object: "spanning tree of " + b.Name, From: onOff(is.On), To: onOff(bool(want.STP))},
				r.on(b, func(index int) error { return r.system.setTree(index, iflaBRSTPState, int(oneIf(bool(want.STP)))) })).
				of(b.Name, fmt.Sprintf("spanning tree of %s was switched %s", b.Name, onOff(is.On)))
		}()
	}
	for _, m := range b.members {
		if !m.missing {
			var p treePort
			if m.link != nil && m.link.Master == index && index != 0 {
				p = now.ports[m.link.Index].treePort
			}
			r.pathCost(m, p)
			if want.STP {
				r.portPriority(m, want.STPPorts[m.Name], p)
			}
		}
	}
	if !want.STP {
		return
	}
	if b.link == nil {
		is.Priority = usualBridgePriority
	}
	if is.Priority != *want.STPPriority {
		r.add(plan.Change{Action: plan.Modify, Object: "bridge priority of " + b.Name, From: fmt.Sprint(is.Priority), To: fmt.Sprint(*want.STPPriority)},
			r.on(b, func(index int) error { return r.system.setTree(index, iflaBRPriority, *want.STPPriority) })).
			of(b.Name, fmt.Sprintf("bridge priority of %s was changed to %d", b.Name, is.Priority))
	}
	r.treeTimes(b, is, index)
}

// treeTimes compares the times of a bridge. One that is not the root tells the root's, not its own: there, what was
// written last is taken for its own.
func (r *round) treeTimes(b *bound, is tree, index int) {
	c := b.Made.Bridge
	want := treeTimes{c.Hello.Std().Seconds(), c.MaxAge.Std().Seconds(), c.ForwardDelay.Std().Seconds()}
	own := usualTimes
	if b.link != nil && is.isRoot() {
		own = is.Times
	} else if p := r.former.port(b.Name, index); p != nil && p.Times != nil {
		own = *p.Times
	}
	if own == want {
		return
	}
	r.add(plan.Change{Action: plan.Modify, Object: "spanning tree times of " + b.Name, From: own.String(), To: want.String()},
		r.on(b, func(index int) error {
			for n, attribute := range []uint16{iflaBRHelloTime, iflaBRMaxAge, iflaBRForwardDelay} {
				if err := r.system.setTree(index, attribute, int(want[n]*userTicks)); err != nil {
					return err
				}
			}
			return r.former.note(b.Name, index, func(p *formerPort) {
				if p.Times = &want; want == usualTimes {
					p.Times = nil
				}
			})
		})).
		of(b.Name, fmt.Sprintf("spanning tree times of %s were changed to %s", b.Name, own))
}

// usualPriority is that of a port, usualBridgePriority that of a bridge, which the configuration does not name.
const (
	usualPriority       = 128
	usualBridgePriority = 32768
)

// portPriority compares the priority of a port.
func (r *round) portPriority(m *bound, c *config.STPPort, is treePort) {
	want := usualPriority
	if c != nil {
		want = *c.Priority
	}
	if is.Number == 0 { // it is no port yet
		is.Priority = usualPriority
	}
	if is.Priority == want {
		return
	}
	r.add(plan.Change{Action: plan.Modify, Object: "port priority of " + m.Name, From: fmt.Sprint(is.Priority), To: fmt.Sprint(want)},
		r.on(m, func(index int) error { return r.system.setTreePort(index, iflaBRPortPriority, want/kernelPriority) })).
		of(m.Name, fmt.Sprintf("port priority of %s was changed to %d", m.Name, is.Priority))
}

// pathCost is what the configuration says a port of a bridge costs; 0 for the kernel's own, by the speed.
func (b *bound) pathCost() int {
	if b.master == nil || b.master.Made == nil || b.master.Made.Bridge == nil || !b.master.Made.Bridge.STP {
		return 0
	}
	if p := b.master.Made.Bridge.STPPorts[b.Name]; p != nil {
		return p.Cost
	}
	return 0
}

// pathCost compares the cost of a port. One that the configuration names no more goes back to what it was: the kernel tells
// no cost that it found by itself from one that somebody set.
func (r *round) pathCost(m *bound, is treePort) {
	want := m.pathCost()
	if want == 0 && m.link != nil && is.Number != 0 {
		if p := r.former.port(m.Name, m.link.Index); p != nil {
			want = p.Cost
		}
	}
	if want == 0 || is.Cost == want {
		return
	}
	from := fmt.Sprint(is.Cost)
	if is.Number == 0 {
		from = "by its speed"
	}
	r.add(plan.Change{Action: plan.Modify, Object: "path cost of " + m.Name, From: from, To: fmt.Sprint(want)},
		r.on(m, func(index int) error {
			if is.Number == 0 { // it has just become a port
				now, err := r.system.bridging()
				if err != nil {
					return err
				}
				is.Cost = now.ports[index].Cost
			}
			if err := r.former.note(m.Name, index, func(p *formerPort) {
				if p.Cost = cmp.Or(p.Cost, is.Cost); m.pathCost() == 0 {
					p.Cost = 0
				}
			}); err != nil {
				return err
			}
			return r.system.setTreePort(index, iflaBRPortCost, want)
		})).
		of(m.Name, fmt.Sprintf("path cost of %s was changed to %d", m.Name, is.Cost))
}

// setTree sets one value of a bridge, by its attribute.
func (live) setTree(index int, attribute uint16, to int) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	return a.request(unix.RTM_NEWLINK, 0, ifInfoLen, func(body []byte, w *builder) {
		native.PutUint32(body[4:], uint32(index))
		info := w.nest(unix.IFLA_LINKINFO)
		w.attr(unix.IFLA_INFO_KIND, []byte(bridge.name))
		data := w.nest(unix.IFLA_INFO_DATA)
		if attribute == iflaBRPriority {
			w.attr(attribute, native.AppendUint16(nil, uint16(to)))
		} else {
			w.attr32(attribute, uint32(to))
		}
		w.unnest(data)
		w.unnest(info)
	})
}

// setTreePort sets one value of a port, by its attribute.
func (live) setTreePort(index int, attribute uint16, to int) error {
	return bridgeRequest(unix.RTM_SETLINK, index, func(w *builder) {
		at := w.nest(unix.IFLA_PROTINFO | unix.NLA_F_NESTED)
		if attribute == iflaBRPortPriority {
			w.attr(attribute, native.AppendUint16(nil, uint16(to)))
		} else {
			w.attr32(attribute, uint32(to))
		}
		w.unnest(at)
	})
}

// SpanningTree is what show spanning-tree tells of a bridge.
type SpanningTree struct {
	Bridge       string     `json:"bridge"`
	On           bool       `json:"on"`
	ID           string     `json:"id"`                  // priority and MAC address
	Root         string     `json:"root"`                // likewise, of the root
	IsRoot       bool       `json:"is_root"`             // this bridge is the root
	RootPort     string     `json:"root_port,omitempty"` // the way to the root
	RootCost     int        `json:"root_cost"`           // of the whole way
	Hello        float64    `json:"hello"`               // seconds; the times in force are the root's
	MaxAge       float64    `json:"max_age"`
	ForwardDelay float64    `json:"forward_delay"`
	Changing     bool       `json:"topology_change"` // addresses are forgotten fast, because ways have changed
	Ports        []TreePort `json:"ports"`
}

// TreePort is a port of a bridge in show spanning-tree.
type TreePort struct {
	Port       string `json:"port"`
	Role       string `json:"role,omitempty"` // root, designated, alternate or backup; none while the port is disabled
	State      string `json:"state"`          // disabled, listening, learning, forwarding or blocking
	Cost       int    `json:"cost"`
	Priority   int    `json:"priority"`
	Designated string `json:"designated_bridge"` // whose announcements are the best on this cable
}

// SpanningTrees reads the trees of all bridges, by name.
func (k *Kernel) SpanningTrees(ctx context.Context) ([]SpanningTree, error) {
	now, err := k.system.bridging()
	if err != nil {
		return nil, err
	}
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	names, err := linkNames(ctx, a)
	if err != nil {
		return nil, err
	}
	list := []SpanningTree{}
	for index, t := range now.trees {
		s := SpanningTree{Bridge: names[index], On: t.On, ID: t.Own.String(), Root: t.Root.String(), IsRoot: t.isRoot(), RootCost: t.Cost,
			Hello: t.Times[0], MaxAge: t.Times[1], ForwardDelay: t.Times[2], Changing: t.Changing, Ports: []TreePort{}}
		for port, p := range now.ports {
			if p.master != index || port == index {
				continue
			}
			if p.Number == t.RootPort && !s.IsRoot {
				s.RootPort = names[port]
			}
			s.Ports = append(s.Ports, TreePort{Port: names[port], Role: p.role(t), State: p.State, Cost: p.Cost, Priority: p.Priority, Designated: p.Designated.String()})
		}
		slices.SortFunc(s.Ports, func(a, b TreePort) int { return strings.Compare(a.Port, b.Port) })
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b SpanningTree) int { return strings.Compare(a.Bridge, b.Bridge) })
	return list, nil
}
