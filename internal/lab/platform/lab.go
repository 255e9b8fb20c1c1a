// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/closedloop"
	"minne/internal/lab/device"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
	"minne/internal/model/packet"
)

// The part of an estimate that routers are needed for: they run in namespaces of the lab.

// estimateRules is how many rules the router of an estimate has.
const estimateRules = 600

// checkRounds are those of a comparison with the lab.
const checkRounds = 16

// Estimate works out what the machine can route, from the lookups of a finished result and the fast path's program. With
// check the sum is compared with what a lab on this machine measures, with the same table. The result gets it.
func (r *Result) estimate(ctx context.Context, means device.Means, routes []lpm.Route, checked bool, progress func(string)) (err error) {
	p, err := r.lookupParts()
	if err != nil {
		return err
	}
	progress("start routers with and without rules")
	sizes := closedloop.PolicySizes{Few: estimateRules, Many: 1, Blocked: 1, Packets: closedloop.FullSizes.Packets}
	routers, err := closedloop.NewPolicies(ctx, means, sizes)
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	defer func() {
		if routers != nil {
			err = errors.Join(err, routers.Close())
		}
	}()
	if err := routers.AwaitFast(ctx); err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	open, err := programCost(ctx, routers.Device("open"))
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	ruled, err := programCost(ctx, routers.Device("few"))
	if err != nil {
		return fmt.Errorf("estimate: %w", err)
	}
	p.Program, p.Rules, p.RuleSet = open.same, max(0, ruled.varied-open.varied), estimateRules
	for _, route := range routes {
		if route.Prefix.Addr().Is4() {
			p.Routes++
		}
	}
	var checks []Check
	if checked {
		progress("measure the router with rules in the lab")
		cost, err := closedloop.Cost(ctx, closedloop.Side{Path: routers.Few, Load: routers.Random}, checkRounds, nil)
		if err != nil {
			return fmt.Errorf("check the estimate: %w", err)
		}
		err = routers.Close()
		routers = nil
		if err != nil {
			return err
		}
		if checks, err = p.checks(ctx, means, routes, cost.PerPacket, progress); err != nil {
			return fmt.Errorf("check the estimate: %w", err)
		}
	}
	r.Estimate, err = NewEstimate(p, checks)
	return err
}

// checks measures routers with one route and with the whole table. What the lab's ports take is the cost of the
// router with one route and one flow without the program's.
func (p Parts) checks(ctx context.Context, means device.Means, routes []lpm.Route, ruled result.Interval, progress func(string)) (all []Check, err error) {
	prefixes := make([]netip.Prefix, len(routes))
	for i, r := range routes {
		prefixes[i] = r.Prefix
	}
	progress("start routers with one route and with the whole table, and measure them in the lab")
	tables, err := closedloop.NewTables(ctx, means, prefixes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	var costs [2]result.Cost
	for i, side := range []closedloop.Side{{Path: tables.One, Load: tables.Single[0]}, {Path: tables.Full, Load: tables.Many[0]}} {
		if costs[i], err = closedloop.Cost(ctx, side, checkRounds, nil); err != nil {
			return nil, err
		}
	}
	ports := costs[0].PerPacket.Median - p.Program
	bare := p
	bare.Rules = 0
	resting := p
	resting.Random = 0
	return []Check{
		check(fmt.Sprintf("%s routes, random destinations among them, no rules", grouped(p.Routes)), bare.PerPacket(ports), costs[1].PerPacket),
		check(fmt.Sprintf("one route, %s rules, random packets", grouped(p.RuleSet)), resting.PerPacket(ports), ruled),
	}, nil
}

// Packets of the test runs: the next hop's MAC is the router's own, so that a packet that was forwarded can come in again, until
// its TTL is used up.
const (
	testRuns    = 31
	testRepeats = 250
)

var (
	testNetwork = netip.MustParsePrefix("203.0.113.0/24")
	testGateway = netip.MustParseAddr("198.19.0.250")
	testSource  = device.InHosts[0].Addr().Next()
)

// xdpContext is struct xdp_md as BPF_PROG_TEST_RUN takes it.
type xdpContext struct {
	Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32
}

const xdpRedirect = 4

// programCosts are ns of the fast path's program for a packet, without what is around it.
type programCosts struct {
	same   float64 // of one packet again and again
	varied float64 // of packets that differ; what laying them does to the program is in it, so only differences count
}

// programCost runs the very program that is on the router's port.
func programCost(ctx context.Context, d *device.Device) (costs programCosts, err error) {
	node := d.Node()
	_, mac, err := node.Port(device.In)
	if err != nil {
		return costs, err
	}
	vary, err := newVariation(packet.MAC(mac))
	if err != nil {
		return costs, err
	}
	defer vary.close()
	for _, words := range [][]string{
		{"ip", "neigh", "replace", testGateway.String(), "lladdr", mac.String(), "dev", device.Out, "nud", "permanent"},
		{"ip", "route", "replace", testNetwork.String(), "via", testGateway.String(), "dev", device.Out},
	} {
		if _, err := node.Run(ctx, words...); err != nil {
			return costs, err
		}
	}
	err = node.Do(func() error {
		link, err := netlink.LinkByName(device.In)
		if err != nil {
			return err
		}
		if link.Attrs().Xdp == nil || link.Attrs().Xdp.ProgId == 0 {
			return errors.New("the router has no fast path on its port")
		}
		program, err := ebpf.NewProgramFromID(ebpf.ProgramID(link.Attrs().Xdp.ProgId))
		if err != nil {
			return fmt.Errorf("open the fast path's program: %w", err)
		}
		defer program.Close()
		if costs.same, err = testRun(ctx, program, testFrame(packet.MAC(mac)), uint32(link.Attrs().Index)); err != nil {
			return err
		}
		costs.varied, err = vary.cost(program, uint32(link.Attrs().Index))
		return err
	})
	return costs, err
}

// testFrame is a frame of the least length that the router forwards back to itself.
func testFrame(router packet.MAC) []byte {
	to := testNetwork.Addr().Next()
	datagram := packet.UDP{SrcPort: 40000, DstPort: 9}.Append(nil, testSource, to, make([]byte, 18))
	ip := packet.IPv4{TTL: 255, Protocol: packet.ProtoUDP, Src: testSource, Dst: to}.Append(nil, datagram)
	return packet.Ethernet{Dst: router, Src: packet.MAC{2, 0, 0, 0, 0, 1}, Type: packet.TypeIPv4}.Append(nil, ip)
}

// learning is how long the router may take until its fast path knows the route.
const learning = 5 * time.Second

func testRun(ctx context.Context, program *ebpf.Program, frame []byte, ifindex uint32) (float64, error) {
	run := func(repeats uint32) (uint32, float64, error) {
		begin := threadTime()
		code, err := program.Run(&ebpf.RunOptions{Data: frame, Repeat: repeats, Context: xdpContext{DataEnd: uint32(len(frame)), IngressIfindex: ifindex}})
		return code, float64(threadTime()-begin) / float64(repeats), err
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		code, _, err := run(1)
		switch {
		case err != nil:
			return 0, fmt.Errorf("run the fast path's program: %w", err)
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case code != xdpRedirect && time.Since(begin) > learning:
			return 0, fmt.Errorf("run the fast path's program: it does not forward the packet (XDP code %d)", code)
		}
		if code == xdpRedirect {
			break
		}
	}
	var times []float64
	for range testRuns {
		_, ns, err := run(testRepeats)
		if err != nil {
			return 0, fmt.Errorf("run the fast path's program: %w", err)
		}
		times = append(times, ns)
	}
	return statistics.Median(times), nil
}
