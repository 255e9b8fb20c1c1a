// SPDX-License-Identifier: Apache-2.0

// Package programcost measures what the fast path's program alone takes for a packet, over tables made for it: by test
// runs in which it sees the same frame again and again. Links that this kernel may lack exist on paper only.
//
// That is for differences of some nanoseconds between two ways of the same program. What a packet costs with
// driver and memory is package closedloop's to say.
package programcost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"structs"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/instance"
	"minne/internal/lab"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
	"minne/internal/model/packet"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath"
)

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP -type arrival programcost ../../../bpf/programcost.bpf.c -- -I../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu

const (
	node      = "router"
	in, out   = "in", "out"
	member    = "member" // the port that is in a VRF
	far       = "far"    // the other end of its cable
	session   = "isp"
	sessionID = 0x1234
	// onPaper is the ifindex of the session's interface, which the kernel does not have.
	onPaper = 4001
	vrf     = 4002 // that of a VRF, which the kernel does not have either
	table   = 100  // of the VRF
	// repeats is how many packets there are in one test run, and tries how many runs there are, of which the least is taken:
	// all that disturbs a run makes it longer, and one of 50 µs is often not disturbed.
	repeats, tries = 500, 20
)

var (
	host         = packet.MAC{2, 0, 0, 0, 0, 1} // on the cable of in, and the gateway on that of out
	concentrator = packet.MAC{2, 0, 0, 0, 0, 9}
	gateway      = netip.MustParseAddr("198.51.100.2")
	inside       = netip.MustParseAddr("192.0.2.2")
	plainHost    = netip.MustParseAddr("203.0.113.9")
	sessionHost  = netip.MustParseAddr("203.0.114.9")
)

// Bed is the fast path of a router with two ports, one of which carries a PPPoE session, and a third that is in a VRF.
type Bed struct {
	lab      *lab.Lab
	instance instance.Instance
	fast     *fastpath.FastPath
	programs programcostObjects
	links    map[string]netlink.Link
}

// Way is one way of a packet through the program.
type Way struct {
	name   string
	port   string
	leaves bool // in a session
	frame  func(*Bed) []byte
}

// The ways.
var (
	Plain    = Way{"by no session", in, false, func(b *Bed) []byte { return b.datagram(in, inside, plainHost) }}
	Back     = Way{"back by no session", out, false, func(b *Bed) []byte { return b.datagram(out, plainHost, inside) }}
	Outwards = Way{"out by a session", in, true, func(b *Bed) []byte { return b.datagram(in, inside, sessionHost) }}
	InVRF    = Way{"by a VRF", member, false, func(b *Bed) []byte { return b.datagram(member, inside, plainHost) }}
	Inwards  = Way{"in by a session", out, false, func(b *Bed) []byte {
		return packet.AddSession(b.datagram(out, sessionHost, inside), packet.Session{ID: sessionID, Peer: concentrator})
	}}
)

