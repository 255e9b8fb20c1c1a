// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/fastpath/flow"
)

// The kernel's connections, over ctnetlink (include/uapi/linux/netfilter/nfnetlink_conntrack.h).
// All integers of its attributes are in network byte order. The netlink library copies a dump as a whole and leaves out
// conntrack's status, so this reads it in pieces.

// Connection is one connection. Index 0 is the direction of who opened it, 1 the replies.
type Connection struct {
	Key      [2]flow.Key // as packets carry them when they come in: before translation
	Packets  [2]uint64
	Bytes    [2]uint64 // of IP packets, without link layer
	Counted  bool      // the kernel counts it (nf_conntrack_acct)
	Left     time.Duration
	FastPath bool      // the fast path knows it
	Label    string    // that patterns gave it; "" for none
	Repeated [2]uint64 // packets, among those above, that the fast path forwarded

	repeatedBytes [2]uint64
	began         int64  // ns since 1970; 0 when the kernel does not say (nf_conntrack_timestamp)
	ended         int64  // the same, of a connection that is no more
	status        uint32 // IPS_*
	tcp           uint8  // enum tcp_conntrack
}

// Bits of a connection's status (enum ip_conntrack_status).
const (
	seenReply = 1 << 1
	assured   = 1 << 2
	confirmed = 1 << 3
	dying     = 1 << 9
)

// Attributes and messages that the netlink library does not name.
const (
	getStatsCPU = 4 // IPCTNL_MSG_CT_GET_STATS_CPU
	protoICMP   = 4 // CTA_PROTO_ICMP_ID
	protoICMPv6 = 7 // CTA_PROTO_ICMPV6_ID
)

// ends are the addresses of the opener and the responder, where they are.
func (c *Connection) ends() (opener, responder place) {
	return place{c.table(), c.Key[0].Source}, place{c.table(), c.Key[1].Source}
}

// table is that of the VRF that the connection is in, 0 for the main table: it is the connection's zone in conntrack.
func (c *Connection) table() uint16 { return c.Key[0].Zone }

// generic is struct nfgenmsg for all address families.
var generic = []byte{unix.AF_UNSPEC, nl.NFNETLINK_V0, 0, 0}

func conntrackMessage(kind uint16) uint16 { return unix.NFNL_SUBSYS_CTNETLINK<<8 | kind }

// connections calls visit for each connection of the namespace. The value is used again for the next.
// While connections come and go, a few may be visited twice, as conntrack -L shows them.
func connections(ctx context.Context, visit func(*Connection)) error {
	s, err := nlmsg.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer s.Close()
	var c Connection
	_, err = s.Ask(ctx, conntrackMessage(nl.IPCTNL_MSG_CT_GET), unix.NLM_F_DUMP, generic, func(m nlmsg.Message) error {
		c = Connection{}
		if c.decode(m.Body) {
			visit(&c)
		}
		return nil
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil // conntrack is not loaded: no connection is known
	}
	if err != nil {
		return fmt.Errorf("read conntrack's connections: %w", err)
	}
	return nil
}

// decode reads a message. false: it is no connection, or one that is just ending.
func (c *Connection) decode(body []byte) bool {
	if len(body) < len(generic) {
		return false
	}
	zone := uint16(0)
	for kind, value := range nlmsg.Attributes(body[len(generic):]) {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			decodeTuple(value, &c.Key[0])
		case nl.CTA_TUPLE_REPLY:
			decodeTuple(value, &c.Key[1])
		case nl.CTA_COUNTERS_ORIG:
			c.decodeCounters(value, 0)
		case nl.CTA_COUNTERS_REPLY:
			c.decodeCounters(value, 1)
		case nl.CTA_STATUS:
			c.status = number32(value)
		case nl.CTA_ZONE:
			if len(value) == 2 {
				zone = binary.BigEndian.Uint16(value)
			}
		case nl.CTA_TIMEOUT:
			c.Left = time.Duration(number32(value)) * time.Second
		case nl.CTA_TIMESTAMP:
			c.decodeTimes(value)
		case nl.CTA_PROTOINFO:
			c.decodeProtocol(value)
		}
	}
	c.Key[0].Zone, c.Key[1].Zone = zone, zone
	return c.Key[0].Source.IsValid() && c.Key[1].Source.IsValid() && c.status&confirmed != 0 && c.status&dying == 0
}

