// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
	"minne/internal/model/rib"
)

// currentLinks are the links of the namespace as they are now.
func currentLinks() ([]rib.Link, error) {
	all, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("asking for the links: %w", err)
	}
	var links []rib.Link
	for _, l := range all {
		a := l.Attrs()
		one := rib.Link{
			Index: a.Index, Name: a.Name, Kind: l.Type(), MAC: a.HardwareAddr, MTU: a.MTU, Master: a.MasterIndex, Group: a.Group,
			Up:       a.RawFlags&unix.IFF_UP != 0,
			Running:  a.RawFlags&unix.IFF_LOWER_UP != 0,
			Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0,
		}
		if v, ok := l.(*netlink.Vlan); ok {
			one.Parent, one.VLANID, one.VLANProto = a.ParentIndex, uint16(v.VlanId), uint16(v.VlanProtocol)
		}
		if v, ok := l.(*netlink.Vrf); ok {
			one.Table = v.Table
		}
		if s, ok := a.Slave.(*netlink.BondSlave); ok {
			one.InUse = s.State == netlink.BondStateActive && s.MiiStatus == netlink.BondLinkUp
		}
		links = append(links, one)
	}
	return links, nil
}
