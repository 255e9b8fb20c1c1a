// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"encoding/binary"
	"strings"

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
	Frags    bool // packets in several buffers
	TagHint  bool // tells a program the VLAN tag that hardware took off a frame
}

// String returns what the driver can do in words.
func (x XDP) String() string {
	if !x.Known {
		return "unknown (needs Linux 6.3 or later)"
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

// Bits of attributeXDP.
const (
	actBasic    = 1 << 0
	actRedirect = 1 << 1
	actTransmit = 1 << 2
	actZeroCopy = 1 << 3
	actFrags    = 1 << 5 // RX_SG

	hintTag = 1 << 2 // of attributeHints: NETDEV_XDP_RX_METADATA_VLAN_TAG
)

// xdpOf asks the kernel what the driver of a port can do for XDP.
func xdpOf(index int) XDP {
	answers, err := askNetdev(commandDevGet, unix.NLM_F_ACK, index)
	if err != nil {
		return XDP{}
	}
	for _, answer := range answers {
		if x := readFeatures(answer); x.Known {
			return x
		}
	}
	return XDP{}
}

// readFeatures reads an answer of the netdev family.
func readFeatures(answer []byte) XDP {
	values, err := attributesOf(answer)
	if err != nil || len(values[attributeXDP]) != 8 {
		return XDP{}
	}
	mask, hints := binary.NativeEndian.Uint64(values[attributeXDP]), uint64(0)
	if len(values[attributeHints]) == 8 {
		hints = binary.NativeEndian.Uint64(values[attributeHints])
	}
	return XDP{
		Known: true, Native: mask&actBasic != 0, Redirect: mask&actRedirect != 0, Transmit: mask&actTransmit != 0,
		ZeroCopy: mask&actZeroCopy != 0, Frags: mask&actFrags != 0, TagHint: hints&hintTag != 0,
	}
}
