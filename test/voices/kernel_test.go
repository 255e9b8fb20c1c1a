// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"minne/internal/packet"
	"minne/internal/reference"
	"minne/internal/rib"
)

// kernelVoice is the third voice: a Linux router in a namespace of its own, whose
// ports' far ends lie in another namespace without addresses. A window of frames
// goes in, everything that comes out is matched to them by stamp and addresses.
//
// The sending thread also does the router's softirq work, in order, so when the
// marker frame that ends every window has come out, so has all that was to come.
// Markers stand between the frames too: one that is missing means that the test
// bed lost frames, and the window is asked again.
type kernelVoice struct {
	router, far *namespace
	wire        *wire
	own         map[netip.Addr]bool
	marker      outgoing
	expected    []byte // the marker as it comes out
	windows     uint64
	repeated    int    // windows asked again because a marker was lost
	refused     uint64 // frames too long for their wire
	foreign     uint64 // frames that the router itself made: ICMP errors, ARP, ND
}

// farIndex is the ifindex of the far end of port 0.
const farIndex = 200

// hashSeed is the seed of the kernel's choice among several next hops.
const hashSeed = 0x5eed1234

// output is one frame that the kernel sent on behalf of a generated one.
type output struct {
	port  int
	frame []byte
}

// newKernelVoice builds the router and its wire.
func newKernelVoice(t *testing.T, n *network) *kernelVoice {
	t.Helper()
	k := &kernelVoice{router: newNamespace(t), far: newNamespace(t), own: map[netip.Addr]bool{netip.IPv6Unspecified(): true}}
	for _, r := range reference.Connected(n.ports) {
		if r.Type == rib.Local || r.Type == rib.Anycast {
			k.own[r.Prefix.Addr()] = true
		}
	}
	k.far.sysctl(t, "ipv6/conf/all/disable_ipv6=1", "ipv6/conf/default/disable_ipv6=1")
	k.router.sysctl(t, "ipv6/conf/default/accept_dad=0", "ipv6/conf/default/addr_gen_mode=1",
		"ipv6/conf/default/accept_ra=0", "ipv6/conf/default/router_solicitations=0",
		"ipv4/conf/all/send_redirects=0", "ipv4/conf/default/send_redirects=0",
		"ipv4/conf/all/accept_redirects=0", "ipv4/conf/default/accept_redirects=0",
		"ipv4/conf/all/accept_source_route=0", "ipv4/conf/all/rp_filter=0", "ipv4/conf/default/rp_filter=0",
		"ipv4/fib_multipath_hash_policy=1", "ipv6/fib_multipath_hash_policy=1",
		fmt.Sprintf("ipv4/fib_multipath_hash_seed=%d", hashSeed),
		"ipv4/icmp_ratelimit=0", "ipv6/icmp/ratelimit=0", "ipv6/icmp/ratemask=")
	k.router.ip(t, n.linkCommands(k.far.path()))
	k.far.ip(t, n.farCommands())
	k.router.ip(t, n.stateCommands())
	k.router.run(t, n.sourceChecks(), "nft", "-f", "-")
	k.router.sysctl(t, "ipv4/ip_forward=1", "ipv6/conf/all/forwarding=1")
	if err := k.far.do(func() (err error) { k.wire, err = newWire(); return }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.wire.close)
	k.newMarker(n)
	return k
}

// linkCommands makes the router's ports, as ip -batch takes it.
func (n *network) linkCommands(far string) []string {
	lines := []string{"link set lo up"}
	for i, p := range n.ports {
		lines = append(lines,
			fmt.Sprintf("link add %s index %d address %s mtu %d type veth peer name w%d index %d mtu 9500 netns %s",
				portName(p.Index), p.Index, p.MAC, p.MTU, i+1, farIndex+i+1, far),
			fmt.Sprintf("link set %s up", portName(p.Index)))
	}
	return lines
}

// stateCommands is the router's addresses, neighbours and routes.
func (n *network) stateCommands() []string {
	var lines []string
	for _, p := range n.ports {
		for _, a := range p.Addresses {
			lines = append(lines, fmt.Sprintf("address add %s dev %s", a, portName(p.Index)))
		}
	}
	for _, nb := range n.neighbours {
		lines = append(lines, fmt.Sprintf("neighbour add %s lladdr %s dev %s nud permanent", nb.Address, nb.MAC, portName(nb.Interface)))
	}
	for _, g := range n.groups {
		lines = append(lines, "nexthop add id "+fmt.Sprint(g.ID)+nextHopWords(g))
	}
	for _, r := range n.routes {
		lines = append(lines, routeCommand(r))
	}
	return lines
}

