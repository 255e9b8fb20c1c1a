// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/result"
	"minne/internal/lab/rulegen"
	"minne/internal/lab/traffic"
	"minne/internal/model/packet"
)

// Translators is a rig of two equal Minne routers that keep state and translate sources
// (masquerade), one with its fast path and one without: the kernel. Unlike in the
// other rigs, generator and sink are one node, for connections have two directions:
//
//	tester.fast-in  ───▶ in   router   out ───▶ tester.fast-out
//	tester.slow-in  ───▶ in   router   out ───▶ tester.slow-out      and back
type Translators struct {
	*Rig
	Fast, Slow *Translator
	host       func(i int) netip.Addr // at which the ith flow begins
}

// Translator is one of the routers.
type Translator struct {
	*Path
	Established *Load  // packets of connections that conntrack has seen answered and aged, both ways by turns
	Connections Side   // whole TCP connections; empty before Connect
	flows       []flow // in the order in which they began
	ports       [2]int // of the tester: ifindex towards in and out
}

// The places of the routers.
const fastPlace, slowPlace = "fast", "slow"

// Flows is how many connections are established. 16 of each of the hosts.
const Flows = 1 << 16

const flowsPerHost = 16

// NewTranslators builds the routers. The caller closes the rig.
func NewTranslators(ctx context.Context, means device.Means) (*Translators, error) {
	t, err := newPair(ctx, means, []string{fastPlace, slowPlace}, func(dir, name string) (device.Spec, error) { return masquerading(dir, name == fastPlace, "") })
	if err == nil {
		t.Slow.forwarder = device.ByKernel
		t.Fast.Name, t.Slow.Name = "the fast path with translation", "the kernel with translation"
	}
	return t, err
}

