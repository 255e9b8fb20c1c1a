// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"minne/internal/lab/histogram"
)

// Expect is how a stream's packets must look where they arrive.
type Expect struct {
	TTL        uint8            // as sent, less one per router
	FrameBytes int              // without FCS; 0 is the least of IPv4
	MAC        net.HardwareAddr // destination; its first MACBytes must agree
	MACBytes   int
	Timed      bool // measure latency and silence
	Filled     bool // check the transport checksum, and with it the payload
}

// Arrived is what a sink saw of a stream.
type Arrived struct {
	Received       uint64              `json:"received"` // each frame once
	Bytes          uint64              `json:"bytes"`    // of those, without FCS
	Duplicated     uint64              `json:"duplicated"`
	Reordered      uint64              `json:"reordered"` // after one with a higher sequence number (RFC 4737)
	Corrupted      uint64              `json:"corrupted"` // transport checksum wrong or absent
	BadTTL         uint64              `json:"bad_ttl"`
	BadHeader      uint64              `json:"bad_header"` // IP version, header checksum, lengths
	BadMAC         uint64              `json:"bad_mac"`
	BadLength      uint64              `json:"bad_length"` // another frame length than expected
	Latency        histogram.Histogram `json:"latency"`
	LongestSilence time.Duration       `json:"longest_silence_ns"`
}

// Lost returns how many of the sent frames never came.
func (a Arrived) Lost(sent uint64) uint64 { return sent - min(sent, a.Received) }

// Wrong says what the router did to packets that it must not do, or "".
func (a Arrived) Wrong() string {
	if a.BadTTL+a.BadHeader+a.BadMAC+a.BadLength+a.Corrupted == 0 {
		return ""
	}
	return fmt.Sprintf("of %d packets %d had a wrong TTL, %d a wrong header checksum or length field, %d a wrong MAC, %d a wrong length, %d a damaged payload",
		a.Received, a.BadTTL, a.BadHeader, a.BadMAC, a.BadLength, a.Corrupted)
}

// Sink counts the streams that arrive on its ports.
type Sink struct {
	objs  sinkObjects
	ports []link.Link
}

// What a sink needs of the object file: the generator's maps stay out of memory.
type sinkObjects struct {
	Sink         *ebpf.Program `ebpf:"sink"`
	Arrivals     *ebpf.Map     `ebpf:"arrivals"`
	Expectations *ebpf.Map     `ebpf:"expectations"`
}

// NewSink loads the sink's program. The caller closes it.
func NewSink() (*Sink, error) {
	s := &Sink{}
	if err := load(&s.objs); err != nil {
		return nil, fmt.Errorf("load packet sink: %w", err)
	}
	return s, nil
}

// Attach starts to take the lab's packets out of what arrives on a port. All
// else passes. The calling thread must be in the port's namespace.
func (s *Sink) Attach(ifindex int) error {
	l, err := link.AttachXDP(link.XDPOptions{Program: s.objs.Sink, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("attach packet sink to port %d: %w", ifindex, err)
	}
	s.ports = append(s.ports, l)
	return nil
}

// Expect forgets what was counted of a stream and sets what is expected of it from now on.
func (s *Sink) Expect(stream int, e Expect) error {
	x := labExpectation{Ttl: e.TTL, FrameBytes: uint16(e.FrameBytes), CheckMac: uint8(e.MACBytes)}
	if x.FrameBytes == 0 {
		x.FrameBytes = MinFrame4
	}
	copy(x.Mac[:], e.MAC)
	if e.Timed {
		x.Timed = 1
	}
	if err := s.objs.Arrivals.Put(uint32(stream), labArrival{}); err != nil {
		return fmt.Errorf("packet sink: stream %d: %w", stream, err)
	}
	if err := s.objs.Expectations.Put(uint32(stream), x); err != nil {
		return fmt.Errorf("packet sink: stream %d: %w", stream, err)
	}
	return nil
}

// Arrived returns what came of a stream since Expect.
func (s *Sink) Arrived(stream int) (Arrived, error) {
	var a labArrival
	if err := s.objs.Arrivals.Lookup(uint32(stream), &a); err != nil {
		return Arrived{}, fmt.Errorf("packet sink: stream %d: %w", stream, err)
	}
	return Arrived{
		Received: a.Received - a.Repeated, Bytes: a.Bytes, Duplicated: a.Repeated, Reordered: a.Late,
		BadTTL: a.BadTtl, BadHeader: a.BadChecksum, BadMAC: a.BadMac, BadLength: a.BadLength,
		LongestSilence: time.Duration(a.LongestSilence),
	}, nil
}

// Close detaches and unloads the sink.
func (s *Sink) Close() error {
	for _, l := range s.ports {
		l.Close()
	}
	s.objs.Arrivals.Close()
	s.objs.Expectations.Close()
	return s.objs.Sink.Close()
}

// load brings into the kernel what the fields of objs name.
func load(objs any) error {
	spec, err := loadLab()
	if err != nil {
		return err
	}
	return spec.LoadAndAssign(objs, nil)
}

// Accepting attaches a program that lets everything pass: a veth port takes
// redirected frames only while its own end has a program (or GRO). Closing the
// result takes it off again.
func Accepting(ifindex int) (func(), error) {
	var objs struct {
		Pass *ebpf.Program `ebpf:"pass"`
	}
	if err := load(&objs); err != nil {
		return nil, fmt.Errorf("load pass program: %w", err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: objs.Pass, Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		objs.Pass.Close()
		return nil, fmt.Errorf("attach pass program to port %d: %w", ifindex, err)
	}
	return func() { l.Close(); objs.Pass.Close() }, nil
}
