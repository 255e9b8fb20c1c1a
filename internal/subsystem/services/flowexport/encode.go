// SPDX-License-Identifier: Apache-2.0

package flowexport

import (
	"encoding/binary"
	"time"

	"minne/internal/model/flowrecord"
)

const (
	// mostMessage is the largest message in bytes: with the headers of IPv6 and UDP in front it passes a line of 1500 bytes and
	// a tunnel on it.
	mostMessage = 1380
	// domain is the Observation Domain ID, or Source ID: one router is one.
	domain = 1

	ipfixHeader    = 16
	netflow9Header = 20
	setHeader      = 4
)

// encoder makes messages of records: IPFIX (RFC 7011, section 3) or NetFlow v9 (RFC 3954, section 5). All numbers are big-endian.
type encoder struct {
	netflow9  bool
	templates [kinds]*template
	send      func(message []byte) error
	now       func() time.Time

	sequence uint32    // IPFIX: of the next data record; NetFlow v9: of the next message
	booted   time.Time // NetFlow v9: what times are counted from

	message []byte
	set     int    // where in message the open set begins; 0: none is open
	kind    int    // of the records in it
	records uint16 // in the message, templates among them
	data    uint32 // of them, data records
}

// uptimes of NetFlow v9 are numbers of 32 bits, which end after 49 days. Times are counted from some days ago, long before the
// earliest time of a record, and anew when the number gets large: to a collector, the router has booted then.
const (
	uptimeAtStart = 3 * 24 * time.Hour
	uptimeAtMost  = 45 * 24 * time.Hour
)

func newEncoder(netflow9 bool, send func([]byte) error) *encoder {
	return &encoder{netflow9: netflow9, templates: templates(netflow9), send: send, now: time.Now}
}

func (e *encoder) begin() {
	size := ipfixHeader
	if e.netflow9 {
		size = netflow9Header
	}
	e.message, e.set, e.records, e.data = append(e.message[:0], make([]byte, size)...), 0, 0, 0
}

// closeSet writes the length of the open set. Those of NetFlow v9 end at a multiple of four bytes.
func (e *encoder) closeSet() {
	if e.set == 0 {
		return
	}
	for e.netflow9 && len(e.message)%4 != 0 {
		e.message = append(e.message, 0)
	}
	binary.BigEndian.PutUint16(e.message[e.set+2:], uint16(len(e.message)-e.set))
	e.set = 0
}

// openSet begins a set of an id.
func (e *encoder) openSet(id uint16) {
	e.closeSet()
	e.set = len(e.message)
	e.message = binary.BigEndian.AppendUint16(e.message, id)
	e.message = append(e.message, 0, 0)
}

// flush sends what there is of a message.
func (e *encoder) flush() error {
	if e.records == 0 {
		return nil
	}
	e.closeSet()
	be, b := binary.BigEndian, e.message
	if e.netflow9 {
		now := e.exported()
		be.PutUint16(b, 9)
		be.PutUint16(b[2:], e.records)
		be.PutUint32(b[4:], uint32(now.Sub(e.booted).Milliseconds()))
		be.PutUint32(b[8:], uint32(now.Unix()))
		be.PutUint32(b[12:], e.sequence)
		be.PutUint32(b[16:], domain)
		e.sequence++
	} else {
		be.PutUint16(b, 10)
		be.PutUint16(b[2:], uint16(len(b)))
		be.PutUint32(b[4:], uint32(e.now().Unix()))
		be.PutUint32(b[8:], e.sequence)
		be.PutUint32(b[12:], domain)
		e.sequence += e.data
	}
	e.records = 0
	return e.send(b)
}

// exported is the time of a message of NetFlow v9: the next whole second, so that all messages tell the same time of
// boot to the millisecond.
func (e *encoder) exported() time.Time {
	now := e.now()
	if e.booted.IsZero() || now.Sub(e.booted) > uptimeAtMost || now.Before(e.booted) {
		e.booted = now.Truncate(time.Second).Add(-uptimeAtStart)
	}
	return now.Truncate(time.Second).Add(time.Second)
}

// tellTemplates sends all templates, in a message of their own.
func (e *encoder) tellTemplates() error {
	if err := e.flush(); err != nil {
		return err
	}
	e.begin()
	id := uint16(2)
	if e.netflow9 {
		id = 0
	}
	e.openSet(id)
	be := binary.BigEndian
	for _, t := range e.templates {
		if t == nil {
			continue
		}
		e.message = be.AppendUint16(be.AppendUint16(e.message, t.id), uint16(len(t.elements)))
		for _, el := range t.elements {
			if el.vendor != 0 {
				e.message = be.AppendUint32(be.AppendUint16(be.AppendUint16(e.message, el.id|1<<15), el.length), el.vendor)
			} else {
				e.message = be.AppendUint16(be.AppendUint16(e.message, el.id), el.length)
			}
		}
		e.records++
	}
	return e.flush()
}

// add puts a record into the message, and sends the message before when it is full.
func (e *encoder) add(r *flowrecord.Record) error {
	f := flow{Record: r, source: r.Source, called: r.Called, seen: r.Seen, destination: r.Destination,
		in: r.In.Index, out: r.Out.Index, forward: 0, back: 1}
	if !e.netflow9 {
		return e.put(&f)
	}
	e.exported() // the time of boot
	uptime := func(t time.Time) uint32 { return uint32(max(t.Sub(e.booted).Milliseconds(), 0)) }
	f.first, f.last = uptime(r.From), uptime(r.To)
	if err := e.put(&f); err != nil || r.Packets[1] == 0 {
		return err
	}
	// The replies: who answers is the source, and calls what it sees.
	f.source, f.called, f.seen, f.destination = r.Destination, r.Seen, r.Called, r.Source
	f.in, f.out, f.forward, f.back = f.out, f.in, 1, 0
	return e.put(&f)
}

func (e *encoder) put(f *flow) error {
	kind := kindOf(f.Record)
	t := e.templates[kind]
	if e.records > 0 && len(e.message)+setHeader+t.length+3 > mostMessage {
		if err := e.flush(); err != nil {
			return err
		}
	}
	if e.records == 0 {
		e.begin()
	}
	if e.set == 0 || e.kind != kind {
		e.openSet(t.id)
		e.kind = kind
	}
	for _, el := range t.elements {
		e.message = el.put(e.message, f)
	}
	e.records++
	e.data++
	return nil
}