func portName(index int) string { return fmt.Sprintf("p%d", index-firstIndex) }

// nextHopWords is a next-hop object as ip nexthop takes it.
func nextHopWords(g rib.NextHopGroup) string {
	if g.Blackhole {
		return " blackhole"
	}
	if len(g.Members) == 0 {
		return hopWords(g.Hop)
	}
	var members []string
	for _, m := range g.Members {
		members = append(members, fmt.Sprintf("%d,%d", m.ID, m.Weight))
	}
	return " group " + strings.Join(members, "/")
}

func hopWords(h rib.Hop) string {
	var b strings.Builder
	if h.Gateway.IsValid() {
		fmt.Fprintf(&b, " via %s", h.Gateway)
	}
	fmt.Fprintf(&b, " dev %s", portName(h.Interface))
	if h.Flags&rib.HopOnLink != 0 {
		b.WriteString(" onlink")
	}
	return b.String()
}

// routeCommand is a route as ip route takes it.
func routeCommand(r rib.Route) string {
	kinds := map[rib.RouteType]string{rib.Unicast: "", rib.Blackhole: "blackhole ", rib.Unreachable: "unreachable ", rib.Prohibit: "prohibit "}
	line := fmt.Sprintf("route add %s%s metric %d proto static", kinds[r.Type], r.Prefix, r.Metric)
	if r.MTU != 0 {
		line += fmt.Sprintf(" mtu %d", r.MTU)
	}
	switch {
	case r.Type != rib.Unicast:
	case r.NextHopID != 0:
		line += fmt.Sprintf(" nhid %d", r.NextHopID)
	case len(r.Hops) == 1:
		words := hopWords(r.Hops[0])
		if r.Prefix.Addr().Is4() && r.Hops[0].Gateway.Is6() {
			words = strings.Replace(words, " via ", " via inet6 ", 1)
		}
		line += words
	default:
		for _, h := range r.Hops {
			line += fmt.Sprintf(" nexthop%s weight %d", hopWords(h), h.Weight)
		}
	}
	return line
}

func (n *network) farCommands() []string {
	var lines []string
	for i := range n.ports {
		lines = append(lines, fmt.Sprintf("link set w%d up", i+1))
	}
	return lines
}

// sourceChecks is the nftables rules of the source checks.
func (n *network) sourceChecks() []string {
	lines := []string{"table inet check {", "chain prerouting {", "type filter hook prerouting priority raw; policy accept;"}
	for _, p := range n.ports {
		switch p.SourceCheck {
		case reference.SourceStrict:
			lines = append(lines, fmt.Sprintf("iifname %s fib saddr . iif oif missing drop", portName(p.Index)))
		case reference.SourceLoose:
			lines = append(lines, fmt.Sprintf("iifname %s fib saddr oif missing drop", portName(p.Index)))
		}
	}
	return append(lines, "}", "}")
}

// newMarker builds the frame that is always forwarded: from the open to the jumbo port.
func (k *kernelVoice) newMarker(n *network) {
	src, dst := netip.MustParseAddr("10.2.255.254"), netip.MustParseAddr("198.18.4.20")
	frame := packet.Ethernet{Dst: portMAC(openPort), Src: packet.MAC{2, 0xee}, Type: packet.TypeIPv4}.Append(nil,
		packet.IPv4{TTL: 64, Protocol: packet.ProtoUDP, Src: src, Dst: dst}.Append(nil,
			packet.UDP{SrcPort: 9, DstPort: 9}.Append(nil, src, dst, make([]byte, 16))))
	binary.BigEndian.PutUint16(frame[40:], 0) // no UDP checksum: the payload changes
	k.marker = outgoing{farIndex + openPort, frame}
	k.expected = n.reference().Decide(firstIndex+openPort, frame)[0].Frame
}

// mark writes a number into the marker's payload.
func mark(frame []byte, window uint64, place int) []byte {
	frame = bytes.Clone(frame)
	binary.BigEndian.PutUint64(frame[42:], window)
	binary.BigEndian.PutUint64(frame[50:], uint64(place))
	return frame
}

