// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/tc"
)

// Traffic control (tc): filters on what comes in, filters and queueing disciplines on what leaves.
//
// A discipline that only says which packet waits when the link is busy leaves each packet as it
// is; the defaults of all distributions are such. The fast path has the driver's queue instead. One
// that shapes, delays, drops, marks or sorts by class was put there for that, and is the kernel's.

// queues are disciplines that only queue. mq and multiq's relatives have one of these per queue of
// the card.
var queues = []string{"noqueue", "noop", "mq", "pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast", "fq", "fq_codel", "codel", "fq_pie", "pie", "sfq"}

// Handles and attributes (linux/pkt_sched.h, linux/rtnetlink.h).
const (
	tcLength = 20 // struct tcmsg

	tcKind         = 1
	tcOptions      = 2
	tcIngressBlock = 13
	tcEgressBlock  = 14

	tcRoot          = 0xffffffff
	tcIngressFilter = 0xfffffff2
	tcEgressFilter  = 0xfffffff3

	fqMaxRate = 7 // TCA_FQ_FLOW_MAX_RATE, bytes/s of each flow

)

// discipline is one queueing discipline of a device.
type discipline struct {
	ifindex        int
	handle, parent uint32
	kind           string
	ingress        uint32 // blocks that it shares with others
	egress         uint32
	rate           uint32 // of fq, bytes/s of each flow; none is all ones
}

// readControl finds what traffic control does.
func readControl() (State, error) {
	var s State
	var all []discipline
	err := dump(unix.NETLINK_ROUTE, unix.RTM_GETQDISC, make([]byte, tcLength), func(body []byte) {
		if d, ok := decodeDiscipline(body); ok {
			all = append(all, d)
		}
	})
	if missing(err) {
		return State{}, nil // a kernel without traffic control
	}
	if err != nil {
		return State{}, err
	}
	for _, d := range all {
		if err := d.note(&s, filtersAt); err != nil {
			return State{}, err
		}
	}
	return s, nil
}

func decodeDiscipline(body []byte) (d discipline, ok bool) {
	if len(body) < tcLength {
		return d, false
	}
	d = discipline{ifindex: int(int32(native.Uint32(body[4:]))), handle: native.Uint32(body[8:]), parent: native.Uint32(body[12:]), rate: math.MaxUint32}
	var options []byte
	for kind, value := range nlmsg.Attributes(body[tcLength:]) {
		switch kind {
		case tcKind:
			d.kind = text(value)
		case tcOptions:
			options = value
		case tcIngressBlock:
			d.ingress = number(value)
		case tcEgressBlock:
			d.egress = number(value)
		}
	}
	if d.kind == "fq" {
		for kind, value := range nlmsg.Attributes(options) {
			if kind == fqMaxRate {
				d.rate = number(value)
			}
		}
	}
	return d, true
}

// attached is which filters there are at a place: the one that leads what a shaped line brings to its shaper, and those of others.
type attached struct{ own, others bool }

// note notes what a discipline does to packets. filters says which there are at a place.
func (d *discipline) note(s *State, filters func(ifindex int, parent uint32) (attached, error)) error {
	at := func(parent, block uint32, note func(int, Cause, string), words string) error {
		there, err := attached{others: block != 0}, error(nil)
		if !there.others {
			there, err = filters(d.ifindex, parent)
		}
		if there.own {
			note(d.ifindex, Shape, "shape down")
		}
		if there.others {
			note(d.ifindex, Control, words)
		}
		return err
	}
	switch {
	case d.handle == tc.OwnHandle && d.kind == "cake":
		s.egress(d.ifindex, Shape, "shape up")
		return nil
	case d.handle == tc.OwnHandle && d.kind == "htb":
		s.egress(d.ifindex, Shape, "plans of subscribers")
		return nil
	case d.parent != tcRoot && d.parent&0xffff0000 == tc.OwnHandle:
		return nil // a subscriber's queue
	}
	if d.kind == "ingress" || d.kind == "clsact" {
		if err := at(tcIngressFilter, d.ingress, s.ingress, "tc filter at ingress"); err != nil || d.kind == "ingress" {
			return err
		}
		return at(tcEgressFilter, d.egress, s.egress, "tc filter at egress")
	}
	if !slices.Contains(queues, d.kind) {
		s.egress(d.ifindex, Control, "queueing discipline "+d.kind)
		return nil
	}
	if d.rate != math.MaxUint32 {
		s.egress(d.ifindex, Control, fmt.Sprintf("queueing discipline %s with maxrate", d.kind))
		return nil
	}
	parent := d.handle
	if d.parent == tcRoot {
		parent = 0 // the default one has no handle
	} else if parent == 0 {
		return nil // nor can a filter find it
	}
	return at(parent, 0, s.egress, "tc filter on queueing discipline "+d.kind)
}

// filtersAt asks the kernel which filters there are at a place.
func filtersAt(ifindex int, parent uint32) (there attached, _ error) {
	request := make([]byte, tcLength)
	native.PutUint32(request[4:], uint32(ifindex))
	native.PutUint32(request[12:], parent)
	err := dump(unix.NETLINK_ROUTE, unix.RTM_GETTFILTER, request, func(body []byte) {
		own := uint16(native.Uint32(pad(body, tcLength)[16:])>>16) == tc.OwnPriority
		there.own, there.others = there.own || own, there.others || !own
	})
	if missing(err) {
		return attached{}, nil // it takes no filters
	}
	return there, err
}
