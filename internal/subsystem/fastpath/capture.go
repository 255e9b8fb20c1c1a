// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/fastpath/mapped"
)

// Capture: while one runs, the capturing build of the program (bpf/capture.h) is on
// the ports, over the same tables and counters. It takes the place of the ordinary
// one in one step per port and leaves in the same way, so no packet is lost by it.

// CapturedPacket is one packet and its verdict.
type CapturedPacket struct {
	Time    time.Time `json:"time"`
	Port    string    `json:"port"`              // that it came in by
	Egress  string    `json:"egress,omitempty"`  // interface that it leaves by, when it is forwarded
	Verdict string    `json:"verdict"`           // forwarded, dropped, punted
	Reason  string    `json:"reason,omitempty"`  // of a drop or punt
	Text    string    `json:"text,omitempty"`    // what the reason means
	Rule    string    `json:"rule,omitempty"`    // rule or default of the firewall that decided, when one did here
	Length  int       `json:"length"`            // of the frame, bytes
	Frame   []byte    `json:"frame"`             // as far as it was captured
	Sent    bool      `json:"as_sent,omitempty"` // as it left, not as it came
}

// CaptureCounts is how a capture went.
type CaptureCounts struct {
	Matched uint64 `json:"matched"` // packets that the filter let through, sampled or not
	Lost    uint64 `json:"lost"`    // records that found no room
}

// capture is the one that runs.
type capture struct {
	program *ebpf.Program
	ring    *ebpf.Map
	tally   *ebpf.Map
	reader  *ringbuf.Reader
	byRule  bool  // it wants the packets of some rules, by their counters
	ended   error // why it ended before it was asked to
}

// captureRing is the size of the ring buffer, in bytes.
const captureRing = 8 << 20

// Capture calls each with packets until ctx ends, each returns an error, or the capture must end. It
// calls started once the ports are captured on. One capture at a time.
func (f *FastPath) Capture(ctx context.Context, filter CaptureFilter, started func() error, each func(CapturedPacket) error) (CaptureCounts, error) {
	c, err := f.startCapture(filter)
	if err != nil {
		return CaptureCounts{}, err
	}
	defer c.close()
	stop := context.AfterFunc(ctx, func() { f.endCapture(c, nil) })
	defer stop()
	err = started()
	if err == nil {
		err = f.readCapture(c, each)
	}
	f.endCapture(c, nil)
	counts, errCounts := c.counts()
	return counts, errors.Join(err, c.ended, errCounts)
}

// startCapture puts the capturing build on all ports.
func (f *FastPath) startCapture(filter CaptureFilter) (*capture, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return nil, err
	}
	ifindex := 0
	if filter.Interface != "" {
		if ifindex = f.tables.indexOf(filter.Interface); ifindex == 0 {
			return nil, fmt.Errorf("no interface %q", filter.Interface)
		}
	}
	if f.capturing != nil {
		return nil, errors.New("another capture is running: stop it first")
	}
	var counters [2]uint16
	if filter.Rule != "" {
		var err error
		if counters, err = f.firewall.countersOf(filter.Rule); err != nil {
			return nil, err
		}
	}
	c, err := f.prog.loadCapture(filter, ifindex, counters)
	if err != nil {
		return nil, err
	}
	ports := 0
	for _, p := range f.ports {
		if p.link == nil || !p.current {
			continue
		}
		if err := p.take(c.program); err != nil {
			f.restoreProgram()
			c.close()
			return nil, err
		}
		ports++
	}
	if ports == 0 {
		c.close()
		return nil, errors.New("no port runs the fast path: nothing to capture (use tcpdump for what the kernel forwards); " +
			"for the reason see minne show fast-path")
	}
	f.capturing = c
	return c, nil
}

// loadCapture loads the capturing build over the maps of the program.
func (p *program) loadCapture(filter CaptureFilter, ifindex int, counters [2]uint16) (*capture, error) {
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	if err := filter.set(spec, ifindex, counters); err != nil {
		return nil, err
	}
	spec.Maps[routerMapCaptureRing].MaxEntries = captureRing
	var twin struct {
		Router *ebpf.Program `ebpf:"router"`
		Ring   *ebpf.Map     `ebpf:"capture_ring"`
		Tally  *ebpf.Map     `ebpf:"capture_tally"`
	}
	if err := spec.LoadAndAssign(&twin, &ebpf.CollectionOptions{MapReplacements: p.shared()}); err != nil {
		return nil, fmt.Errorf("load the capturing build of the fast path's program: %w", explainLoad(err))
	}
	c := &capture{program: twin.Router, ring: twin.Ring, tally: twin.Tally, byRule: filter.Rule != ""}
	if c.reader, err = ringbuf.NewReader(c.ring); err != nil {
		c.close()
		return nil, fmt.Errorf("opening the captured packets: %w", err)
	}
	return c, nil
}

