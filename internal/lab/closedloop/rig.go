// SPDX-License-Identifier: Apache-2.0

// Package closedloop measures what forwarding one packet costs, on one core.
//
// A generator, the router and a sink are three namespaces in a row. The
// generator hands the router a batch of frames; the router's and the sink's
// softirqs then run on the same core before the generator goes on. So the time
// per frame is the cost of all three, nothing waits for anything, and nothing
// can queue up: a lost packet is a fault of the router.
//
//	generator ── slow ──▶ ┐
//	          ── fast ──▶ ┴ router ── out ──▶ sink
//	generator ── direct ───────────────────▶ sink    (what generator and sink cost alone)
//
// The router has two ports towards the generator with the same routes behind
// them: packets that enter by one are forwarded by the kernel, those that enter
// by the other by the fast path. Nothing is switched between two trials, so
// trials of both can alternate within milliseconds.
//
// One core shared with other tenants is noisy: see Compare for what is done
// about it.
package closedloop

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/lab/traffic"
	"minne/internal/rib"
)

// Path is the way that packets take through the rig.
type Path string

// The paths of a rig.
const (
	Kernel Path = "slow"   // the router's kernel forwards
	Fast   Path = "fast"   // the router's fast path forwards
	Direct Path = "direct" // no router: generator to sink
)

// NextHops is how many next hops the router has behind its port to the sink. A
// real table spread over many keeps neighbouring prefixes apart: were all
// routes to point to one next hop, a table could be merged to almost nothing.
const NextHops = 64

// Rig is a generator, a router and a sink in a row.
type Rig struct {
	Lab    *lab.Lab
	Router *lab.Running

	generator *traffic.Generator
	sink      *traffic.Sink
	streams   map[Path]traffic.Stream
	sinkMAC   [6]byte
	cpu       int
	offset    int // walks on through the destinations from trial to trial
}

// Addresses of the router's ports, for its configuration.
var (
	SlowAddresses = prefixes("198.18.1.1/24", "fd00:1::1/64")
	FastAddresses = prefixes("198.18.2.1/24", "fd00:2::1/64")
	OutAddresses  = prefixes("198.19.0.1/24", "fd00:3::1/64")
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// NextHop returns the i-th next hop of a family behind the router's port to the sink.
func NextHop(i int, ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:3::1:%x", i+1))
	}
	return netip.AddrFrom4([4]byte{198, 19, 0, byte(i + 10)})
}

