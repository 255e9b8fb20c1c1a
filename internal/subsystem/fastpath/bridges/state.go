// SPDX-License-Identifier: Apache-2.0

// Package bridges follows the kernel's bridges: their ports and VLANs, and the
// stations that they know (the FDB). It reads and is told, over netlink; it never
// changes anything, and does not care who made a bridge.
package bridges

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// State is all bridges of the namespace, without their stations.
type State struct {
	Bridges map[int]*Bridge // by ifindex
	Ports   map[int]*Port   // likewise
	Began   time.Time       // when reading began: all that was so then is in it
}

// Bridge is one bridge.
type Bridge struct {
	Index    int
	Name     string
	Filters  bool            // vlan_filtering: VLANs are told apart
	Protocol uint16          // of its VLANs' tags: 0x8100 or 0x88a8
	VLANs    map[uint16]VLAN // that the bridge interface itself is a member of
	Kernel   string          // what only the kernel can do with packets of this bridge; "" for nothing
}

// Port is one port of a bridge.
type Port struct {
	Index, Bridge int
	Name          string
	Forwards      bool            // spanning tree lets frames pass
	Learns        bool            // a sender that the bridge does not know on this port matters to it
	VLANs         map[uint16]VLAN // that it is a member of
	Kernel        string          // what only the kernel can do on this port; "" for nothing
}

// VLAN is how a port, or the bridge itself, belongs to a VLAN.
type VLAN struct {
	PVID     bool // frames without a tag are of this VLAN
	Untagged bool // frames of this VLAN leave without a tag
	Forwards bool // the state of the VLAN on this port
}

// PVID is the VLAN of frames without a tag, among the VLANs of a port; 0 for none.
func PVID(vlans map[uint16]VLAN) uint16 {
	for id, v := range vlans {
		if v.PVID {
			return id
		}
	}
	return 0
}

// Station is what a bridge knows of a MAC address in a VLAN (0 where it does not filter VLANs).
type Station struct {
	Bridge, Port int // ifindex; Port is 0 where the bridge itself is meant
	VLAN         uint16
	MAC          [6]byte
	Local        bool // an address of the bridge or of one of its ports: such frames are for this machine
	Locked       bool // not authorised: the bridge drops what it sends
	Deleted      bool
}

var native = binary.NativeEndian

// States of a port and a VLAN (linux/if_bridge.h), and options of a bridge.
const (
	stateForwarding = 3

	optionMST = 1 << 2 // BR_BOOLOPT_MST_ENABLE

	vlanPVID     = 1 << 1 // BRIDGE_VLAN_INFO_PVID
	vlanUntagged = 1 << 2 // BRIDGE_VLAN_INFO_UNTAGGED

	vlanEntry      = 1 // BRIDGE_VLANDB_ENTRY
	vlanEntryInfo  = 1
	vlanEntryRange = 2
	vlanEntryState = 3

	sizeofVLANMessage = 8 // struct br_vlan_msg

	portNeighVLANSuppress = 45 // IFLA_BRPORT_NEIGH_VLAN_SUPPRESS, Linux 6.4

	neighFlagsExt    = 15     // NDA_FLAGS_EXT
	neighExtLocked   = 1 << 1 // NTF_EXT_LOCKED
	neighMaster      = 9      // NDA_MASTER
	neighVLAN        = 5      // NDA_VLAN
	neighLinkAddress = 2      // NDA_LLADDR
)

// takeLink takes in what a link says of itself as a bridge, or as a port of one.
func (s *State) takeLink(body []byte) {
	if len(body) < unix.SizeofIfInfomsg {
		return
	}
	index := int(int32(native.Uint32(body[4:])))
	var info []byte
	master, name := 0, ""
	for kind, value := range nlmsg.Attributes(body[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_LINKINFO:
			info = value
		case unix.IFLA_IFNAME:
			name = unix.ByteSliceToString(value)
		case unix.IFLA_MASTER:
			master = int(number(value))
		}
	}
	var kind, slaveKind string
	var data, slaveData []byte
	for k, value := range nlmsg.Attributes(info) {
		switch k {
		case unix.IFLA_INFO_KIND:
			kind = unix.ByteSliceToString(value)
		case unix.IFLA_INFO_DATA:
			data = value
		case unix.IFLA_INFO_SLAVE_KIND:
			slaveKind = unix.ByteSliceToString(value)
		case unix.IFLA_INFO_SLAVE_DATA:
			slaveData = value
		}
	}
	if kind == "bridge" {
		s.Bridges[index] = decodeBridge(data)
		s.Bridges[index].Index, s.Bridges[index].Name = index, name
	}
	if slaveKind == "bridge" && master != 0 {
		s.Ports[index] = decodePort(slaveData)
		s.Ports[index].Index, s.Ports[index].Name, s.Ports[index].Bridge = index, name, master
	}
}

