// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"minne/internal/lab/histogram"
)

// Room of a sink before it is told what to expect, in streams: latencies take 16 KB each and CPU.
const (
	roomStreams = 16
	roomTimed   = 2
)

// Sink counts the streams that arrive on its ports. It may be used by several goroutines.
type Sink struct {
	mu       sync.Mutex // guards all below
	objs     sinkObjects
	ports    []*attached
	expected map[uint8]slot
	all      bool // take frames of others too
}

// slot is where in the counters a stream is.
type slot struct {
	arrival, latency int
	timed            bool
}

// What a sink needs of the object file.
type sinkObjects struct {
	Sink         *ebpf.Program  `ebpf:"sink"`
	Arrivals     *ebpf.Map      `ebpf:"arrivals"`
	Latencies    *ebpf.Map      `ebpf:"latencies"`
	Others       *ebpf.Map      `ebpf:"others"`
	Expectations *ebpf.Variable `ebpf:"expectations"`
	LastSeen     *ebpf.Variable `ebpf:"last_seen"`
	TakeOthers   *ebpf.Variable `ebpf:"take_others"`
}

func (o *sinkObjects) close() error {
	return errors.Join(o.Sink.Close(), o.Arrivals.Close(), o.Latencies.Close(), o.Others.Close())
}

// NewSink loads the sink's program. The caller closes it.
func NewSink() (*Sink, error) {
	s := &Sink{expected: map[uint8]slot{}}
	return s, s.load(roomStreams, roomTimed)
}

// load brings the program into the kernel with so much room, in place of the
// present one on all ports.
func (s *Sink) load(streams, timed int) error {
	var objs sinkObjects
	err := loadWith(&objs, nil, "", func(spec *ebpf.CollectionSpec) error {
		spec.Maps[labMapArrivals].MaxEntries = uint32(streams)
		spec.Maps[labMapLatencies].MaxEntries = uint32(timed)
		return nil
	})
	if err != nil {
		return fmt.Errorf("load packet sink: %w", err)
	}
	for _, p := range s.ports {
		if err := p.link.Update(objs.Sink); err != nil {
			objs.close()
			return fmt.Errorf("replace packet sink of port %d: %w", p.ifindex, err)
		}
	}
	old := s.objs
	s.objs = objs
	if old.Sink != nil {
		if err := old.close(); err != nil {
			return err
		}
	}
	return s.objs.TakeOthers.Set(uint32(bit(s.all)))
}

// Attach starts to take the lab's packets out of what arrives on a port. All
// else passes. The calling thread must be in the port's namespace. A port on
// which there already is an XDP program is left as it is.
func (s *Sink) Attach(ifindex int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := attach(s.objs.Sink, ifindex)
	if err != nil {
		return fmt.Errorf("attach packet sink: %w", err)
	}
	s.ports = append(s.ports, a)
	return nil
}

// Receive says how frames of an attached port come to the sink: "XDP native", or
// "XDP generic" where the driver has no XDP and the kernel makes up for it at a cost.
func (s *Sink) Receive(ifindex int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.ports, func(a *attached) bool { return a.ifindex == ifindex })
	if i < 0 {
		return ""
	}
	return s.ports[i].mode
}

// TakeAll sets whether IP packets that are not the lab's are dropped once they are counted,
// so that the kernel does not answer what is replayed. ARP and neighbour discovery always pass.
func (s *Sink) TakeAll(on bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = on
	return s.objs.TakeOthers.Set(uint32(bit(on)))
}

// ExpectStreams forgets all counters and sets what is expected from now on.
func (s *Sink) ExpectStreams(streams map[uint8]Expect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	timed := 0
	for _, e := range streams {
		timed += int(bit(e.Timed))
	}
	if len(streams) > int(s.objs.Arrivals.MaxEntries()) || timed > int(s.objs.Latencies.MaxEntries()) {
		if err := s.load(max(roomStreams, len(streams)), max(roomTimed, timed)); err != nil {
			return err
		}
	}
	var expectations [256]labExpectation
	if err := s.objs.Expectations.Set(&expectations); err != nil { // what comes meanwhile is nobody's
		return fmt.Errorf("packet sink: %w", err)
	}
	s.expected = map[uint8]slot{}
	for id, e := range streams {
		where := slot{arrival: len(s.expected), timed: e.Timed}
		if e.Timed {
			timed--
			where.latency = timed
		}
		if err := s.clear(id, where); err != nil {
			return err
		}
		s.expected[id] = where
		expectations[id] = e.expectation(where.arrival, where.latency)
	}
	if err := s.clearOthers(); err != nil {
		return err
	}
	if err := s.objs.Expectations.Set(&expectations); err != nil {
		return fmt.Errorf("packet sink: %w", err)
	}
	return nil
}