// NewRig builds the three namespaces. The router's ports are up, without
// addresses: those are the router's own business. The caller closes the rig.
func NewRig(ctx context.Context) (*Rig, error) {
	silent := func(node, name string) lab.Port { return lab.Port{Node: node, Name: name, Silent: true} }
	l, err := lab.Start(ctx, lab.Topology{
		Nodes: []lab.Node{{Name: "generator"}, {Name: "router"}, {Name: "sink"}},
		Links: []lab.Link{
			{A: silent("generator", "slow"), B: lab.Port{Node: "router", Name: "slow"}},
			{A: silent("generator", "fast"), B: lab.Port{Node: "router", Name: "fast"}},
			{A: lab.Port{Node: "router", Name: "out"}, B: silent("sink", "in")},
			{A: silent("generator", "direct"), B: silent("sink", "direct")},
		},
	})
	if err != nil {
		return nil, err
	}
	r := &Rig{Lab: l, Router: l.Node("router"), streams: map[Path]traffic.Stream{}, cpu: runtime.NumCPU() - 1}
	if err := r.equip(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Rig) equip() (err error) {
	if r.generator, err = traffic.NewGenerator(); err != nil {
		return err
	}
	if r.sink, err = traffic.NewSink(); err != nil {
		return err
	}
	generator, sink := r.Lab.Node("generator"), r.Lab.Node("sink")
	for _, port := range []string{"in", "direct"} {
		index, mac, err := sink.Port(port)
		if err != nil {
			return err
		}
		if port == "in" {
			copy(r.sinkMAC[:], mac)
		}
		if err := sink.Do(func() error { return r.sink.Attach(index) }); err != nil {
			return err
		}
	}
	for id, path := range []Path{Kernel, Fast, Direct} {
		out, from, err := generator.Port(string(path))
		if err != nil {
			return err
		}
		peer := r.Router
		if path == Direct {
			peer = sink
		}
		_, to, err := peer.Port(string(path))
		if err != nil {
			return err
		}
		r.streams[path] = traffic.Stream{ID: id, Port: out, From: from, To: to}
	}
	// Without a program on it the kernel's port takes no redirected frames; GRO
	// makes it take them and is what a driver does anyway.
	_, err = r.Router.Run(context.Background(), "ethtool", "-K", "slow", "gro", "on")
	return err
}

// Close removes the rig.
func (r *Rig) Close() error {
	if r.generator != nil {
		r.generator.Close()
	}
	if r.sink != nil {
		r.sink.Close()
	}
	return r.Lab.Close()
}

// Neighbours gives the router permanent neighbours for all next hops. The sink
// is behind every one of their MACs, which agree in the first five bytes.
func (r *Rig) Neighbours() error {
	var batch strings.Builder
	for i := range NextHops {
		mac := r.hopMAC(i)
		for _, v6 := range []bool{false, true} {
			fmt.Fprintf(&batch, "neighbour replace %s lladdr %s dev out nud permanent\n", NextHop(i, v6), net.HardwareAddr(mac[:]))
		}
	}
	file := r.Router.Dir + "/neighbours"
	if err := os.WriteFile(file, []byte(batch.String()), 0o644); err != nil {
		return err
	}
	_, err := r.Router.Run(context.Background(), "ip", "-batch", file)
	return err
}

// Table turns prefixes into routes of a routing daemon through the rig's next hops, picked by the
// prefix alone, so that the same table is always the same.
func (r *Rig) Table(prefixes []netip.Prefix) ([]rib.Route, error) {
	out, _, err := r.Router.Port("out")
	if err != nil {
		return nil, err
	}
	routes := make([]rib.Route, len(prefixes))
	for i, p := range prefixes {
		hop := rib.Hop{Gateway: NextHop(spread(p), p.Addr().Is6()), Interface: out, Weight: 1}
		routes[i] = rib.Route{Prefix: p, Table: rib.TableMain, Type: rib.Unicast, Protocol: unix.RTPROT_BIRD, Hops: []rib.Hop{hop}}
		if p.Addr().Is6() {
			routes[i].Metric = 1024 // what the kernel takes when none is given
		}
	}
	return routes, nil
}

func spread(p netip.Prefix) int {
	h := uint32(2166136261) // FNV-1a
	for _, b := range p.Addr().AsSlice() {
		h = (h ^ uint32(b)) * 16777619
	}
	h = (h ^ uint32(p.Bits())) * 16777619
	return int(h>>16) % NextHops
}

// Aim loads the destinations of the following trials.
func (r *Rig) Aim(destinations []netip.Addr) error { return r.generator.SetDestinations(destinations) }

// Trial is the result of sending frames along one path.
type Trial struct {
	PerFrame float64 // ns, without interruptions
	Sent     traffic.Sent
	Arrived  traffic.Arrived
	Lost     uint64
}

// Try sends frames of the least length to the first n of the loaded
// destinations (0: to all) and judges what arrives. gap is the longest time
// that 64 frames may take before they count as interrupted; 0 lets all count.
func (r *Rig) Try(ctx context.Context, path Path, ipv6 bool, frames, n int, gap time.Duration) (Trial, error) {
	s := r.stream(path, ipv6)
	s.Frames, s.Destinations, s.Gap, s.Offset = uint64(frames), n, gap, r.offset
	r.offset = (r.offset + frames) % traffic.MaxDestinations
	mac, bytes := r.sinkMAC, 5 // which of the next hops was chosen is in the last byte
	if path == Direct {
		bytes = 0
	}
	t, err := r.run(ctx, s, mac, bytes)
	if err == nil && t.Arrived.Wrong() != "" {
		err = fmt.Errorf("path %s forwards wrongly: %s", path, t.Arrived.Wrong())
	}
	return t, err
}

// TryVia is like Try on the fast path, to the first destination alone, and tells how many
// packets did not leave through the i-th next hop.
func (r *Rig) TryVia(ctx context.Context, i, frames, n int) (wrong uint64, err error) {
	s := r.stream(Fast, false)
	s.Frames, s.Destinations = uint64(frames), n
	t, err := r.run(ctx, s, r.hopMAC(i), 6)
	return t.Arrived.BadMAC + t.Lost, err
}

// hopMAC is the MAC of the i-th next hop.
func (r *Rig) hopMAC(i int) [6]byte {
	mac := r.sinkMAC
	mac[5] = byte(i)
	return mac
}

// stream returns the stream of a path with everything set that all trials share.
func (r *Rig) stream(path Path, ipv6 bool) traffic.Stream {
	s := r.streams[path]
	s.TTL, s.Source, s.FrameBytes = 64, netip.MustParseAddr("198.18.2.2"), traffic.MinFrame4
	if ipv6 {
		s.Source, s.FrameBytes = netip.MustParseAddr("fd00:2::2"), traffic.MinFrame6
	}
	return s
}

// run sends a stream, waits for its end at the sink, and returns what arrived.
func (r *Rig) run(ctx context.Context, s traffic.Stream, mac [6]byte, macBytes int) (Trial, error) {
	expect := traffic.Expect{TTL: 63, FrameBytes: s.FrameBytes, MAC: mac[:], MACBytes: macBytes}
	if s.ID == r.streams[Direct].ID {
		expect.TTL = 64
	}
	if err := r.sink.Expect(s.ID, expect); err != nil {
		return Trial{}, err
	}
	var t Trial
	err := r.Lab.Node("generator").Do(func() (err error) {
		var one unix.CPUSet
		one.Set(r.cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return fmt.Errorf("pin to CPU %d: %w", r.cpu, err)
		}
		t.Sent, err = r.generator.Send(ctx, s)
		return err
	})
	if err != nil {
		return t, err
	}
	// A tail may have been left to ksoftirqd.
	for wait := 0; ; wait++ {
		if t.Arrived, err = r.sink.Arrived(s.ID); err != nil {
			return t, err
		}
		if t.Lost = t.Arrived.Lost(t.Sent.Frames); t.Lost == 0 || wait == 20 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	t.PerFrame = t.Sent.PerFrame()
	return t, ctx.Err()
}

// KernelForwarded returns how many packets the router's kernel has forwarded so
// far: none more may be while the fast path is measured.
func (r *Rig) KernelForwarded(ipv6 bool) (uint64, error) { return r.Router.KernelForwarded(ipv6) }
