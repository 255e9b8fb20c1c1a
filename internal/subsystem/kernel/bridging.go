// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/plan"
)

// What a bridge does with its ports: spanning tree, isolation, VLANs. The kernel keeps it apart from the
// links, under the family of bridges.

// Attributes of linux/if_link.h and linux/if_bridge.h.
const (
	iflaBRPortState    = 1  // IFLA_BRPORT_STATE, in IFLA_PROTINFO of a port
	iflaBRPortIsolated = 33 // IFLA_BRPORT_ISOLATED
	iflaBridgeFlags    = 0  // IFLA_BRIDGE_FLAGS, in IFLA_AF_SPEC
	iflaBridgeVLANInfo = 2  // IFLA_BRIDGE_VLAN_INFO

	filterBridgeVLANs = 2 // RTEXT_FILTER_BRVLAN
	bridgeFlagsSelf   = 2 // BRIDGE_FLAGS_SELF: of the bridge, not of a port

	vlanPVID     = 1 << 1 // BRIDGE_VLAN_INFO_PVID: frames without a tag are in it when they come in
	vlanUntagged = 1 << 2 // BRIDGE_VLAN_INFO_UNTAGGED: they leave without a tag
	vlanBegin    = 1 << 3 // BRIDGE_VLAN_INFO_RANGE_BEGIN
	vlanEnd      = 1 << 4 // BRIDGE_VLAN_INFO_RANGE_END
)

// bridging is what the kernel's bridges do, by the index of a link.
type bridging struct {
	trees map[int]tree       // bridges: their spanning trees
	ports map[int]bridgePort // ports, and the bridges' own side
}

// bridgePort is a port of a bridge.
type bridgePort struct {
	treePort
	master   int
	Isolated bool
	VLANs    map[int]uint16 // with vlanPVID and vlanUntagged
}

// vlansOf are the VLANs that a port shall carry.
func vlansOf(ids []int, untagged int) map[int]uint16 {
	all := map[int]uint16{}
	for _, id := range ids {
		if all[id] = 0; id == untagged {
			all[id] = vlanPVID | vlanUntagged
		}
	}
	return all
}