// New builds it. The caller closes it.
func New(ctx context.Context) (*Bed, error) {
	l, err := lab.Start(ctx, lab.Topology{Nodes: []lab.Node{{Name: node}},
		Links: []lab.Link{
			{A: lab.Port{Node: node, Name: in, Silent: true}, B: lab.Port{Node: node, Name: out, Silent: true}},
			{A: lab.Port{Node: node, Name: member, Silent: true}, B: lab.Port{Node: node, Name: far, Silent: true}},
		}})
	if err != nil {
		return nil, err
	}
	b := &Bed{lab: l, links: map[string]netlink.Link{}}
	if err := l.Node(node).Do(func() error { return b.build(ctx) }); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// build is in the router's namespace.
func (b *Bed) build(ctx context.Context) (err error) {
	for _, name := range []string{in, out, member} {
		if b.links[name], err = netlink.LinkByName(name); err != nil {
			return fmt.Errorf("port %s: %w", name, err)
		}
	}
	for _, setting := range []string{"ip_forward", "conf/all/rp_filter", "conf/all/send_redirects"} {
		value := map[bool]string{true: "1", false: "0"}[setting == "ip_forward"]
		if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4", setting), []byte(value), 0); err != nil {
			return err
		}
	}
	b.instance = instance.Instance{Name: "lab", RunDir: b.lab.Node(node).Dir, BPFDir: filepath.Join("/sys/fs/bpf", "minne-"+filepath.Base(b.lab.Dir))}
	b.fast = fastpath.New(b.instance, slog.New(slog.DiscardHandler))
	// Generic: no driver is asked whether it sends, which nothing here does.
	desired := fastpath.Desired{Mode: "generic", Interfaces: map[string]fastpath.DesiredPort{
		in: {FastPath: true}, out: {FastPath: true}, member: {FastPath: true}, session: {FastPath: true, Carried: true, Session: out},
	}}
	if err := b.fast.Apply(ctx, desired); err != nil {
		return err
	}
	b.fast.Pretend(fastpath.PaperSession{Interface: session, Parent: out, ID: sessionID, Peer: concentrator})
	b.tell()
	if err := loadProgramcostObjects(&b.programs, nil); err != nil {
		return fmt.Errorf("load the program that repeats: %w", err)
	}
	if err := b.put(); err != nil {
		return err
	}
	// What the kernel tells of this namespace is no longer to change the tables. The program keeps them.
	b.fast.Close()
	return nil
}

// tell tells the fast path of all links and routes.
func (b *Bed) tell() {
	link := func(name string) rib.Link {
		a := b.links[name].Attrs()
		return rib.Link{Index: a.Index, Name: name, Kind: "veth", MAC: a.HardwareAddr, MTU: a.MTU, Up: true, Running: true}
	}
	b.fast.Begin()
	inVRF := link(member)
	inVRF.Master = vrf
	b.fast.Links([]rib.Link{link(in), link(out), {Index: vrf, Name: "red", Kind: "vrf", Table: table, MTU: 65575, MAC: b.links[member].Attrs().HardwareAddr, Up: true, Running: true}, inVRF, {Index: onPaper, Name: session, Kind: "ppp", Up: true, Running: true, MTU: 1492}})
	inIndex, outIndex := b.links[in].Attrs().Index, b.links[out].Attrs().Index
	b.fast.Addresses([]rib.LinkAddress{{Address: netip.MustParsePrefix("192.0.2.1/24"), Interface: inIndex}, {Address: netip.MustParsePrefix("198.51.100.1/24"), Interface: outIndex}})
	b.fast.Neighbours([]rib.Neighbour{
		{Interface: inIndex, Address: inside, State: rib.NeighPermanent, MAC: host[:]},
		{Interface: outIndex, Address: gateway, State: rib.NeighPermanent, MAC: host[:]},
	})
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} { // as the router makes them for VRFs
		b.fast.Rules([]rib.Rule{{Family: family, Priority: 1000, VRF: true}, {Family: family, Priority: 32765, Table: rib.TableLocal},
			{Family: family, Priority: 32766, Table: rib.TableMain}})
	}
	route := func(table uint32, prefix string, hop rib.Hop) rib.RouteChange {
		hop.Weight = 1
		return rib.RouteChange{Route: rib.Route{Prefix: netip.MustParsePrefix(prefix), Table: table, Type: rib.Unicast, Hops: []rib.Hop{hop}}}
	}
	b.fast.Routes([]rib.RouteChange{
		route(rib.TableMain, "192.0.2.0/24", rib.Hop{Interface: inIndex}),
		route(rib.TableMain, "203.0.113.0/24", rib.Hop{Interface: outIndex, Gateway: gateway}),
		route(table, "203.0.113.0/24", rib.Hop{Interface: outIndex, Gateway: gateway}), // leads out of the VRF
		route(rib.TableMain, "203.0.114.0/24", rib.Hop{Interface: onPaper}),
	})
	b.fast.End()
}

