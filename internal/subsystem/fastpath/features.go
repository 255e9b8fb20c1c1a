// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/ethtool"
)

// What a driver can do for XDP, from the kernel's netdev family (Linux 6.3,
// include/uapi/linux/netdev.h). The answer changes while ports are in use: a veth
// can transmit for XDP only while its far end has a program or GRO.

// features is the set NETDEV_XDP_ACT_.
type features uint64

const (
	featureBasic    features = 1
	featureRedirect features = 2
	featureTransmit features = 4  // ndo_xdp_xmit
	featureScatter  features = 64 // ndo_xdp_xmit of frames in several buffers
)

const (
	netdevFamily     = "netdev"
	netdevGroup      = "mgmt"
	commandDevGet    = 1
	attributeIfindex = 1
	attributeXDP     = 3
)

func (f features) String() string {
	var words []string
	for _, w := range []struct {
		bit  features
		name string
	}{{featureBasic, "basic"}, {featureRedirect, "redirect"}, {featureTransmit, "transmit"}} {
		if f&w.bit != 0 {
			words = append(words, w.name)
		}
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, " ")
}

// errNoFeatures says that the kernel can't tell.
var errNoFeatures = errors.New("this kernel does not report XDP features of drivers (Linux 6.3 or later does)")

// featuresOf asks the kernel what the driver of a link can do. Tests give other answers.
var featuresOf = askFeatures

func askFeatures(ifindex int) (features, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNoFeatures, err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), 0)
	var header struct { // nl serializes four bytes of a Genlmsg, which has two
		nl.Genlmsg
		reserved [2]byte
	}
	header.Command, header.Version = commandDevGet, nl.GENL_CTRL_VERSION
	request.AddData(&header.Genlmsg)
	request.AddData(nl.NewRtAttr(attributeIfindex, nl.Uint32Attr(uint32(ifindex))))
	replies, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, fmt.Errorf("query the XDP features of link %d: %w", ifindex, err)
	}
	for _, reply := range replies {
		attributes, err := nl.ParseRouteAttr(reply[nl.SizeofGenlmsg:])
		if err != nil {
			return 0, fmt.Errorf("read the XDP features of link %d: %w", ifindex, err)
		}
		for _, a := range attributes {
			if a.Attr.Type == attributeXDP && len(a.Value) == 8 {
				return features(binary.NativeEndian.Uint64(a.Value)), nil
			}
		}
	}
	return 0, errNoFeatures
}

// listenFeatures calls changed when a driver's abilities change.
func listenFeatures(changed func()) (*os.File, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoFeatures, err)
	}
	for _, g := range family.Groups {
		if g.Name == netdevGroup {
			return listen(unix.NETLINK_GENERIC, []int{int(g.ID)}, changed)
		}
	}
	return nil, errNoFeatures
}

// driverOf is the name of a link's driver; "unknown" when it does not say.
func driverOf(name string) string {
	return cmp.Or(ask(func(t ethtool.Tool) string { return t.Driver(name).Name }), "unknown")
}

// busOf is where a link's device sits; "" for one that is no hardware.
func busOf(name string) string { return ask(func(t ethtool.Tool) string { return t.Driver(name).Bus }) }

func ask(what func(ethtool.Tool) string) string {
	t, err := ethtool.Open()
	if err != nil {
		return ""
	}
	defer t.Close()
	return what(t)
}

// paravirtual are drivers of devices that hypervisors make. What comes from a guest of the same machine may be as
// its sender left it.
var paravirtual = []string{"virtio_net", "vif", "xen_netfront", "vmxnet3", "hv_netvsc", "tun"}

// leavesSums says whether XDP on a link with that driver may meet packets whose checksum nobody has computed yet
// (bpf/summed.h): always, but for hardware.
func leavesSums(driver, bus string) bool { return bus == "" || slices.Contains(paravirtual, driver) }

// bare makes the driver hand frames over as they came: XDP can't see VLAN tags that hardware has taken off, and would take a
// tagged frame for an untagged one; nor may hardware join packets (LRO).
func bare(name string) error {
	t, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	return errors.Join(t.Turn(name, ethtool.ReceiveVLAN, false), t.Turn(name, ethtool.LargeReceive, false))
}