// endCapture puts the ordinary program back, if the capture still runs. What has been copied is
// still told.
func (f *FastPath) endCapture(c *capture, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropCapture(c, why)
}

// dropCapture is endCapture for those who hold the lock.
func (f *FastPath) dropCapture(c *capture, why error) {
	if c == nil || f.capturing != c {
		return
	}
	f.capturing, c.ended = nil, why
	f.restoreProgram()
	mapped.WaitForReaders() // no packet is in the capturing build any more
	_ = c.reader.Flush()    // fails only on a closed reader
}

// EndCapture ends the capture that runs, if any, and gives its reader the reason.
func (f *FastPath) EndCapture(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropCapture(f.capturing, why)
}

// restoreProgram puts the ordinary program on all ports of this daemon.
func (f *FastPath) restoreProgram() {
	for _, p := range f.ports {
		if p.link == nil || !p.current {
			continue
		}
		if err := p.take(f.prog.onPort(p)); err != nil {
			f.log.Error("cannot remove the capturing program from a port before the next apply", "interface", p.name, "error", err)
			p.current = false
		}
	}
}

// onPort is the program that a port should run now. While packets are captured none are spread.
func (f *FastPath) onPort(p *port) *ebpf.Program {
	if f.capturing != nil {
		return f.capturing.program
	}
	return f.prog.onPort(p)
}

// readCapture tells what the ring buffer holds until it is flushed.
func (f *FastPath) readCapture(c *capture, each func(CapturedPacket) error) error {
	names, boot := f.namesOf(), bootTime()
	var record ringbuf.Record
	for {
		err := c.reader.ReadInto(&record)
		switch {
		case errors.Is(err, ringbuf.ErrFlushed):
			return nil
		case err != nil:
			return fmt.Errorf("reading the captured packets: %w", err)
		}
		if p, ok := decodeCaptured(record.RawSample, names, boot); ok {
			if err := each(p); err != nil {
				return err
			}
		}
	}
}

// capturedNames are what an operator calls the numbers in a record.
type capturedNames struct {
	links map[int]string                    // by ifindex
	rules *[2]atomic.Pointer[filter.Policy] // that name their counters, of the firewall's two buffers
}

func (f *FastPath) namesOf() capturedNames {
	names := capturedNames{links: map[int]string{}, rules: &[2]atomic.Pointer[filter.Policy]{}}
	f.locked(func() {
		names.rules = &f.tables.evaluatedBy
		for index := range f.tables.links {
			names.links[index] = f.tables.nameOf(index)
		}
	})
	return names
}

// rule names what decided by the policy of some flags.
func (n *capturedNames) rule(flags uint32, v filter.Verdict) string {
	p := n.rules[flags&policyBuffer].Load()
	if p == nil || v.Counter == 0 {
		return ""
	}
	return nameAt(p.Names.Counters, int(v.Counter), fmt.Sprintf("rule %d", v.Counter))
}

// bootTime is when the monotonic clock was zero.
func bootTime() time.Time {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // can't fail: the clock always exists
	return time.Now().Add(-time.Duration(t.Nano()))
}

// capturedHeader is the bytes of struct captured in front of the frame.
const capturedHeader = 40

func decodeCaptured(raw []byte, names capturedNames, boot time.Time) (CapturedPacket, bool) {
	if len(raw) < capturedHeader {
		return CapturedPacket{}, false
	}
	n := binary.NativeEndian
	bytes := int(n.Uint16(raw[36:]))
	if bytes > len(raw)-capturedHeader {
		return CapturedPacket{}, false
	}
	p := CapturedPacket{
		Time:    boot.Add(time.Duration(n.Uint64(raw))),
		Port:    names.links[int(n.Uint32(raw[8:]))],
		Egress:  names.links[int(n.Uint32(raw[12:]))],
		Verdict: VerdictOf(n.Uint32(raw[16:])),
		Rule:    names.rule(n.Uint32(raw[28:]), filter.VerdictOf(n.Uint32(raw[24:]))),
		Length:  int(n.Uint32(raw[32:])),
		Frame:   append([]byte(nil), raw[capturedHeader:capturedHeader+bytes]...),
		Sent:    raw[38] != 0,
	}
	if r := Reason(n.Uint32(raw[20:])); r != Forwarded {
		p.Reason, p.Text = r.String(), r.Text()
	}
	return p, true
}

func (c *capture) counts() (CaptureCounts, error) {
	var t routerCaptureTally
	zero := uint32(0)
	if err := c.tally.Lookup(&zero, &t); err != nil {
		return CaptureCounts{}, fmt.Errorf("reading how many packets were captured: %w", err)
	}
	return CaptureCounts{Matched: t.Matched, Lost: t.Lost}, nil
}

func (c *capture) close() {
	if c.reader != nil {
		c.reader.Close()
	}
	c.program.Close()
	c.ring.Close()
	c.tally.Close()
}