// Expect forgets what was counted of one stream and sets what is expected of it
// from now on. Other streams go on; there is room for a few.
func (s *Sink) Expect(stream int, e Expect) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stream < 0 || stream > 255 {
		return fmt.Errorf("packet sink: stream %d: expected 0 to 255", stream)
	}
	where, known := s.expected[uint8(stream)]
	if !known {
		where = slot{arrival: len(s.expected), latency: len(s.expected)}
	}
	where.timed = e.Timed
	if where.arrival >= int(s.objs.Arrivals.MaxEntries()) || e.Timed && where.latency >= int(s.objs.Latencies.MaxEntries()) {
		return fmt.Errorf("packet sink: cannot add stream %d to %d others: announce all streams in one call", stream, len(s.expected))
	}
	var expectations [256]labExpectation
	if err := s.objs.Expectations.Get(&expectations); err != nil {
		return fmt.Errorf("packet sink: %w", err)
	}
	if err := s.clear(uint8(stream), where); err != nil {
		return err
	}
	s.expected[uint8(stream)] = where
	expectations[stream] = e.expectation(where.arrival, where.latency)
	return s.objs.Expectations.Set(&expectations)
}

// clear sets the counters of a stream to 0.
func (s *Sink) clear(stream uint8, w slot) error {
	var seen [256]uint64
	err := s.objs.LastSeen.Get(&seen)
	seen[stream] = 0
	err = errors.Join(err, s.objs.LastSeen.Set(&seen))
	if err != nil {
		return fmt.Errorf("packet sink: clear the time of the last arrival: %w", err)
	}
	err = s.objs.Arrivals.Put(uint32(w.arrival), make([]labArrival, ebpf.MustPossibleCPU()))
	if err == nil && w.timed {
		err = s.objs.Latencies.Put(uint32(w.latency), make([]labLatencies, ebpf.MustPossibleCPU()))
	}
	if err != nil {
		return fmt.Errorf("packet sink: clear counters: %w", err)
	}
	return nil
}

// Read returns what came so far of every expected stream.
func (s *Sink) Read() (map[uint8]Arrived, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[uint8]Arrived, len(s.expected))
	for id := range s.expected {
		a, err := s.arrived(id)
		if err != nil {
			return nil, err
		}
		out[id] = a
	}
	return out, nil
}

// Arrived returns what came so far of a stream.
func (s *Sink) Arrived(stream int) (Arrived, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived(uint8(stream))
}

func (s *Sink) arrived(stream uint8) (Arrived, error) {
	var a Arrived
	where, ok := s.expected[stream]
	if !ok {
		return a, fmt.Errorf("packet sink: stream %d was not expected", stream)
	}
	var counts []labArrival
	if err := s.objs.Arrivals.Lookup(uint32(where.arrival), &counts); err != nil {
		return a, fmt.Errorf("packet sink: stream %d: %w", stream, err)
	}
	for i := range counts {
		a.add(&counts[i])
	}
	if !where.timed {
		return a, nil
	}
	var latencies []labLatencies
	if err := s.objs.Latencies.Lookup(uint32(where.latency), &latencies); err != nil {
		return a, fmt.Errorf("packet sink: latencies of stream %d: %w", stream, err)
	}
	for i := range latencies {
		for bucket, n := range latencies[i].Counts {
			if n > 0 {
				a.Latency.AddBucket(bucket, n)
			}
		}
	}
	return a, nil
}

// the program's buckets are those of the histogram.
var _ [histogram.Buckets]uint64 = labLatencies{}.Counts

// Other is what arrived on a port without being of an expected stream. What stations of a link say
// to each other alone is not among it: ARP, neighbour discovery, and link-local multicast such as
// listener reports and routing protocols' hellos.
type Other struct {
	Frames uint64 `json:"frames"`
	Bytes  uint64 `json:"bytes"` // without FCS
}

// Others returns, by ifindex, what else arrived since ExpectStreams.
func (s *Sink) Others() (map[int]Other, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others()
}

func (s *Sink) others() (map[int]Other, error) {
	out := map[int]Other{}
	var port uint32
	var counts []labOthers
	all := s.objs.Others.Iterate()
	for all.Next(&port, &counts) {
		var sum Other
		for _, c := range counts {
			sum.Frames += c.Frames
			sum.Bytes += c.Bytes
		}
		out[int(port)] = sum
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("packet sink: count of other frames: %w", err)
	}
	return out, nil
}

func (s *Sink) clearOthers() error {
	seen, err := s.others()
	if err != nil {
		return err
	}
	for port := range seen {
		if err := s.objs.Others.Put(uint32(port), make([]labOthers, ebpf.MustPossibleCPU())); err != nil {
			return fmt.Errorf("packet sink: clear count of other frames: %w", err)
		}
	}
	return nil
}

// Close detaches and unloads the sink.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		p.link.Close()
	}
	return s.objs.close()
}

// Accepting attaches a program that lets everything pass: a veth port takes
// redirected frames only while its own end has a program (or GRO). Closing the
// result takes it off again.
func Accepting(ifindex int) (func(), error) {
	var objs struct {
		Pass *ebpf.Program `ebpf:"pass"`
	}
	if err := loadWith(&objs, nil, "", func(*ebpf.CollectionSpec) error { return nil }); err != nil {
		return nil, fmt.Errorf("load pass program: %w", err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: objs.Pass, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		objs.Pass.Close()
		return nil, fmt.Errorf("attach pass program to port %d: %w", ifindex, err)
	}
	return func() { l.Close(); objs.Pass.Close() }, nil
}
