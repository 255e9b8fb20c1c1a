// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/config"
	"minne/internal/model/packet"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/prove"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/reference"
	"minne/internal/testing/testframes"
	"minne/internal/testing/testwire"
)

// bed is a router under test: its ports in one namespace, their far ends in
// another one without addresses. A window of frames goes in by the far ends,
// everything that comes out is matched to them by stamp and addresses.
//
// Markers, frames that are always forwarded, stand between the others and end a
// window on every port, so when all of them have come out, so has all that was to
// come. One that is missing means that the test bed lost frames, and the window
// is asked again.
type bed struct {
	router, far *namespace
	base        int // ifindex of the far end of port 0
	wire        *testwire.Wire
	own         map[netip.Addr]bool
	markers     [lastPort]testwire.Outgoing // by egress port - 1
	expected    [lastPort][]byte            // the markers as they come out
	marked      [lastPort]uint64            // how many of each were sent
	windows     uint64
	repeated    int    // windows asked again because a marker was lost
	refused     uint64 // frames too long for their wire
}

// output is one frame that a router sent on behalf of a generated one.
type output struct {
	port  int
	frame []byte
}

// newBed builds a router in the given namespace, as the network says and with the
// settings that the product gives to the kernel.
func newBed(t *testing.T, n *network, router *namespace, base int) *bed {
	t.Helper()
	k := &bed{router: router, far: newNamespace(t), base: base, own: map[netip.Addr]bool{netip.IPv6Unspecified(): true}}
	for _, r := range reference.Connected(n.Ports) {
		if r.Type == rib.Local || r.Type == rib.Anycast {
			k.own[r.Prefix.Addr()] = true
		}
	}
	desired, err := kernel.Render(n.config())
	if err != nil {
		t.Fatal(err)
	}
	k.far.sysctl(t, kernel.Sysctl{Path: "net/ipv6/conf/all/disable_ipv6", Value: "1"}, kernel.Sysctl{Path: "net/ipv6/conf/default/disable_ipv6", Value: "1"})
	// Addresses that are usable at once, and only those that the network has.
	k.router.sysctl(t, kernel.Sysctl{Path: "net/ipv6/conf/default/accept_dad", Value: "0"}, kernel.Sysctl{Path: "net/ipv6/conf/default/addr_gen_mode", Value: "1"})
	k.router.ip(t, n.linkCommands(k.far.path(), base))
	k.far.ip(t, n.farCommands())
	k.router.sysctl(t, desired.Sysctls...)
	k.router.ip(t, n.stateCommands())
	k.router.run(t, []string{desired.AntiSpoof}, "nft", "-f", "-")
	k.router.sysctl(t, kernel.Sysctl{Path: "net/ipv4/ip_forward", Value: "1"}, kernel.Sysctl{Path: "net/ipv6/conf/all/forwarding", Value: "1"})
	if err := k.far.do(func() (err error) { k.wire, err = testwire.New(); return }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.wire.Close)
	k.newMarkers(n)
	return k
}

// config is the part of a configuration file that matters here.
func (n *network) config() *config.Config {
	cfg := &config.Config{Version: 1, Interfaces: map[string]*config.Interface{}}
	words := map[reference.SourceCheck]config.AntiSpoof{reference.SourceAny: "off", reference.SourceLoose: "loose", reference.SourceStrict: "strict"}
	for _, p := range n.Ports {
		on := config.OnOff(!p.SlowPath)
		cfg.Interfaces[p.Name] = &config.Interface{AntiSpoof: words[p.SourceCheck], FastPath: &on}
	}
	return config.Normalize(cfg)
}

// linkCommands makes the router's ports, as ip -batch takes it.
func (n *network) linkCommands(far string, base int) []string {
	lines := []string{"link set lo up"}
	for i, p := range n.Ports {
		lines = append(lines,
			fmt.Sprintf("link add %s index %d address %s mtu %d type veth peer name w%d index %d mtu 3450 netns %s",
				p.Name, p.Index, p.MAC, p.MTU, i+1, base+i+1, far),
			fmt.Sprintf("link set %s up", p.Name))
	}
	return lines
}

// stateCommands is the router's addresses, neighbours and routes.
func (n *network) stateCommands() []string {
	var lines []string
	for _, p := range n.Ports {
		for _, a := range p.Addresses {
			lines = append(lines, fmt.Sprintf("address add %s dev %s", a, p.Name))
		}
	}
	for _, nb := range n.Neighbours {
		lines = append(lines, fmt.Sprintf("neighbour add %s lladdr %s dev %s nud permanent", nb.Address, nb.MAC, portName(nb.Interface)))
	}
	for _, g := range n.NextHops {
		lines = append(lines, "nexthop add id "+fmt.Sprint(g.ID)+nextHopWords(g))
	}
	for _, r := range n.Routes {
		lines = append(lines, routeCommand(r))
	}
	return lines
}

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
	for i := range n.Ports {
		lines = append(lines, fmt.Sprintf("link set w%d up", i+1))
	}
	return lines
}

