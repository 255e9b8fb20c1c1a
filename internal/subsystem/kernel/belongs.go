// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// What show tells of bonds, bridges and VRFs, and of the links in them.

// Membership is how a link stands to those that it belongs to, and that belong to it.
type Membership struct {
	Master      string   `json:"master,omitempty"` // the bond, bridge or VRF that it belongs to
	MasterKind  string   `json:"master_kind,omitempty"`
	PortState   string   `json:"port_state,omitempty"` // of a bond's port: "in use", "backup" or "down"; of a bridge's: "forwarding", "listening" …
	Members     []string `json:"members,omitempty"`
	InUse       []string `json:"ports_in_use,omitempty"` // of a bond's
	LACPPartner string   `json:"lacp_partner,omitempty"` // MAC address of the system on the other side
}

// Attributes of linux/if_link.h.
const (
	iflaBondADInfo        = 23 // IFLA_BOND_AD_INFO
	iflaBondADInfoPartner = 5  // IFLA_BOND_AD_INFO_PARTNER_MAC
	iflaBondSlaveState    = 1  // IFLA_BOND_SLAVE_STATE
	iflaBondSlaveMII      = 2  // IFLA_BOND_SLAVE_MII_STATUS
)

// bridgePortStates are BR_STATE_ of linux/if_bridge.h.
var bridgePortStates = []string{"disabled", "listening", "learning", "forwarding", "blocking"}

// portInUse is the state of a bond's port from which the bond takes packets (its bond_is_slave_inactive is false).
const portInUse = "in use"

// membershipOf reads what the IFLA_LINKINFO of a link says of it.
func membershipOf(info []byte) (m Membership) {
	slave := ""
	for kind, value := range nlmsg.Attributes(info) {
		switch kind {
		case unix.IFLA_INFO_DATA:
			if infoKind(info) == bond.name {
				m.LACPPartner = partnerOf(value)
			}
		case unix.IFLA_INFO_SLAVE_KIND:
			slave = unix.ByteSliceToString(value)
		case unix.IFLA_INFO_SLAVE_DATA:
			m.PortState = portState(slave, value)
		}
	}
	return m
}

// partnerOf reads the partner of a bond; "" for none.
func partnerOf(data []byte) string {
	for kind, value := range nlmsg.Attributes(data) {
		if kind != iflaBondADInfo {
			continue
		}
		for kind, v := range nlmsg.Attributes(value) {
			if kind == iflaBondADInfoPartner && len(v) == 6 && [6]byte(v) != [6]byte{} {
				return net.HardwareAddr(v).String()
			}
		}
	}
	return ""
}

func portState(of string, data []byte) string {
	state, mii := -1, byte(0)
	for kind, value := range nlmsg.Attributes(data) {
		switch {
		case len(value) == 0:
		case of == bridge.name && kind == iflaBRPortState, of == bond.name && kind == iflaBondSlaveState:
			state = int(value[0])
		case of == bond.name && kind == iflaBondSlaveMII:
			mii = value[0]
		}
	}
	switch {
	case of == bond.name && mii != 0: // BOND_LINK_UP is 0
		return "down"
	case of == bond.name && state >= 0:
		return map[bool]string{true: portInUse, false: "backup"}[state == 0]
	case of == bridge.name && state >= 0:
		return bridgePortState(state)
	}
	return ""
}

func bridgePortState(state int) string {
	if state >= len(bridgePortStates) {
		return fmt.Sprint("state ", state)
	}
	return bridgePortStates[state]
}

// belong fills in the names of who belongs to whom.
func belong(all []Interface, masters map[string]int) {
	at := map[int]*Interface{}
	for n := range all {
		at[all[n].Index] = &all[n]
	}
	for n := range all {
		i := &all[n]
		m := at[masters[i.Name]]
		if m == nil {
			continue
		}
		i.Master, i.MasterKind = m.Name, m.Kind
		m.Members = append(m.Members, i.Name)
		if m.Kind == bond.name && i.PortState == "in use" {
			m.InUse = append(m.InUse, i.Name)
		}
	}
}
