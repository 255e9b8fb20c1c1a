// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/lab"
	"minne/internal/lab/traffic"
	"minne/internal/model/packet"
	"minne/internal/testing/testbuild"
)

const portsConfig = `version: 1
system: {hostname: router, router-id: 192.0.2.1}
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  wan: {addresses: [198.51.100.1/24]}
`

// TestAFloodOnTheLANCostsTheWANNothing sends DHCP and ARP of random MACs on the LAN, 30,000 frames a second, while the
// ISP's DHCP server says something ten times a second: the router's client hears all of it.
func TestAFloodOnTheLANCostsTheWANNothing(t *testing.T) {
	topology := lab.Topology{Nodes: []lab.Node{{Name: "router"}}}
	for _, n := range neighbours {
		topology.Nodes = append(topology.Nodes, lab.Node{Name: n.name})
		topology.Links = append(topology.Links, lab.Link{
			A: lab.Port{Node: n.name, Name: far, Addresses: []netip.Prefix{netip.PrefixFrom(n.address, 24)}},
			B: lab.Port{Node: "router", Name: n.port},
		})
	}
	l, err := lab.Start(t.Context(), topology)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &network{T: t, lab: l}
	lan, wan := neighbours[0], neighbours[1]
	w.must(l.Node(lan.name).AcceptRedirects(far), l.Node(wan.name).AcceptRedirects(far))
	w.router, err = l.Node("router").Minne(testbuild.Minne(t, t.TempDir()), portsConfig, "")
	w.must(err, w.router.StartDaemon(t.Context()))
	_, err = w.router.Command(t.Context(), "apply", w.router.Config)
	w.must(err)

	var client *net.UDPConn
	w.must(l.Node("router").Do(func() error {
		client, err = net.ListenUDP("udp4", &net.UDPAddr{IP: wan.router.AsSlice(), Port: 68})
		return err
	}))
	defer client.Close()
	var server *net.UDPConn
	w.must(l.Node(wan.name).Do(func() error {
		server, err = net.DialUDP("udp4", &net.UDPAddr{IP: wan.address.AsSlice(), Port: 67}, &net.UDPAddr{IP: wan.router.AsSlice(), Port: 68})
		return err
	}))
	defer server.Close()

	ctx, stop := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() { sent <- w.floodMACs(ctx, lan) }()
	w.must(lab.Until(t.Context(), 30*time.Second, "the flood to use up DHCP's budget", func() error {
		if n := w.droppedOf("dhcp"); n < 1000 {
			return fmt.Errorf("%d packets dropped", n)
		}
		return nil
	}))
	const answers = 30
	for i := range answers {
		_, err := server.Write([]byte{byte(i)})
		w.must(err)
		time.Sleep(100 * time.Millisecond) // the pace of the server: a source has 20 a second
	}
	heard := map[byte]bool{}
	w.must(client.SetReadDeadline(time.Now().Add(5 * time.Second)))
	for len(heard) < answers {
		word := make([]byte, 1)
		if _, err := client.Read(word); err != nil {
			break
		}
		heard[word[0]] = true
	}
	before := w.droppedOf("dhcp")
	w.must(lab.Until(t.Context(), 30*time.Second, "the flood to go on", func() error {
		if w.droppedOf("dhcp") <= before {
			return fmt.Errorf("no more than %d packets dropped", before)
		}
		return nil
	}))
	stop()
	w.must(<-sent)
	if len(heard) != answers {
		t.Errorf("%d of %d answers of the WAN's DHCP server were heard", len(heard), answers)
	}
}

// floodMACs sends what stations of a LAN begin with, from 200 random MACs, until ctx ends.
func (w *network) floodMACs(ctx context.Context, n neighbour) error {
	g, err := traffic.NewGenerator()
	if err != nil {
		return err
	}
	defer g.Close()
	random := rand.New(rand.NewPCG(1, 2))
	var frames []traffic.Recorded
	routes := map[uint8]traffic.Route{}
	everybody, all := netip.AddrFrom4([4]byte{255, 255, 255, 255}), net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	return w.lab.Node(n.name).Do(func() error {
		link, err := netlink.LinkByName(far)
		if err != nil {
			return err
		}
		for stream := range uint8(200) {
			mac := binary.BigEndian.AppendUint32([]byte{2, stream}, random.Uint32())
			routes[stream] = traffic.Route{Port: link.Attrs().Index, From: mac, To: all}
			none := netip.IPv4Unspecified()
			discover := packet.UDP{SrcPort: 68, DstPort: 67}.Append(nil, none, everybody, make([]byte, 240))
			header := packet.IPv4{TTL: 64, Protocol: packet.ProtoUDP, Src: none, Dst: everybody}
			frames = append(frames, traffic.Recorded{Stream: stream, Frame: packet.Ethernet{Type: packet.TypeIPv4}.Append(nil, header.Append(nil, discover))})
			ask := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, mac...)
			ask = append(append(append(ask, 192, 0, 2, 3+stream), make([]byte, 6)...), n.router.AsSlice()...)
			frames = append(frames, traffic.Recorded{Stream: stream, Frame: append(packet.Ethernet{Type: packet.TypeARP}.Append(nil, ask), make([]byte, 18)...)})
		}
		if err := g.SetReplay(frames, 0); err != nil {
			return err
		}
		_, err = g.Run(ctx, traffic.Order{Rate: 30_000, Duration: time.Minute, Routes: routes})
		return err
	})
}

// droppedOf is how many packets of a class the guard has dropped.
func (w *network) droppedOf(class string) uint64 {
	w.Helper()
	var o struct {
		Guard []struct {
			Class   string `json:"class"`
			Dropped uint64 `json:"dropped"`
		} `json:"guard"`
	}
	w.must(w.router.JSON(w.Context(), &o, "show", "fast-path"))
	for _, c := range o.Guard {
		if c.Class == class {
			return c.Dropped
		}
	}
	w.Fatalf("no class %s", class)
	return 0
}