// markEvery is how many frames stand between two markers.
const markEvery = 32

// ask sends a window of frames through the router; outputs[i] is what came out for frame i.
func (k *kernelVoice) ask(samples []packet.Sample) (outputs [][]output, err error) {
	for range 5 {
		outputs, complete, err := k.try(samples)
		if err != nil || complete {
			return outputs, err
		}
		k.repeated++
	}
	return nil, fmt.Errorf("the test bed lost frames of one window five times")
}

func (k *kernelVoice) try(samples []packet.Sample) (outputs [][]output, complete bool, err error) {
	k.windows++
	var frames []outgoing
	markers := 0
	for i, s := range samples {
		if i%markEvery == 0 {
			frames = append(frames, outgoing{k.marker.link, mark(k.marker.frame, k.windows, markers)})
			markers++
		}
		frames = append(frames, outgoing{s.Port - firstIndex + farIndex, s.Frame})
	}
	frames = append(frames, outgoing{k.marker.link, mark(k.marker.frame, k.windows, markers)})
	markers++
	err = k.far.do(func() error {
		refused, err := k.wire.send(frames)
		k.refused += uint64(len(refused))
		return err
	})
	if err != nil {
		return nil, false, err
	}
	outputs = make([][]output, len(samples))
	deadline := time.Now().Add(2 * time.Second)
	for seen := 0; seen < markers; {
		c, ok := k.wire.read(deadline)
		if !ok {
			return nil, false, nil
		}
		place, ok := k.isMarker(c)
		switch {
		case ok && place == seen:
			seen++
			continue
		case ok:
			return nil, false, nil
		}
		if i, ok := match(samples, c.frame); ok {
			outputs[i] = append(outputs[i], output{c.link - farIndex + firstIndex, c.frame})
		} else if err := k.ownFrame(c.frame); err != nil {
			return nil, false, err
		} else {
			k.foreign++
		}
	}
	lost, err := k.wire.lost()
	return outputs, lost == 0, err
}

// isMarker tells whether a captured frame is a marker of this window, and which one.
func (k *kernelVoice) isMarker(c captured) (place int, ok bool) {
	if c.link != farIndex+jumboPort || len(c.frame) != len(k.expected) || !bytes.Equal(c.frame[:42], k.expected[:42]) {
		return 0, false
	}
	return int(binary.BigEndian.Uint64(c.frame[50:])), binary.BigEndian.Uint64(c.frame[42:]) == k.windows
}

// match finds the frame of the window that a captured one is the forwarded form
// of: the same stamp, addresses and protocol family.
func match(samples []packet.Sample, frame []byte) (int, bool) {
	id, ok := packet.StampOf(frame)
	if !ok {
		return 0, false
	}
	i := int(uint64(id)-samples[0].Number) & 0xffff
	if i >= len(samples) || !sameAddresses(samples[i].Frame, frame) {
		return 0, false
	}
	return i, true
}

// sameAddresses compares the network addresses of two frames, fragments included.
func sameAddresses(a, b []byte) bool {
	x, kindX, okX := packet.NetworkOffset(a)
	y, kindY, okY := packet.NetworkOffset(b)
	if !okX || !okY || kindX != kindY {
		return false
	}
	from, to := 12, 20
	if kindX == packet.TypeIPv6 {
		from, to = 8, 40
	}
	return len(a) >= x+to && len(b) >= y+to && bytes.Equal(a[x+from:x+to], b[y+from:y+to])
}

// ownFrame checks that an unmatched frame is one that the router made itself;
// anything else would be a forwarded packet that escaped the comparison.
func (k *kernelVoice) ownFrame(frame []byte) error {
	at, kind, ok := packet.NetworkOffset(frame)
	if ok && kind == packet.TypeARP {
		return nil
	}
	b := frame[min(at, len(frame)):]
	if ok && kind == packet.TypeIPv4 && len(b) >= packet.IPv4Len && k.own[netip.AddrFrom4([4]byte(b[12:16]))] {
		return nil
	}
	if ok && kind == packet.TypeIPv6 && len(b) >= packet.IPv6Len && k.own[netip.AddrFrom16([16]byte(b[8:24]))] {
		return nil
	}
	return fmt.Errorf("the kernel sent a frame that is neither its own nor the forwarded form of one it got: %x", frame)
}