// bridges compares what the bridges do.
func (r *round) bridges() error {
	if !slices.ContainsFunc(r.bound, func(b *bound) bool { return b.Made != nil && b.Made.Bridge != nil }) {
		return nil
	}
	now, err := r.system.bridging()
	if err != nil {
		return err
	}
	for _, b := range r.bound {
		if b.missing || b.Made == nil || b.Made.Bridge == nil {
			continue
		}
		want := b.Made.Bridge
		index := 0
		if b.link != nil {
			index = b.link.Index
		}
		r.spanningTree(b, now)
		own := map[int]uint16{}
		for _, v := range r.bound {
			if v.Made != nil && v.Made.VLAN != nil && v.Made.VLAN.Parent == b.Name {
				own[v.Made.VLAN.ID] = 0
			}
		}
		aware := len(want.VLANs) > 0
		if aware {
			r.bridgeVLANs(b, now.ports[index].VLANs, own, true)
		}
		for _, m := range b.members {
			if m.missing {
				continue
			}
			var is bridgePort
			if m.link != nil && m.link.Master == index && index != 0 {
				is = now.ports[m.link.Index]
			}
			if isolated := slices.Contains(want.Isolated, m.Name); is.Isolated != isolated {
				r.add(plan.Change{Action: plan.Modify, Object: "isolation of " + m.Name, From: onOff(is.Isolated), To: onOff(isolated)},
					r.on(m, func(index int) error { return r.system.setIsolated(index, isolated) })).
					of(m.Name, fmt.Sprintf("isolation of %s was switched %s", m.Name, onOff(is.Isolated)))
			}
			if aware {
				r.bridgeVLANs(m, is.VLANs, vlansOf(want.VLANs[m.Name].IDs()), false)
			}
		}
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// bridgeVLANs compares the VLANs of a port, or of the bridge itself.
func (r *round) bridgeVLANs(b *bound, now, want map[int]uint16, self bool) {
	if maps.Equal(now, want) {
		return
	}
	r.add(plan.Change{Action: plan.Modify, Object: "VLANs of " + b.Name, From: vlanWords(now), To: vlanWords(want)},
		r.on(b, func(index int) error {
			for id, flags := range now {
				if w, ok := want[id]; ok && w == flags {
					continue
				}
				if err := r.system.setBridgeVLAN(index, id, flags, self, false); err != nil && !errors.Is(err, unix.ENOENT) {
					return fmt.Errorf("VLAN %d: %w", id, err)
				}
			}
			for _, id := range slices.Sorted(maps.Keys(want)) {
				if flags, ok := now[id]; ok && flags == want[id] {
					continue
				}
				if err := r.system.setBridgeVLAN(index, id, want[id], self, true); err != nil {
					return fmt.Errorf("VLAN %d: %w", id, err)
				}
			}
			return nil
		})).of(b.Name, fmt.Sprintf("VLANs of %s were changed to %s", b.Name, vlanWords(now)))
}

// vlanWords are VLANs as an operator writes them: "10, 20-29, 5 untagged".
func vlanWords(vlans map[int]uint16) string {
	var words []string
	ids := slices.Sorted(maps.Keys(vlans))
	for i := 0; i < len(ids); i++ {
		first, flags := ids[i], vlans[ids[i]]
		for i+1 < len(ids) && ids[i+1] == ids[i]+1 && vlans[ids[i+1]] == flags {
			i++
		}
		text := strconv.Itoa(first)
		if ids[i] != first {
			text += "-" + strconv.Itoa(ids[i])
		}
		if flags&vlanUntagged != 0 {
			text += " untagged"
		}
		words = append(words, text)
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// bridging reads it.
func (live) bridging() (bridging, error) {
	now := bridging{trees: map[int]tree{}, ports: map[int]bridgePort{}}
	a, err := newAsker()
	if err != nil {
		return now, err
	}
	defer a.Close()
	type state struct {
		index int
		tree  tree
	}
	all, err := dumpAll(context.Background(), a, "bridges", unix.RTM_GETLINK, ifInfoLen, nil, func(m nlmsg.Message) (state, bool) {
		t, ok := treeOf(m.Body)
		return state{int(int32(native.Uint32(m.Body[4:]))), t}, ok
	})
	if err != nil {
		return now, err
	}
	for _, s := range all {
		now.trees[s.index] = s.tree
	}
	type port struct {
		index int
		bridgePort
	}
	ports, err := dumpAll(context.Background(), a, "ports of bridges", unix.RTM_GETLINK, ifInfoLen, func(body []byte, w *builder) {
		body[0] = familyBridge
		w.attr32(unix.IFLA_EXT_MASK, filterBridgeVLANs)
	}, func(m nlmsg.Message) (port, bool) {
		if len(m.Body) < ifInfoLen || m.Body[0] != familyBridge {
			return port{}, false
		}
		return port{int(int32(native.Uint32(m.Body[4:]))), decodeBridgePort(m.Body[ifInfoLen:])}, true
	})
	for _, p := range ports {
		now.ports[p.index] = p.bridgePort
	}
	return now, err
}

// decodeBridgePort reads the attributes of a port in a message of the family of bridges.
func decodeBridgePort(b []byte) bridgePort {
	p := bridgePort{VLANs: map[int]uint16{}}
	for kind, value := range nlmsg.Attributes(b) {
		switch kind {
		case unix.IFLA_PROTINFO:
			for kind, v := range nlmsg.Attributes(value) {
				if p.take(kind, v); kind == iflaBRPortIsolated && len(v) > 0 {
					p.Isolated = v[0] != 0
				}
			}
		case unix.IFLA_MASTER:
			p.master = int(uint32Of(value))
		case unix.IFLA_AF_SPEC:
			for kind, v := range nlmsg.Attributes(value) {
				if kind == iflaBridgeVLANInfo && len(v) >= 4 { // struct bridge_vlan_info
					p.VLANs[int(native.Uint16(v[2:]))] = native.Uint16(v) & (vlanPVID | vlanUntagged)
				}
			}
		}
	}
	return p
}

// bridgeRequest sends a message of the family of bridges about a link.
func bridgeRequest(kind uint16, index int, fill func(w *builder)) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	return a.request(kind, 0, ifInfoLen, func(body []byte, w *builder) {
		body[0] = familyBridge
		native.PutUint32(body[4:], uint32(index))
		fill(w)
	})
}

func (live) setIsolated(index int, on bool) error {
	return bridgeRequest(unix.RTM_SETLINK, index, func(w *builder) {
		at := w.nest(unix.IFLA_PROTINFO | unix.NLA_F_NESTED)
		w.attr(iflaBRPortIsolated, []byte{oneIf(on)})
		w.unnest(at)
	})
}

func (live) setBridgeVLAN(index, id int, flags uint16, self, there bool) error {
	kind := uint16(unix.RTM_DELLINK)
	if there {
		kind = unix.RTM_SETLINK
	}
	return bridgeRequest(kind, index, func(w *builder) {
		at := w.nest(unix.IFLA_AF_SPEC)
		if self {
			w.attr(iflaBridgeFlags, native.AppendUint16(nil, bridgeFlagsSelf))
		}
		w.attr(iflaBridgeVLANInfo, native.AppendUint16(native.AppendUint16(nil, flags), uint16(id)))
		w.unnest(at)
	})
}

func oneIf(on bool) byte {
	if on {
		return 1
	}
	return 0
}
