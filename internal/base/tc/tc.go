// SPDX-License-Identifier: Apache-2.0

// Package tc reads and sets queueing disciplines (linux/pkt_sched.h), of which vishvananda/netlink does not know cake, and
// redirects what a link receives to another one.
//
// What Minne puts in place carries marks, so that a new daemon knows it: OwnHandle of a discipline, OwnPriority of a filter.
package tc

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

var native = binary.NativeEndian

// The marks of what Minne puts in place: "Mi", as the group of its links.
const (
	OwnHandle   uint32 = 0x4d69 << 16 // of a discipline, 4d69: in tc's words
	OwnPriority uint16 = 0x4d69       // of a filter
)

// Root is the parent of the discipline that a link sends through.
const Root uint32 = 0xffffffff

// Attributes of disciplines (TCA_) and of their counters (TCA_STATS_).
const (
	messageLen = 20 // struct tcmsg

	attrKind    = 1
	attrOptions = 2
	attrStats2  = 7

	statsBasic = 1
	statsQueue = 3
	statsApp   = 4
)

// Discipline is one queueing discipline as the kernel has it.
type Discipline struct {
	Link           int
	Handle, Parent uint32
	Kind           string
	Cake           Cake   // of kind cake
	Codel          Codel  // of kind fq_codel
	Default        uint16 // of kind htb: the class of what no filter finds one for
	Counters       Counters
}

// Own says whether Minne put the discipline in place.
func (d *Discipline) Own() bool { return d.Handle == OwnHandle }

// Foreign says whether somebody put the discipline in place: the kernel's defaults have no handle.
func (d *Discipline) Foreign() bool { return d.Handle>>16 != 0 && !d.Own() }

// Counters are what a discipline has counted since it was put in place.
type Counters struct {
	Bytes, Packets uint64
	Dropped        uint32
	Waiting        uint32 // bytes
	Marked         uint32 // packets, of fq_codel
	Tins           []Tin  // of cake: classes by priority, the lowest first
}

// Disciplines lists those of all links. A kernel without traffic control has none.
func Disciplines(ctx context.Context) ([]Discipline, error) {
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	const tries = 10 // how often a list is read again that changed while it was read
	for range tries {
		var all []Discipline
		intact, err := s.Ask(ctx, unix.RTM_GETQDISC, unix.NLM_F_DUMP, make([]byte, messageLen), func(m nlmsg.Message) error {
			if d, ok := decode(m.Body); ok {
				all = append(all, d)
			}
			return nil
		})
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
			return nil, nil
		}
		if err != nil || intact {
			return all, err
		}
	}
	return nil, unix.EBUSY
}

func decode(body []byte) (d Discipline, ok bool) {
	if len(body) < messageLen {
		return d, false
	}
	d = Discipline{Link: int(int32(native.Uint32(body[4:]))), Handle: native.Uint32(body[8:]), Parent: native.Uint32(body[12:])}
	var options, app []byte
	for kind, value := range nlmsg.Attributes(body[messageLen:]) {
		switch kind {
		case attrKind:
			d.Kind = unix.ByteSliceToString(value)
		case attrOptions:
			options = value
		case attrStats2:
			for kind, value := range nlmsg.Attributes(value) {
				switch kind {
				case statsBasic: // struct gnet_stats_basic
					value = pad(value, 12)
					d.Counters.Bytes, d.Counters.Packets = native.Uint64(value), uint64(native.Uint32(value[8:]))
				case statsQueue: // struct gnet_stats_queue: packets, bytes, drops, requeues, overlimits
					value = pad(value, 20)
					d.Counters.Waiting, d.Counters.Dropped = native.Uint32(value[4:]), native.Uint32(value[8:])
				case statsApp:
					app = value
				}
			}
		}
	}
	switch d.Kind {
	case "cake":
		d.Cake = decodeCake(options)
		d.Counters.Tins = decodeTins(app)
	case "fq_codel":
		d.Codel = decodeCodel(options)
		d.Counters.Marked = native.Uint32(pad(app, 16)[12:]) // struct tc_fq_codel_xstats
	case "htb":
		for kind, value := range nlmsg.Attributes(options) {
			if kind == htbInit {
				d.Default = uint16(native.Uint32(pad(value, 12)[8:])) // struct tc_htb_glob
			}
		}
	}
	return d, d.Kind != ""
}

// pad returns b with at least so many bytes.
func pad(b []byte, length int) []byte {
	if len(b) >= length {
		return b
	}
	return append(slices.Clone(b), make([]byte, length-len(b))...)
}

func number(b []byte) uint32   { return native.Uint32(pad(b, 4)) }
func number64(b []byte) uint64 { return native.Uint64(pad(b, 8)) }

// request sends one message about a discipline and waits for the acknowledgement.
func request(kind, flags uint16, link int, handle, parent uint32, attributes []byte) error {
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE, unix.NETLINK_EXT_ACK)
	if err != nil {
		return err
	}
	defer s.Close()
	body := make([]byte, messageLen, messageLen+len(attributes))
	native.PutUint32(body[4:], uint32(link))
	native.PutUint32(body[8:], handle)
	native.PutUint32(body[12:], parent)
	_, err = s.Ask(context.Background(), kind, flags|unix.NLM_F_ACK, append(body, attributes...), func(nlmsg.Message) error { return nil })
	return err
}

// RemoveRoot removes the discipline that a link sends through; the kernel puts its default in place.
func RemoveRoot(link int) error {
	err := request(unix.RTM_DELQDISC, 0, link, 0, Root, nil)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil // it is gone
	}
	return err
}