func (c *Connection) decodeCounters(b []byte, direction int) {
	for kind, value := range nlmsg.Attributes(b) {
		switch {
		case len(value) != 8:
		case kind == nl.CTA_COUNTERS_PACKETS:
			c.Packets[direction], c.Counted = binary.BigEndian.Uint64(value), true
		case kind == nl.CTA_COUNTERS_BYTES:
			c.Bytes[direction] = binary.BigEndian.Uint64(value)
		}
	}
}

// decodeTimes reads when the connection began, and ended.
func (c *Connection) decodeTimes(b []byte) {
	for kind, value := range nlmsg.Attributes(b) {
		switch {
		case len(value) != 8:
		case kind == nl.CTA_TIMESTAMP_START:
			c.began = int64(binary.BigEndian.Uint64(value))
		case kind == nl.CTA_TIMESTAMP_STOP:
			c.ended = int64(binary.BigEndian.Uint64(value))
		}
	}
}

// decodeProtocol reads the state of TCP. Other protocols' are not told apart.
func (c *Connection) decodeProtocol(b []byte) {
	for kind, value := range nlmsg.Attributes(b) {
		if kind != nl.CTA_PROTOINFO_TCP {
			continue
		}
		for kind, value := range nlmsg.Attributes(value) {
			if kind == nl.CTA_PROTOINFO_TCP_STATE && len(value) == 1 {
				c.tcp = value[0]
			}
		}
	}
}

func decodeTuple(b []byte, k *flow.Key) {
	for kind, value := range nlmsg.Attributes(b) {
		switch kind {
		case nl.CTA_TUPLE_IP:
			for kind, value := range nlmsg.Attributes(value) {
				a, _ := netip.AddrFromSlice(value)
				switch kind {
				case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
					k.Source = a
				case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
					k.Destination = a
				}
			}
		case nl.CTA_TUPLE_PROTO:
			decodePorts(value, k)
		}
	}
}

// decodePorts reads protocol and ports; the id of an echo stands in both ports, as flow.Key has it.
func decodePorts(b []byte, k *flow.Key) {
	for kind, value := range nlmsg.Attributes(b) {
		switch {
		case kind == nl.CTA_PROTO_NUM && len(value) == 1:
			k.Protocol = value[0]
		case len(value) != 2:
		case kind == nl.CTA_PROTO_SRC_PORT:
			k.SourcePort = binary.BigEndian.Uint16(value)
		case kind == nl.CTA_PROTO_DST_PORT:
			k.DestinationPort = binary.BigEndian.Uint16(value)
		case kind == protoICMP, kind == protoICMPv6:
			k.SourcePort = binary.BigEndian.Uint16(value)
			k.DestinationPort = k.SourcePort
		}
	}
}

func number32(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Trouble is what conntrack could not do, since the namespace began.
type Trouble struct {
	Invalid      uint64 `json:"invalid"`       // packets that fit no connection
	InsertFailed uint64 `json:"insert_failed"` // connections that lost against another with the same addresses and ports
	Dropped      uint64 `json:"dropped"`       // packets for want of room or memory
	EarlyDropped uint64 `json:"early_dropped"` // connections ended before their time, to make room
}

// Attributes of IPCTNL_MSG_CT_GET_STATS_CPU (enum ctattr_stats_cpu).
const (
	statsInvalid      = 4
	statsInsertFailed = 9
	statsDrop         = 10
	statsEarlyDrop    = 11
)

// Troubles is what conntrack could not do until now; all zero where it is not loaded.
func Troubles(ctx context.Context) (Trouble, error) { return trouble(ctx) }

// trouble adds up what all CPUs have counted.
func trouble(ctx context.Context) (t Trouble, err error) {
	s, err := nlmsg.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return t, err
	}
	defer s.Close()
	_, err = s.Ask(ctx, conntrackMessage(getStatsCPU), unix.NLM_F_DUMP, generic, func(m nlmsg.Message) error {
		for kind, value := range nlmsg.Attributes(m.Body[min(len(generic), len(m.Body)):]) {
			switch n := uint64(number32(value)); kind {
			case statsInvalid:
				t.Invalid += n
			case statsInsertFailed:
				t.InsertFailed += n
			case statsDrop:
				t.Dropped += n
			case statsEarlyDrop:
				t.EarlyDropped += n
			}
		}
		return nil
	})
	if err != nil {
		return t, fmt.Errorf("read conntrack's statistics: %w", err)
	}
	return t, nil
}