func decodeBridge(data []byte) *Bridge {
	b := &Bridge{VLANs: map[uint16]VLAN{}}
	for kind, value := range nlmsg.Attributes(data) {
		switch kind {
		case unix.IFLA_BR_VLAN_FILTERING:
			b.Filters = number(value) != 0
		case unix.IFLA_BR_VLAN_PROTOCOL:
			b.Protocol = binary.BigEndian.Uint16(pad(value, 2))
		case unix.IFLA_BR_AGEING_TIME: // in hundredths of a second
			if time := number(value); time < shortestMemory {
				b.Kernel = fmt.Sprintf("the bridge's ageing time is only %d.%02d s", time/100, time%100)
			}
		case unix.IFLA_BR_MULTI_BOOLOPT:
			if number(value)&optionMST != 0 {
				b.Kernel = "the bridge has several spanning trees (mst_enabled)"
			}
		case unix.IFLA_BR_NF_CALL_IPTABLES, unix.IFLA_BR_NF_CALL_IP6TABLES:
			if number(value) != 0 {
				b.Kernel = "the bridge shows its packets to the packet filter (nf_call_iptables)"
			}
		}
	}
	return b
}

// shortestMemory is the least ageing time that can be kept up with, in hundredths of a second: the program shows the
// bridge each station once in at most 2.6 s.
const shortestMemory = 1000

func decodePort(data []byte) *Port {
	p := &Port{VLANs: map[uint16]VLAN{}}
	for kind, value := range nlmsg.Attributes(data) {
		on := number(value) != 0
		switch kind {
		case unix.IFLA_BRPORT_STATE:
			p.Forwards = number(value) == stateForwarding
		case unix.IFLA_BRPORT_LEARNING, unix.IFLA_BRPORT_LOCKED:
			p.Learns = p.Learns || on
		case unix.IFLA_BRPORT_VLAN_TUNNEL:
			if on {
				p.Kernel = "the port maps VLANs to tunnels (vlan_tunnel)"
			}
		case unix.IFLA_BRPORT_NEIGH_SUPPRESS, portNeighVLANSuppress:
			if on {
				p.Kernel = "the bridge answers for others (neigh_suppress)"
			}
		}
	}
	return p
}

// takeVLANs takes in the VLANs of a port, or of a bridge itself.
func (s *State) takeVLANs(body []byte) {
	if len(body) < sizeofVLANMessage {
		return
	}
	index := int(int32(native.Uint32(body[4:])))
	var vlans map[uint16]VLAN
	if p := s.Ports[index]; p != nil {
		vlans = p.VLANs
	} else if b := s.Bridges[index]; b != nil {
		vlans = b.VLANs
	} else {
		return
	}
	for kind, entry := range nlmsg.Attributes(body[sizeofVLANMessage:]) {
		if kind != vlanEntry {
			continue
		}
		v := VLAN{Forwards: true}
		var first, last uint16
		for kind, value := range nlmsg.Attributes(entry) {
			switch kind {
			case vlanEntryInfo: // struct bridge_vlan_info: flags, id
				flags := native.Uint16(pad(value, 4))
				first = native.Uint16(pad(value, 4)[2:])
				v.PVID, v.Untagged = flags&vlanPVID != 0, flags&vlanUntagged != 0
			case vlanEntryRange:
				last = native.Uint16(pad(value, 2))
			case vlanEntryState:
				v.Forwards = pad(value, 1)[0] == stateForwarding
			}
		}
		for id := int(first); id <= max(int(first), int(last)) && id != 0; id++ {
			vlans[uint16(id)] = v
		}
	}
}

// decodeStation reads a message about a neighbour. ok is false for those that are not of a bridge's table.
func decodeStation(kind uint16, body []byte) (s Station, ok bool) {
	if len(body) < unix.SizeofNdMsg || body[0] != unix.AF_BRIDGE {
		return s, false
	}
	s.Port, s.Deleted = int(int32(native.Uint32(body[4:]))), kind == unix.RTM_DELNEIGH
	s.Local = native.Uint16(body[8:])&unix.NUD_PERMANENT != 0
	for kind, value := range nlmsg.Attributes(body[unix.SizeofNdMsg:]) {
		switch kind {
		case neighLinkAddress:
			ok = copy(s.MAC[:], value) == len(s.MAC)
		case neighVLAN:
			s.VLAN = native.Uint16(pad(value, 2))
		case neighMaster:
			s.Bridge = int(number(value))
		case neighFlagsExt:
			s.Locked = number(value)&neighExtLocked != 0
		}
	}
	if s.Port == s.Bridge {
		s.Port = 0
	}
	return s, ok && s.Bridge != 0 // tables of devices themselves (NTF_SELF) have no bridge
}