// newMarkers builds frames that are always forwarded: from the open port to each other, and back from the jumbo port.
func (k *bed) newMarkers(n *network) {
	all := n.State
	all.Ports = slices.Clone(all.Ports)
	for i := range all.Ports {
		all.Ports[i].SlowPath = false // the kernel forwards there all the same
	}
	router := reference.New(all)
	for i := range k.markers {
		from := openPort
		if i+1 == openPort {
			from = jumboPort
		}
		src, dst := netip.AddrFrom4([4]byte{10, byte(from), 255, 254}), netip.AddrFrom4([4]byte{198, 18, byte(i + 1), 20})
		frame := packet.Ethernet{Dst: portMAC(from), Src: packet.MAC{2, 0xee}, Type: packet.TypeIPv4}.Append(nil,
			packet.IPv4{TTL: 64, Protocol: packet.ProtoUDP, Src: src, Dst: dst}.Append(nil,
				packet.UDP{SrcPort: 9, DstPort: 9}.Append(nil, src, dst, make([]byte, 16))))
		binary.BigEndian.PutUint16(frame[40:], 0) // no UDP checksum: the payload changes
		k.markers[i] = testwire.Outgoing{Link: k.base + from, Frame: frame}
		k.expected[i] = router.Decide(firstIndex+from, frame)[0].Frame
	}
}

// marker is the marker of that number: they take turns over the ports.
func (k *bed) marker(number int) testwire.Outgoing {
	k.marked[number%lastPort]++
	m := k.markers[number%lastPort]
	m.Frame = bytes.Clone(m.Frame)
	binary.BigEndian.PutUint64(m.Frame[42:], k.windows)
	binary.BigEndian.PutUint64(m.Frame[50:], uint64(number))
	return m
}

// markEvery is how many frames stand between two markers.
const markEvery = 32

// ask sends a window of frames through the router; outputs[i] is what came out for frame i.
func (k *bed) ask(samples []testframes.Sample) (outputs [][]output, err error) {
	for range 5 {
		outputs, complete, err := k.try(samples)
		if err != nil || complete {
			return outputs, err
		}
		k.repeated++
	}
	return nil, fmt.Errorf("the test bed lost frames of one window five times")
}

func (k *bed) try(samples []testframes.Sample) (outputs [][]output, complete bool, err error) {
	k.windows++
	var frames []testwire.Outgoing
	markers := 0
	for i, s := range samples {
		if i%markEvery == 0 {
			frames = append(frames, k.marker(markers))
			markers++
		}
		frames = append(frames, testwire.Outgoing{Link: s.Port - firstIndex + k.base, Frame: s.Frame})
	}
	for range lastPort {
		frames = append(frames, k.marker(markers))
		markers++
	}
	err = k.far.do(func() error {
		refused, err := k.wire.Send(frames)
		k.refused += uint64(len(refused))
		return err
	})
	if err != nil {
		return nil, false, err
	}
	outputs, complete, err = k.collect(samples, markers)
	if err != nil || !complete {
		return nil, false, err
	}
	lost, err := k.wire.Lost()
	return outputs, lost == 0, err
}

// collect reads what comes out until every marker of the window has.
func (k *bed) collect(samples []testframes.Sample, markers int) (outputs [][]output, complete bool, err error) {
	outputs = make([][]output, len(samples))
	deadline := time.Now().Add(2 * time.Second)
	for seen := 0; seen < markers; {
		c, ok := k.wire.Read(deadline)
		if !ok {
			return nil, false, nil
		}
		if window, ok := k.isMarker(c); ok {
			if window == k.windows {
				seen++
			}
			continue
		}
		if i, ok := testframes.Match(samples, c.Frame); ok {
			outputs[i] = append(outputs[i], output{c.Link - k.base + firstIndex, c.Frame})
		} else if err := k.ownFrame(c.Frame); err != nil {
			return nil, false, err
		}
	}
	return outputs, true, nil
}

// isMarker tells whether a captured frame is a marker, and of which window.
func (k *bed) isMarker(c testwire.Captured) (window uint64, ok bool) {
	expected := k.expected[c.Link-k.base-1]
	if len(c.Frame) != len(expected) || !bytes.Equal(c.Frame[:42], expected[:42]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(c.Frame[42:]), true
}

// ownFrame checks that an unmatched frame is one that the router made itself;
// anything else would be a forwarded packet that escaped the comparison.
func (k *bed) ownFrame(frame []byte) error {
	if len(frame) > 12 && bytes.Equal(frame, prove.Frame([6]byte(frame[6:12]))) {
		return nil // a port that is asked whether it sends
	}
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
	return fmt.Errorf("the router sent a frame that is neither its own nor the forwarded form of one it got: %x", frame)
}
