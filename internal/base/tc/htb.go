// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// Trees: htb (net/sched/sch_htb.c) with one class for each subscriber, all side by side, and a queue at each class. What no
// class is found for passes at once.

// A Class is one subscriber's: it sends at a rate, and after a silence a burst at once.
type Class struct {
	Minor uint16        // the lower half of its number; the upper is OwnHandle's
	Rate  uint64        // bytes/s
	Burst time.Duration // at that rate
}

// Leaf is the queue of a class: of kind cake, fq_codel, or "" for what htb puts there, a fifo.
type Leaf struct {
	Kind  string
	Cake  Cake  // of kind cake
	Codel Codel // of kind fq_codel
}

// Codel is how fq_codel is set.
type Codel struct {
	Target uint32 // µs that a queue may be long
	Limit  uint32 // packets that wait at most
	Flows  uint32 // queues among which connections are spread; it stays as it was made
}

// Same says whether the queue is set as wanted: the kernel counts time in units of 1024 ns.
func (l Leaf) Same(as Leaf) bool {
	const rounding = 2
	if d := int64(l.Codel.Target) - int64(as.Codel.Target); d > rounding || d < -rounding {
		return false
	}
	as.Codel.Target = l.Codel.Target
	return l == as
}

// ClassCounters are what a class has counted.
type ClassCounters struct {
	Bytes, Packets uint64
	Dropped        uint32 // packets that its queue did not take
	Waiting        uint32 // bytes
}

// ClassNow is a class as the kernel has it.
type ClassNow struct {
	Class
	Counters ClassCounters
}

// Attributes (TCA_HTB_, TCA_FQ_CODEL_).
const (
	htbParms   = 1
	htbInit    = 2
	htbDirect  = 5
	htbRate64  = 6
	htbCeil64  = 7
	htbVersion = 3
	htbOptLen  = 44 // struct tc_htb_opt

	directLimit = 1000 // packets of nobody's that wait at most
	linkLayer   = 1    // TC_LINKLAYER_ETHERNET: the kernel computes times itself
	tick        = 64   // ns
	quantum     = 3028 // bytes that a class sends in turn when the link itself is full: two full frames

	codelTarget = 1
	codelLimit  = 2
	codelECN    = 4
	codelFlows  = 5
	codelMemory = 9

	codelMostMemory = 4 << 20
)

// leafMajor is the handle of the queue of a class: every queue that is found by filters, counters and changes has one.
func leafMajor(minor uint16) uint32 { return (uint32(minor) | 0x8000) << 16 }

// classOf is the number of a class.
func classOf(minor uint16) uint32 { return OwnHandle | uint32(minor) }

// Minor is the class that a discipline is the queue of; 0 for none of Minne's.
func (d *Discipline) Minor() uint16 {
	if d.Parent == Root || d.Parent&0xffff0000 != OwnHandle {
		return 0
	}
	return uint16(d.Parent)
}

// Leaf is how a discipline is set that is the queue of a class.
func (d *Discipline) Leaf() Leaf { return Leaf{Kind: d.Kind, Cake: d.Cake, Codel: d.Codel} }

// attributes are kind and options; fresh is for a queue that is to be made.
func (l Leaf) attributes(fresh bool) []byte {
	if l.Kind == "cake" {
		return l.Cake.attributes()
	}
	o := nlmsg.AppendAttr32(nil, codelTarget, l.Codel.Target)
	o = nlmsg.AppendAttr32(o, codelLimit, l.Codel.Limit)
	o = nlmsg.AppendAttr32(o, codelECN, 1)
	o = nlmsg.AppendAttr32(o, codelMemory, codelMostMemory)
	if fresh {
		o = nlmsg.AppendAttr32(o, codelFlows, l.Codel.Flows)
	}
	return nlmsg.AppendAttr(nlmsg.AppendAttr(nil, attrKind, []byte("fq_codel\x00")), attrOptions|unix.NLA_F_NESTED, o)
}

func decodeCodel(options []byte) (c Codel) {
	for kind, value := range nlmsg.Attributes(options) {
		switch kind {
		case codelTarget:
			c.Target = number(value)
		case codelLimit:
			c.Limit = number(value)
		case codelFlows:
			c.Flows = number(value)
		}
	}
	return c
}

// A TreeChange is what is to be done to the tree of a link, in this order.
type TreeChange struct {
	Plant   bool    // put the tree in place of whatever the link sends through
	Whole   uint16  // with Plant: the class of all packets that no filter finds a class for; 0 for none
	Classes []Class // to be made, or changed in place
	Leaves  []LeafChange
	Remove  []uint16 // classes, with their queues
}

// LeafChange is a queue to be made, to be changed in place, or to be replaced by htb's own.
type LeafChange struct {
	Minor uint16
	Leaf  Leaf
	Fresh bool // it is made, in place of another one
}