// put has the program measured that the ports run.
func (b *Bed) put() error {
	o, err := b.fast.Observe(context.Background())
	if err != nil {
		return err
	}
	for _, p := range o.Ports {
		if p.Name != in {
			continue
		}
		if !p.Transmits {
			return fmt.Errorf("the fast path is not on port %s: %s", in, p.Why)
		}
		prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(p.Program))
		if err != nil {
			return fmt.Errorf("the program of port %s: %w", in, err)
		}
		defer prog.Close()
		return b.programs.Measured.Put(uint32(0), prog)
	}
	return errors.New("the fast path has no port " + in)
}

// Close takes it down.
func (b *Bed) Close() error {
	var errs []error
	if b.fast != nil {
		errs = append(errs, b.programs.Close())
		errs = append(errs, b.lab.Node(node).Do(func() error { return fastpath.Off(b.instance) }))
	}
	return errors.Join(append(errs, b.lab.Close())...)
}

// datagram is a frame of UDP that comes in by a port.
func (b *Bed) datagram(port string, src, dst netip.Addr) []byte {
	from := host
	if src == sessionHost {
		from = concentrator
	}
	return packet.Ethernet{Dst: packet.MAC(b.links[port].Attrs().HardwareAddr), Src: from, Type: packet.TypeIPv4}.Append(nil,
		packet.IPv4{TTL: 64, Protocol: packet.ProtoUDP, Src: src, Dst: dst}.Append(nil, packet.UDP{SrcPort: 1000, DstPort: 2000}.Append(nil, src, dst, make([]byte, 40))))
}

// Extra measures by how many ns the program takes longer for a packet of one way than for one of another. plain is measured
// twice in each round: what differs is noise.
func (b *Bed) Extra(ctx context.Context, plain, more Way, rounds int) (longer, same result.Interval, err error) {
	var times [3][]float64
	err = b.lab.Node(node).Do(func() error {
		for range rounds {
			for n, w := range []Way{plain, more, plain} {
				if err := ctx.Err(); err != nil {
					return err
				}
				took, err := b.time(w)
				if err != nil {
					return err
				}
				times[n] = append(times[n], took)
			}
		}
		return nil
	})
	if err != nil {
		return longer, same, err
	}
	longer, same = statistics.Extra(times[0], times[1], times[2])
	return longer, same, nil
}

// contextXDP is struct xdp_md of include/uapi/linux/bpf.h.
type contextXDP struct {
	_                                           structs.HostLayout
	Data, DataEnd, Meta, Ingress, Queue, Egress uint32
}

// time is what a packet takes, in ns.
func (b *Bed) time(w Way) (float64, error) {
	frame := w.frame(b)
	arrival := programcostArrival{Bytes: uint32(len(frame))}
	copy(arrival.Head[:], frame)
	if err := b.programs.Arrivals.Put(uint32(0), arrival); err != nil {
		return 0, err
	}
	left := make([]byte, len(frame)+packet.SessionLen)
	o := ebpf.RunOptions{Data: frame, DataOut: left, Repeat: repeats,
		Context: contextXDP{DataEnd: uint32(len(frame)), Ingress: uint32(b.links[w.port].Attrs().Index)}}
	least := time.Duration(math.MaxInt64)
	var action uint32
	for range tries {
		start := time.Now()
		var err error
		if action, err = b.programs.OnceMore.Run(&o); err != nil {
			return 0, err
		}
		least = min(least, time.Since(start))
	}
	if kind := packet.Summarize(o.DataOut); action != fastpath.ActionRedirect || kind.InSession != w.leaves {
		return 0, fmt.Errorf("a packet %s: action %d, and it became %x", w.name, action, o.DataOut)
	}
	return float64(least.Nanoseconds()) / repeats, nil
}
