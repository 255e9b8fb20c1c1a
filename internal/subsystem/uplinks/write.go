// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// What stands in the kernel for uplinks.
const (
	Group        = 7777       // of the interfaces whose routes are passed over
	Table        = 3000000077 // that is asked instead; above those of VRFs
	priorityPass = 32100      // of the rule for main
	priorityBack = 32101      // of the rule for Table

	protocol = 0x4d // RTPROT_ value and that of rules: Minne
)

// Attributes that golang.org/x/sys/unix does not name (FRA_).
const (
	fraPriority        = 6
	fraSuppressIfGroup = 13
	fraTable           = 15
	fraProtocol        = 21
)

var native = binary.NativeEndian

var families = [2]uint8{unix.AF_INET, unix.AF_INET6}

func whichOf(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// route is one of Table or of an uplink's table: a default route (Prefix is zero) or a network on a link.
type route struct {
	Table   uint32 // 0 for Table
	Prefix  netip.Prefix
	Gateway netip.Addr // invalid: the link itself
	Index   int        // interface
}

// messages are to be written at once.
type messages struct {
	b     []byte
	count int
}

// add appends one message, to be acknowledged.
func (m *messages) add(kind, flags uint16, body []byte) {
	m.count++
	m.b = nlmsg.Append(m.b, kind, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK, uint32(m.count), body)
	for len(m.b)%4 != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *messages) rule(add bool, family uint8, pass bool) {
	const toTable = 1 // FR_ACT_TO_TBL
	body := make([]byte, 12)
	body[0], body[7] = family, toTable
	if pass {
		body = nlmsg.AppendAttr32(body, fraPriority, priorityPass)
		body = nlmsg.AppendAttr32(body, fraTable, unix.RT_TABLE_MAIN)
		body = nlmsg.AppendAttr32(body, fraSuppressIfGroup, Group)
	} else {
		body = nlmsg.AppendAttr32(body, fraPriority, priorityBack)
		body = nlmsg.AppendAttr32(body, fraTable, Table)
	}
	if !add {
		m.add(unix.RTM_DELRULE, 0, body)
		return
	}
	body = nlmsg.AppendAttr(body, fraProtocol, []byte{protocol})
	m.add(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
}

func (m *messages) route(add bool, which int, r route) {
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[5] = families[which], protocol
	body[7] = unix.RTN_UNICAST
	if r.Prefix.IsValid() {
		body[1] = uint8(r.Prefix.Bits())
		body = nlmsg.AppendAttr(body, unix.RTA_DST, r.Prefix.Addr().AsSlice())
	}
	if !r.Gateway.IsValid() && which == 0 {
		body[6] = unix.RT_SCOPE_LINK
	}
	if r.Gateway.IsValid() {
		native.PutUint32(body[8:], unix.RTNH_F_ONLINK)
		body = nlmsg.AppendAttr(body, unix.RTA_GATEWAY, r.Gateway.AsSlice())
	}
	body = nlmsg.AppendAttr32(body, unix.RTA_TABLE, cmp.Or(r.Table, Table))
	body = nlmsg.AppendAttr32(body, unix.RTA_OIF, uint32(r.Index))
	if which == 1 {
		body = nlmsg.AppendAttr32(body, unix.RTA_PRIORITY, 1024)
	}
	if add {
		m.add(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, body)
		return
	}
	body[5], body[6] = 0, 0
	if which == 0 {
		body[6] = unix.RT_SCOPE_NOWHERE
	}
	m.add(unix.RTM_DELROUTE, 0, body)
}

func (m *messages) group(index int, group uint32) {
	body := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(body[4:], uint32(index))
	m.add(unix.RTM_SETLINK, 0, nlmsg.AppendAttr32(body, unix.IFLA_GROUP, group))
}

// write hands all messages to the kernel in one call, and returns what it refused. What is there already, or gone already, is
// as it was to be.
func (m *messages) write() error {
	if m.count == 0 {
		return nil
	}
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE, unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Send(m.b); err != nil {
		return err
	}
	var failed []error
	for answers := 0; answers < m.count; {
		b, err := s.Receive()
		if err != nil {
			return err
		}
		for len(b) > 0 {
			var a nlmsg.Message
			if a, b, err = nlmsg.Next(b); err != nil {
				return err
			}
			if a.Type != unix.NLMSG_ERROR {
				continue
			}
			answers++
			err := a.Err()
			for _, harmless := range []error{unix.EEXIST, unix.ENOENT, unix.ESRCH, unix.ENODEV} {
				if errors.Is(err, harmless) {
					err = nil
				}
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("message %d of %d: %w", a.Seq, m.count, err))
			}
		}
	}
	return errors.Join(failed...)
}
