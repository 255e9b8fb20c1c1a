// SPDX-License-Identifier: Apache-2.0

package flowexport

import (
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/flowrecord"
)

// element is a field of a template: an information element of IPFIX (IANA's registry; RFC 5103 for those of the replies, RFC 8158 for
// those of translations), or a field type of NetFlow v9 (RFC 3954, section 8), which has the same numbers.
type element struct {
	id     uint16
	length uint16
	vendor uint32 // private enterprise number, 0 for none
	put    func(b []byte, f *flow) []byte
}

// flow is a record as one template sees it: for NetFlow v9, the replies are a flow of their own.
type flow struct {
	*flowrecord.Record
	source, called, seen, destination flowrecord.End
	in, out                           uint32 // links
	forward, back                     int    // which of Packets and Bytes
	first, last                       uint32 // NetFlow v9: milliseconds of the router's uptime
}

// template is how records of one kind are laid out.
type template struct {
	id       uint16
	elements []element
	length   int // of a record, in bytes
}

// reverse is the enterprise number under which an element is about the replies (RFC 5103, section 6.1).
const reverse = 29305

// Which template a record has. The number of a template is firstTemplate and this.
const (
	kindSix        = 1 << iota // IPv6
	kindTranslated             // others saw other addresses or ports
	kindFreed                  // with it: the translation has ended
	kinds
	firstTemplate = 256
)

func kindOf(r *flowrecord.Record) (k int) {
	if r.Source.Addr().Is6() {
		k |= kindSix
	}
	if source, destination := r.Translated(); source || destination {
		k |= kindTranslated
		if r.Reason != flowrecord.Lasts {
			k |= kindFreed
		}
	}
	return k
}

func number[T uint8 | uint16 | uint32 | uint64](id uint16, of func(f *flow) T) element {
	var none T
	size := uint16(binary.Size(none))
	return element{id: id, length: size, put: func(b []byte, f *flow) []byte {
		v := uint64(of(f))
		for i := int(size) - 1; i >= 0; i-- {
			b = append(b, byte(v>>(8*i)))
		}
		return b
	}}
}

func address(id uint16, six bool, of func(f *flow) netip.Addr) element {
	e := element{id: id, length: 4, put: func(b []byte, f *flow) []byte { a := of(f).As4(); return append(b, a[:]...) }}
	if six {
		e.length, e.put = 16, func(b []byte, f *flow) []byte { a := of(f).As16(); return append(b, a[:]...) }
	}
	return e
}

func ofVendor(vendor uint32, e element) element {
	e.vendor = vendor
	return e
}

func milliseconds(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) }

// calledPort is the destination's port. The two ports of an ICMP echo are its id: the destination of IPFIX has type and
// code there, of which the log knows nothing.
func calledPort(f *flow, e flowrecord.End) uint16 {
	if f.Protocol == unix.IPPROTO_ICMP || f.Protocol == unix.IPPROTO_ICMPV6 {
		return 0
	}
	return e.Port()
}

// templates are those of a protocol.
func templates(netflow9 bool) (list [kinds]*template) {
	for k := range list {
		if k&kindFreed != 0 && k&kindTranslated == 0 {
			continue
		}
		t := &template{id: firstTemplate + uint16(k), elements: elements(k, netflow9)}
		for _, e := range t.elements {
			t.length += int(e.length)
		}
		list[k] = t
	}
	return list
}

func elements(kind int, netflow9 bool) []element {
	six := kind&kindSix != 0
	pick := func(four, other uint16) uint16 {
		if six {
			return other
		}
		return four
	}
	var list []element
	if netflow9 {
		list = append(list,
			number(22, func(f *flow) uint32 { return f.first }), // FIRST_SWITCHED
			number(21, func(f *flow) uint32 { return f.last }))  // LAST_SWITCHED
	} else {
		list = append(list,
			number(152, func(f *flow) uint64 { return milliseconds(f.From) }), // flowStartMilliseconds
			number(153, func(f *flow) uint64 { return milliseconds(f.To) }))   // flowEndMilliseconds
	}
	list = append(list,
		address(pick(8, 27), six, func(f *flow) netip.Addr { return f.source.Addr() }),  // sourceIPv4Address, sourceIPv6Address
		address(pick(12, 28), six, func(f *flow) netip.Addr { return f.called.Addr() }), // destinationIPv4Address, destinationIPv6Address
		number(7, func(f *flow) uint16 { return f.source.Port() }),                      // sourceTransportPort
		number(11, func(f *flow) uint16 { return calledPort(f, f.called) }),             // destinationTransportPort
		number(4, func(f *flow) uint8 { return f.Protocol }),                            // protocolIdentifier
		number(10, func(f *flow) uint32 { return f.in }),                                // ingressInterface
		number(14, func(f *flow) uint32 { return f.out }),                               // egressInterface
		number(1, func(f *flow) uint64 { return f.Bytes[f.forward] }),                   // octetDeltaCount
		number(2, func(f *flow) uint64 { return f.Packets[f.forward] }),                 // packetDeltaCount
	)
	if !netflow9 {
		list = append(list,
			ofVendor(reverse, number(1, func(f *flow) uint64 { return f.Bytes[f.back] })),
			ofVendor(reverse, number(2, func(f *flow) uint64 { return f.Packets[f.back] })),
			number(239, func(*flow) uint8 { return 1 }),                     // biflowDirection: the source has opened it
			number(136, func(f *flow) uint8 { return endReason(f.Reason) }), // flowEndReason
			number(234, func(f *flow) uint32 { return uint32(f.Table) }))    // ingressVRFID
	}
	if kind&kindTranslated == 0 {
		return list
	}
	list = append(list,
		address(pick(225, 281), six, func(f *flow) netip.Addr { return f.seen.Addr() }),        // postNATSourceIPv4Address, …IPv6Address
		address(pick(226, 282), six, func(f *flow) netip.Addr { return f.destination.Addr() }), // postNATDestinationIPv4Address, …IPv6Address
		number(227, func(f *flow) uint16 { return f.seen.Port() }),                             // postNAPTSourceTransportPort
		number(228, func(f *flow) uint16 { return calledPort(f, f.destination) }))              // postNAPTDestinationTransportPort
	if kind&kindFreed != 0 && !six && !netflow9 { // no event is registered for IPv6 to IPv6
		list = append(list, number(230, func(*flow) uint8 { return 5 })) // natEvent: NAT44 session delete
	}
	return list
}

// endReason is flowEndReason (RFC 5102, section 5.11.3).
func endReason(r flowrecord.Reason) uint8 {
	switch r {
	case flowrecord.Lasts:
		return 2 // active timeout
	case flowrecord.Closed, flowrecord.Reset:
		return 3 // end of flow detected
	case flowrecord.Deleted:
		return 4 // forced end
	default:
		return 1 // idle timeout
	}
}
