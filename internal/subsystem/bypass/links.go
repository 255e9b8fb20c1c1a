// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// Links: what is bound to one and decides about its packets, and its settings. One list of links
// tells all of it but the programs of tcx.

// Attributes of links (linux/if_link.h).
const (
	infoKind = 1 // IFLA_INFO_KIND
	infoData = 2 // IFLA_INFO_DATA

	vlanEgressQoS = 3 // IFLA_VLAN_EGRESS_QOS
	macvlanMode   = 1 // IFLA_MACVLAN_MODE
	passThrough   = 8 // MACVLAN_MODE_PASSTHRU

	xdpAttached = 2 // IFLA_XDP_ATTACHED
	xdpProgram  = 4 // IFLA_XDP_PROG_ID

	confOf4 = 1 // IFLA_INET_CONF
	confOf6 = 2 // IFLA_INET6_CONF

	skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
)

// linkFacts are what a link says that matters here.
type linkFacts struct {
	ifindex  int
	ethernet bool
	name     string
	kind     string
	below    int  // ifindex of the link that it sits on; 0 for none in this namespace
	takes    bool // it takes packets of the link below by other marks than their MAC or tag
	sorts    bool // a VLAN that writes priorities into its tags
	program  uint32
	settings uint64
}

// readLinks finds what links do to packets, and notes in f which links there are.
func (f *Follower) readLinks() (State, error) {
	request := make([]byte, unix.SizeofIfInfomsg)
	request = native.AppendUint16(request, 8)
	request = native.AppendUint16(request, unix.IFLA_EXT_MASK)
	request = native.AppendUint32(request, skipStatistics)
	var s State
	var all []linkFacts
	err := dump(unix.NETLINK_ROUTE, unix.RTM_GETLINK, request, func(body []byte) {
		if l, ok := decodeLink(body); ok {
			all = append(all, l)
		}
	})
	if err != nil {
		return State{}, err
	}
	f.links = 0
	for _, l := range all {
		f.links += l.mark()
		l.note(&s)
		if err := f.tcx(&s, l); err != nil {
			return State{}, err
		}
	}
	return s, nil
}

func decodeLink(body []byte) (l linkFacts, ok bool) {
	if len(body) < unix.SizeofIfInfomsg {
		return l, false
	}
	l.ifindex, l.ethernet = int(int32(native.Uint32(body[4:]))), native.Uint16(body[2:]) == unix.ARPHRD_ETHER
	elsewhere := false
	sum := fnv.New64a()
	fmt.Fprintln(sum, l.ifindex)
	for kind, value := range nlmsg.Attributes(body[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.name = text(value)
		case unix.IFLA_LINK:
			l.below = int(number(value))
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		case unix.IFLA_LINKINFO:
			l.decodeInfo(value)
		case unix.IFLA_XDP:
			l.decodeXDP(value)
		case unix.IFLA_AF_SPEC:
			for family, spec := range nlmsg.Attributes(value) {
				for conf, list := range nlmsg.Attributes(spec) {
					if family == unix.AF_INET && conf == confOf4 || family == unix.AF_INET6 && conf == confOf6 {
						_, _ = sum.Write(list) // never fails
					}
				}
			}
		}
	}
	if elsewhere {
		l.below = 0
	}
	l.settings = sum.Sum64()
	return l, true
}

func (l *linkFacts) decodeInfo(b []byte) {
	var about []byte
	for kind, value := range nlmsg.Attributes(b) {
		switch kind {
		case infoKind:
			l.kind = text(value)
		case infoData:
			about = value
		}
	}
	switch l.kind {
	case "ipvlan", "ipvtap", "macsec":
		l.takes = true
	case "macvlan", "macvtap":
		for kind, value := range nlmsg.Attributes(about) {
			l.takes = l.takes || kind == macvlanMode && number(value) == passThrough
		}
	case "vlan":
		for kind, value := range nlmsg.Attributes(about) {
			if kind != vlanEgressQoS {
				continue
			}
			for _, mapping := range nlmsg.Attributes(value) { // struct ifla_vlan_qos_mapping: from, to
				l.sorts = l.sorts || number(pad(mapping, 8)[4:]) != 0
			}
		}
	}
}

func (l *linkFacts) decodeXDP(b []byte) {
	for kind, value := range nlmsg.Attributes(b) {
		switch {
		case kind == xdpProgram:
			l.program = number(value)
		case kind == xdpAttached && len(value) == 1 && value[0] == 0:
			l.program = 0
		}
	}
}

// mark is a number that tells links apart.
func (l *linkFacts) mark() uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write(binary.BigEndian.AppendUint64([]byte(l.name), uint64(l.ifindex))) // never fails
	return sum.Sum64()
}

// note notes what a link does. An XDP program on a port is the fast path's own, or keeps it off:
// one on a VLAN or a bridge, which the kernel runs behind the port's, does neither.
func (l *linkFacts) note(s *State) {
	s.Settings += l.settings
	if l.takes && l.below != 0 {
		s.ingress(l.below, Other, fmt.Sprintf("%s interface %s takes packets from it", l.kind, l.name))
	}
	if l.sorts {
		s.egress(l.ifindex, Other, "egress-qos-map writes priorities into VLAN tags")
	}
	if (l.kind == "vlan" || l.kind == "bridge") && l.program != 0 {
		s.ingress(l.ifindex, Other, fmt.Sprintf("XDP program %d on a %s interface", l.program, map[string]string{"vlan": "VLAN", "bridge": "bridge"}[l.kind]))
	}
}

// tcx asks for programs of tcx (Linux 6.6), which nothing announces or lists.
func (f *Follower) tcx(s *State, l linkFacts) error {
	if f.noTCX || !l.ethernet {
		return nil
	}
	for _, side := range []struct {
		attach ebpf.AttachType
		name   string
		note   func(int, Cause, string)
	}{{ebpf.AttachTCXIngress, "ingress", s.ingress}, {ebpf.AttachTCXEgress, "egress", s.egress}} {
		there, err := link.QueryPrograms(link.QueryOptions{Target: l.ifindex, Attach: side.attach})
		if err != nil {
			f.noTCX = unsupported(err)
			if f.noTCX || missing(err) { // the device has gone meanwhile
				return nil
			}
			return fmt.Errorf("tcx programs of %s: %w", l.name, err)
		}
		for _, p := range there.Programs {
			side.note(l.ifindex, Control, fmt.Sprintf("tcx program %d at %s", p.ID, side.name))
		}
	}
	return nil
}
