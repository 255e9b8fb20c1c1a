// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"encoding/binary"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// XDP is what a driver can do for XDP. Kernels before Linux 6.3 don't tell: then Known is false.
//
// Transmit changes with what is attached: a veth, say, takes frames only while its other end has a
// program or GRO.
type XDP struct {
	Known    bool
	Native   bool // runs programs in the driver
	Redirect bool // a program may send its packets out of another port
	Transmit bool // takes frames that programs of other ports send out of it (ndo_xdp_xmit)
	ZeroCopy bool // AF_XDP without copying
}

// String returns what the driver can do in words.
func (x XDP) String() string {
	if !x.Known {
		return "unknown (Linux 6.3 and later tell)"
	}
	var words []string
	for _, w := range []struct {
		can  bool
		word string
	}{{x.Native, "native"}, {x.Redirect, "redirect"}, {x.Transmit, "transmit"}, {x.ZeroCopy, "zero copy"}} {
		if w.can {
			words = append(words, w.word)
		}
	}
	if words == nil {
		return "none: generic only"
	}
	return strings.Join(words, ", ")
}

// The netdev family of generic netlink (include/uapi/linux/netdev.h).
const (
	netdevFamily     = "netdev"
	commandDevGet    = 1
	attributeIfindex = 1
	attributeXDP     = 3 // a mask of NETDEV_XDP_ACT_

	actBasic    = 1 << 0
	actRedirect = 1 << 1
	actTransmit = 1 << 2
	actZeroCopy = 1 << 3
)

// genericHeader is struct genlmsghdr: command, version, two reserved bytes.
type genericHeader [4]byte

func (genericHeader) Len() int            { return 4 }
func (h genericHeader) Serialize() []byte { return h[:] }

// xdpOf asks the kernel what the driver of a port can do for XDP.
func xdpOf(index int) XDP {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return XDP{}
	}
	request := nl.NewNetlinkRequest(int(family.ID), 0)
	request.AddData(genericHeader{commandDevGet, 1})
	request.AddData(nl.NewRtAttr(attributeIfindex, nl.Uint32Attr(uint32(index))))
	replies, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return XDP{}
	}
	for _, reply := range replies {
		if x := readFeatures(reply); x.Known {
			return x
		}
	}
	return XDP{}
}

// readFeatures reads an answer of the netdev family: struct genlmsghdr, then attributes.
func readFeatures(reply []byte) XDP {
	if len(reply) < nl.SizeofGenlmsg {
		return XDP{}
	}
	attributes, err := nl.ParseRouteAttr(reply[nl.SizeofGenlmsg:])
	if err != nil {
		return XDP{}
	}
	for _, a := range attributes {
		if a.Attr.Type == attributeXDP && len(a.Value) == 8 {
			mask := binary.NativeEndian.Uint64(a.Value)
			return XDP{true, mask&actBasic != 0, mask&actRedirect != 0, mask&actTransmit != 0, mask&actZeroCopy != 0}
		}
	}
	return XDP{}
}
