// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/fastpath/flow"
)

// Single questions to the kernel, about the connection that a packet is of.

// Bits of a connection's status that say that more than addresses changes, or that it is no ordinary one.
const (
	seqAdjust = 1 << 6
	template  = 1 << 11
	untracked = 1 << 12
	helper    = 1 << 13
	offload   = 1 << 14
)

// Asker asks the kernel about single connections. Not for several goroutines at once.
type Asker struct{ s *nlmsg.Socket }

// Close ends the asking. An Asker that is used again opens another socket.
func (a *Asker) Close() {
	if a.s != nil {
		a.s.Close()
		a.s = nil
	}
}

// Carriable returns the keys of both directions of the connection whose packets have a key, in either of them; ok when it
// is established both ways and nothing but addresses and ids changes in its packets. Protocols are all but those that have
// ports; of ICMP it is echo.
func (a *Asker) Carriable(ctx context.Context, k flow.Key) (keys [2]flow.Key, ok bool, err error) {
	if a.s == nil {
		if a.s, err = nlmsg.Dial(unix.NETLINK_NETFILTER); err != nil {
			return keys, false, err
		}
	}
	var c Connection
	found := false
	_, err = a.s.Ask(ctx, conntrackMessage(nl.IPCTNL_MSG_CT_GET), 0, askFor(k), func(m nlmsg.Message) error {
		c = Connection{}
		found = c.decode(m.Body)
		return nil
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return keys, false, nil // no such connection, or no conntrack
	case err != nil:
		a.Close() // an answer that comes late is not the next question's
		return keys, false, fmt.Errorf("ask the kernel for a connection: %w", err)
	}
	if isEcho(k.Protocol) {
		c.Key[1].EchoReply = true
	}
	ok = found && c.status&seenReply != 0 && c.status&(seqAdjust|template|untracked|helper|offload) == 0 &&
		(k == c.Key[0] || k == c.Key[1])
	return c.Key, ok, nil
}

func isEcho(protocol uint8) bool {
	return protocol == unix.IPPROTO_ICMP || protocol == unix.IPPROTO_ICMPV6
}

// askFor is the body of a question for the connection of a key.
func askFor(k flow.Key) []byte {
	body := []byte{unix.AF_INET, nl.NFNETLINK_V0, 0, 0}
	src, dst := uint16(nl.CTA_IP_V4_SRC), uint16(nl.CTA_IP_V4_DST)
	if k.Source.Is6() {
		body[0], src, dst = unix.AF_INET6, nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	addresses := nlmsg.AppendAttr(nlmsg.AppendAttr(nil, src, k.Source.AsSlice()), dst, k.Destination.AsSlice())
	proto := nlmsg.AppendAttr(nil, nl.CTA_PROTO_NUM, []byte{k.Protocol})
	number := binary.BigEndian.AppendUint16(nil, k.SourcePort)
	switch k.Protocol {
	case unix.IPPROTO_ICMP:
		proto = appendEcho(proto, number, protoICMP, echoType(k, 8, 0))
	case unix.IPPROTO_ICMPV6:
		proto = appendEcho(proto, number, protoICMPv6, echoType(k, 128, 129))
	default: // GRE wants ports, which are 0; protocols that conntrack has no words for take no notice
		proto = nlmsg.AppendAttr(proto, nl.CTA_PROTO_SRC_PORT, number)
		proto = nlmsg.AppendAttr(proto, nl.CTA_PROTO_DST_PORT, binary.BigEndian.AppendUint16(nil, k.DestinationPort))
	}
	tuple := nlmsg.AppendAttr(nil, nl.CTA_TUPLE_IP|unix.NLA_F_NESTED, addresses)
	tuple = nlmsg.AppendAttr(tuple, nl.CTA_TUPLE_PROTO|unix.NLA_F_NESTED, proto)
	body = nlmsg.AppendAttr(body, nl.CTA_TUPLE_ORIG|unix.NLA_F_NESTED, tuple)
	if k.Zone != 0 { // without it, the zone is 0
		body = nlmsg.AppendAttr(body, nl.CTA_ZONE, binary.BigEndian.AppendUint16(nil, k.Zone))
	}
	return body
}

func echoType(k flow.Key, request, reply byte) byte {
	if k.EchoReply {
		return reply
	}
	return request
}

// appendEcho appends id, type and code of an echo. The numbers of the three attributes follow each other.
func appendEcho(b, id []byte, first uint16, kind byte) []byte {
	b = nlmsg.AppendAttr(b, first, id)
	b = nlmsg.AppendAttr(b, first+1, []byte{kind})
	return nlmsg.AppendAttr(b, first+2, []byte{0})
}