// Change changes the tree of a link. Messages go to the kernel many at a time; what is not named loses no packet.
func (c TreeChange) Change(ctx context.Context, link int) error {
	var b batch
	if c.Plant {
		glob := native.AppendUint32(nil, htbVersion)
		glob = native.AppendUint32(glob, 10) // bytes of rate for a byte of quantum, for classes without one
		glob = native.AppendUint32(glob, uint32(c.Whole))
		glob = native.AppendUint64(glob, 0)
		o := nlmsg.AppendAttr32(nlmsg.AppendAttr(nil, htbInit, glob), htbDirect, directLimit)
		b.add(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, link, OwnHandle, Root,
			nlmsg.AppendAttr(nlmsg.AppendAttr(nil, attrKind, []byte("htb\x00")), attrOptions|unix.NLA_F_NESTED, o))
	}
	for _, class := range c.Classes {
		b.add(unix.RTM_NEWTCLASS, unix.NLM_F_CREATE, link, classOf(class.Minor), OwnHandle, class.attributes())
	}
	for _, l := range c.Leaves {
		switch {
		case l.Leaf.Kind == "":
			b.add(unix.RTM_DELQDISC, 0, link, leafMajor(l.Minor), classOf(l.Minor), nil)
		case l.Fresh:
			b.add(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, link, leafMajor(l.Minor), classOf(l.Minor), l.Leaf.attributes(true))
		default:
			b.add(unix.RTM_NEWQDISC, 0, link, leafMajor(l.Minor), classOf(l.Minor), l.Leaf.attributes(false))
		}
	}
	for _, minor := range c.Remove {
		b.add(unix.RTM_DELTCLASS, 0, link, classOf(minor), OwnHandle, nil)
	}
	return b.run(ctx)
}

func (c Class) attributes() []byte {
	low := uint32(min(c.Rate, math.MaxUint32))
	opt := make([]byte, htbOptLen)
	for _, at := range []int{0, 12} { // rate and ceil, struct tc_ratespec
		opt[at+1] = linkLayer
		native.PutUint32(opt[at+8:], low)
	}
	ticks := uint32(c.Burst / tick)
	native.PutUint32(opt[24:], ticks)
	native.PutUint32(opt[28:], ticks)
	native.PutUint32(opt[32:], quantum)
	o := nlmsg.AppendAttr(nil, htbParms, opt)
	if c.Rate > math.MaxUint32 {
		o = nlmsg.AppendAttr(o, htbRate64, native.AppendUint64(nil, c.Rate))
		o = nlmsg.AppendAttr(o, htbCeil64, native.AppendUint64(nil, c.Rate))
	}
	return nlmsg.AppendAttr(nlmsg.AppendAttr(nil, attrKind, []byte("htb\x00")), attrOptions|unix.NLA_F_NESTED, o)
}

// Same says whether the class is set as wanted: the kernel counts time in ticks.
func (c Class) Same(as Class) bool {
	d := c.Burst - as.Burst
	return c.Minor == as.Minor && c.Rate == as.Rate && d <= tick && d >= -tick
}

// Classes lists those of the tree of a link; none where there is no tree of Minne's.
func Classes(ctx context.Context, link int) (all []ClassNow, _ error) {
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	body := make([]byte, messageLen)
	native.PutUint32(body[4:], uint32(link))
	const tries = 10
	for range tries {
		all = all[:0]
		intact, err := s.Ask(ctx, unix.RTM_GETTCLASS, unix.NLM_F_DUMP, body, func(m nlmsg.Message) error {
			if c, ok := decodeClass(m.Body); ok {
				all = append(all, c)
			}
			return nil
		})
		if errors.Is(err, unix.ENODEV) {
			return nil, nil
		}
		if err != nil || intact {
			return all, err
		}
	}
	return nil, unix.EBUSY
}

func decodeClass(body []byte) (c ClassNow, ok bool) {
	if len(body) < messageLen || native.Uint32(body[8:])&0xffff0000 != OwnHandle {
		return c, false
	}
	c.Minor = uint16(native.Uint32(body[8:]))
	for kind, value := range nlmsg.Attributes(body[messageLen:]) {
		switch kind {
		case attrOptions:
			var wide uint64
			for kind, value := range nlmsg.Attributes(value) {
				switch kind {
				case htbParms:
					value = pad(value, htbOptLen)
					c.Rate, c.Burst = uint64(native.Uint32(value[8:])), time.Duration(native.Uint32(value[24:]))*tick
					if native.Uint32(value[20:]) != native.Uint32(value[8:]) || native.Uint32(value[28:]) != native.Uint32(value[24:]) {
						c.Burst = -1 // Minne's classes have the same twice
					}
				case htbRate64:
					wide = number64(value)
				}
			}
			c.Rate = max(c.Rate, wide)
		case attrStats2:
			for kind, value := range nlmsg.Attributes(value) {
				switch kind {
				case statsBasic:
					value = pad(value, 12)
					c.Counters.Bytes, c.Counters.Packets = native.Uint64(value), uint64(native.Uint32(value[8:]))
				case statsQueue:
					value = pad(value, 20)
					c.Counters.Waiting, c.Counters.Dropped = native.Uint32(value[4:]), native.Uint32(value[8:])
				}
			}
		}
	}
	return c, true
}

// Lacks says whether the kernel lacks a kind of discipline. It asks for one with options that no kernel takes.
func Lacks(kind string) (bool, error) {
	const loopback = 1
	var broken []byte
	switch kind {
	case "htb": // nothing of what it needs
	case "fq_codel":
		broken = nlmsg.AppendAttr(nil, codelTarget, []byte{1})
	case "cake":
		broken = nlmsg.AppendAttr(nil, cakeRate, []byte{1})
	default:
		return false, fmt.Errorf("queueing discipline %q is none that Minne uses", kind)
	}
	err := request(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, loopback, OwnHandle, Root,
		nlmsg.AppendAttr(nlmsg.AppendAttr(nil, attrKind, append([]byte(kind), 0)), attrOptions|unix.NLA_F_NESTED, broken))
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return true, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return false, nil
	case err == nil:
		return false, errors.Join(errors.New("the kernel took a queueing discipline that is none"), RemoveRoot(loopback))
	}
	return false, err
}