// newPair builds two routers that translate, whose files spec writes to a directory.
func newPair(ctx context.Context, means device.Means, names []string, spec func(dir, name string) (device.Spec, error)) (*Translators, error) {
	dir, err := os.MkdirTemp("", "minne-nat-") // read once, when the routers begin
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var places []Place
	topology := lab.Topology{Nodes: []lab.Node{{Name: generatorNode}}}
	for _, name := range names {
		spec, err := spec(dir, name)
		if err != nil {
			return nil, err
		}
		places = append(places, Place{Name: name, Device: spec, Routes: oneRoute[:1]})
		topology.Nodes = append(topology.Nodes, lab.Node{Name: name})
		for _, port := range []string{device.In, device.Out} {
			topology.Links = append(topology.Links, lab.Link{
				A: lab.Port{Node: generatorNode, Name: name + "-" + port, Silent: true}, B: lab.Port{Node: name, Name: port}, Queues: floodQueues,
			})
		}
	}
	l, err := lab.Start(ctx, topology)
	if err != nil {
		return nil, err
	}
	t := &Translators{host: behind, Rig: &Rig{lab: l, devices: map[string]*device.Device{}, paths: map[string]*Path{}, cpu: runtime.NumCPU() - 1}}
	if err := t.build(ctx, means, places); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// masquerading writes a router's file, with more at its end, and returns the device.
func masquerading(dir string, fast bool, more string) (device.Spec, error) {
	text := "version: 1\nsystem: {hostname: device}\n"
	if !fast {
		text += "fast-path: {mode: off}\n"
	}
	text += zonedPorts(true) + fmt.Sprintf(`firewall:
  policies:
    - {from: %[1]s, to: %[2]s, rules: [permit any]}
nat:
  - {from: %[1]s, to: %[2]s, masquerade: true}
`, insideZone, outsideZone) + more
	file := filepath.Join(dir, fmt.Sprintf("fast-%t-%d.yaml", fast, len(more)))
	return device.Spec{Kind: device.Minne, Config: file}, os.WriteFile(file, []byte(text), 0o644)
}

func (t *Translators) build(ctx context.Context, means device.Means, places []Place) (err error) {
	if t.sink, err = traffic.NewSink(); err != nil {
		return err
	}
	for i, into := range []**Translator{&t.Fast, &t.Slow} {
		if *into, err = t.router(ctx, means, places[i]); err != nil {
			return err
		}
	}
	t.Fast.forwarder, t.Slow.forwarder = device.ByFastPath, device.ByFastPath
	return nil
}

// router starts the router in a place and finds the ways through it, in both directions.
func (t *Translators) router(ctx context.Context, means device.Means, p Place) (*Translator, error) {
	tester, node := t.lab.Node(generatorNode), t.lab.Node(p.Name)
	var index [2]int
	var own, routers [2]net.HardwareAddr
	var err error
	for i, port := range []string{device.In, device.Out} {
		if index[i], own[i], err = tester.Port(p.Name + "-" + port); err != nil {
			return nil, err
		}
		if _, routers[i], err = node.Port(port); err != nil {
			return nil, err
		}
		if err := tester.Do(func() error { return t.sink.Attach(index[i]) }); err != nil {
			return nil, err
		}
		if err := spread(ctx, node, port); err != nil {
			return nil, err
		}
	}
	d, err := p.Device.Start(ctx, node, p.wiring(own[0], own[1]), means)
	if err != nil {
		return nil, err
	}
	if err := d.AwaitReady(ctx); err != nil {
		return nil, err
	}
	t.devices[p.Name] = d
	path := &Path{
		rig: t.Rig, device: d, hops: d.Hops(), sink: own[1], macBytes: 5,
		route: traffic.Route{Port: index[0], From: own[0], To: routers[0]},
		back:  &leg{route: traffic.Route{Port: index[1], From: own[1], To: routers[1]}, mac: own[0]},
	}
	return &Translator{Path: path, ports: index}, nil
}

// flow is a connection: from where to where it begins, and what the router made of its source.
type flow struct {
	from, to, outside netip.AddrPort
}

// behind are the hosts that flows begin at by default: flowsPerHost at each.
func behind(i int) netip.Addr {
	host := device.InHosts[0].Addr().As4()
	host[2], host[3] = host[2]|byte(i/flowsPerHost>>8), byte(i/flowsPerHost)
	return netip.AddrFrom4(host)
}

// begin chooses flows that differ in something else than their source port, for the hosts inside share one address.
func begin(n int, host func(i int) netip.Addr) []flow {
	random := rand.New(rand.NewPCG(PolicySeed, 3))
	flows := make([]flow, n)
	for i := range flows {
		flows[i].from = netip.AddrPortFrom(host(i), uint16(1024+random.IntN(1<<16-1024)))
		flows[i].to = netip.AddrPortFrom(rulegen.Inside(device.OutHosts[0], random), 443)
	}
	return flows
}

// forth and back are a flow's packets: one that begins it, and one that answers.
func (f flow) forth(stream uint8) traffic.Packet {
	return traffic.Packet{Source: f.from.Addr(), SourcePort: f.from.Port(), Destination: f.to.Addr(), DestinationPort: f.to.Port(),
		Protocol: unix.IPPROTO_UDP, FrameBytes: traffic.MinFrame4, Stream: stream}
}

func (f flow) back(stream uint8) traffic.Packet {
	return traffic.Packet{Source: f.to.Addr(), SourcePort: f.to.Port(), Destination: f.outside.Addr(), DestinationPort: f.outside.Port(),
		Protocol: unix.IPPROTO_UDP, FrameBytes: traffic.MinFrame4, Stream: stream}
}

// aged is how long conntrack takes to call UDP packets in both directions a stream (2 s), and a little more.
const aged = 2200 * time.Millisecond

// Establish begins n UDP connections in both routers, has them answered, and waits until conntrack keeps them
// (ASSURED). What the answers go to is read from the packets that came out of the router.
func (t *Translators) Establish(ctx context.Context, n int) error {
	both := []*Translator{t.Fast, t.Slow}
	for _, r := range both {
		r.flows = begin(n, t.host)
		if err := r.learn(ctx); err != nil {
			return err
		}
		var err error
		if r.Established, err = r.both(n); err != nil {
			return err
		}
		if err := r.pass(ctx); err != nil {
			return err
		}
	}
	if err := lab.Pause(ctx, aged); err != nil {
		return err
	}
	for _, r := range both {
		if err := r.pass(ctx); err != nil {
			return err
		}
		kept, err := r.kept(ctx)
		if err != nil {
			return err
		}
		if kept < n {
			return fmt.Errorf("%s: conntrack keeps %d of %d connections", r.Name, kept, n)
		}
	}
	return nil
}

// AwaitFast waits until the fast path forwards every packet of the established connections; the error says why it can't.
func (t *Translators) AwaitFast(ctx context.Context) error {
	if err := t.Fast.capable(ctx); err != nil {
		return err
	}
	return t.Fast.AwaitFast(ctx, t.Fast.Established)
}

// pass sends every packet of the established connections once; all must arrive whole.
func (r *Translator) pass(ctx context.Context) error {
	trial, err := r.TryWhole(ctx, r.Established, r.Established.packets)
	if err == nil && trial.Lost > 0 {
		err = fmt.Errorf("%s: %d of %d packets of known connections were lost", r.Name, trial.Lost, r.Established.packets)
	}
	return err
}

// both makes a load of the first n flows, in another order than that in which they began.
func (r *Translator) both(n int) (*Load, error) {
	return r.bothWays(rand.New(rand.NewPCG(PolicySeed, 5)).Perm(n), [2]uint8{stream4, streamReply})
}

// bothWays makes a load of flows, by their numbers, with packets and answers by turns, each in a stream.
func (r *Translator) bothWays(numbers []int, streams [2]uint8) (*Load, error) {
	lap := make([]traffic.Packet, 0, 2*len(numbers))
	for _, i := range numbers {
		lap = append(lap, r.flows[i].forth(streams[0]), r.flows[i].back(streams[1]))
	}
	size := traffic.MinFrame4 + 4
	subject := result.Subject{Traffic: fmt.Sprintf("%d flows, both ways", len(numbers)), FrameSize: size, MeanSize: float64(size)}
	load, err := r.rig.newLoad(subject, traffic.Lap{Packets: len(lap), Packet: func(i int) traffic.Packet { return lap[i] }},
		map[uint8]int{streams[0]: traffic.MinFrame4, streams[1]: traffic.MinFrame4})
	if err == nil {
		load.ahead = len(lap) // the other router's connections have just been through the caches
	}
	return load, err
}

// kept counts the UDP connections that the router's conntrack keeps.
func (r *Translator) kept(ctx context.Context) (int, error) {
	out, err := r.device.Node().Run(ctx, "sh", "-c", "grep -c 'udp .*ASSURED' /proc/net/nf_conntrack || true")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// learnt is how many packets are sent before they are read: fewer than fit into the socket.
const learnt = 1 << 12

// learn sends the first packet of every flow and notes where it seems to come from behind the router.
func (r *Translator) learn(ctx context.Context) error {
	first, err := r.rig.newLoad(result.Subject{}, traffic.Lap{Packets: len(r.flows), Packet: func(i int) traffic.Packet { return r.flows[i].forth(stream4) }},
		map[uint8]int{stream4: traffic.MinFrame4})
	if err != nil {
		return err
	}
	var heard int
	err = r.rig.lab.Node(generatorNode).Do(func() (err error) { heard, err = listen(r.ports[1]); return err })
	if err != nil {
		return err
	}
	defer unix.Close(heard)
	for at := 0; at < len(r.flows); at += learnt {
		n := min(learnt, len(r.flows)-at)
		if err := r.rig.sink.ExpectStreams(nil); err != nil { // what is expected would not reach the socket
			return err
		}
		if _, err := r.send(ctx, first, traffic.Order{Frames: uint64(n), Offset: at, Filled: true}); err != nil {
			return err
		}
		if err := r.note(heard, at, n); err != nil {
			return err
		}
	}
	return nil
}

// note reads n packets of the flows from number at on.
func (r *Translator) note(socket, at, n int) error {
	var frame [256]byte
	for seen := 0; seen < n; {
		size, _, err := unix.Recvfrom(socket, frame[:], 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %d of %d first packets came out: %w", r.Name, seen, n, err)
		}
		const stamp = packet.EthernetLen + packet.IPv4Len + 8 // behind the UDP header
		s := packet.Summarize(frame[:size])
		if size < stamp || s.Protocol != unix.IPPROTO_UDP {
			continue
		}
		_, number, _, ok := traffic.ReadStamp(frame[stamp:size])
		if !ok || number >= uint64(n) {
			continue
		}
		f := &r.flows[at+int(number)]
		if to := netip.AddrPortFrom(s.Destination, s.DstPort); to != f.to {
			return fmt.Errorf("%s: a packet to %s came out to %s", r.Name, f.to, to)
		}
		f.outside = netip.AddrPortFrom(s.Source, s.SrcPort)
		if f.outside.Addr() != device.OutAddresses[0].Addr() {
			return fmt.Errorf("%s: a packet from %s came out from %s, expected the router's address", r.Name, f.from, f.outside)
		}
		seen++
	}
	return nil
}

// listen opens a socket of the calling thread's namespace that hears IPv4 packets on a port, for a second at most.
func listen(ifindex int) (int, error) {
	ipv4 := binary.NativeEndian.Uint16([]byte{unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff}) // in network byte order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, learnt<<13),
		unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}),
		unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: ipv4, Ifindex: ifindex}))
	if err != nil {
		unix.Close(socket)
		return 0, fmt.Errorf("listen on port %d: %w", ifindex, err)
	}
	return socket, nil
}
