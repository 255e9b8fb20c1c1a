// SPDX-License-Identifier: Apache-2.0

// Package vlan runs the router with VLANs and QinQ end to end, inside a User-Mode
// Linux kernel: the machine's own may have no VLANs. The kernel inside has no
// JIT, so the eBPF program also proves that it runs interpreted.
package kinds

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
	"minne/internal/testing/testuml"
)

func TestMain(m *testing.M) {
	testuml.Main(m, append([]string{"veth", "8021q", "dummy", "ipv6", "bonding", "bridge", "vrf", "ip_gre", "ipip", "sit", "vxlan", "pppoe"}, bypassModules...)...)
}

// stacked is a trunk with one customer VLAN and one inside another (QinQ), and a port without tags.
const stacked = `
version: 1
system: {hostname: stick, router-id: 10.0.10.1}
interfaces:
  trunk: {match: {name: t0}, mtu: 1508}
  red: {vlan: {parent: trunk, id: 10}, mtu: 1500, addresses: [10.0.10.1/24, "2001:db8:10::1/64"]}
  outer: {vlan: {parent: trunk, id: 20, protocol: 802.1ad}, mtu: 1504}
  blue: {vlan: {parent: outer, id: 30}, mtu: 1500, addresses: [10.0.30.1/24, "2001:db8:30::1/64"]}
  plain: {match: {name: p0}, addresses: [10.0.40.1/24, "2001:db8:40::1/64"]}
`

const withoutVLANs = `
version: 1
system: {hostname: stick, router-id: 10.0.10.1}
interfaces:
  trunk: {match: {name: t0}, mtu: 1508}
  plain: {match: {name: p0}, addresses: [10.0.40.1/24, "2001:db8:40::1/64"]}
`

// The stations behind the router. Their MACs are told to the router, so that
// every frame below is decided by it alone.
var (
	redMAC   = packet.MAC{2, 0, 0, 0, 0, 0x10}
	blueMAC  = packet.MAC{2, 0, 0, 0, 0, 0x30}
	plainMAC = packet.MAC{2, 0, 0, 0, 0, 0x40}

	stations = map[string]struct {
		mac    packet.MAC
		v4, v6 string
		tags   []packet.Tag
	}{
		"red":   {redMAC, "10.0.10.9", "2001:db8:10::9", []packet.Tag{{Type: packet.TypeVLAN, TCI: 10}}},
		"blue":  {blueMAC, "10.0.30.9", "2001:db8:30::9", []packet.Tag{{Type: packet.TypeQinQ, TCI: 20}, {Type: packet.TypeVLAN, TCI: 30}}},
		"plain": {plainMAC, "10.0.40.9", "2001:db8:40::9", nil},
	}
)

func TestVLAN(t *testing.T) {
	trunk, plain := newHost(t, "t0", "t1"), newHost(t, "p0", "p1")
	r := startRouter(t)
	r.apply(t, stacked)
	r.waitForPorts(t, "trunk", "plain")

	t.Run("links", checkLinks)
	t.Run("bytes", func(t *testing.T) { checkBytes(t, r, trunk, plain) })
	t.Run("bypassed", func(t *testing.T) { checkBypassed(t, r, trunk, plain) })
	t.Run("hosts", func(t *testing.T) { checkHosts(t, r, trunk, plain) })
	t.Run("changes", func(t *testing.T) { checkChanges(t, r) })

	r.apply(t, withoutVLANs)
	for _, name := range []string{"red", "outer", "blue"} {
		if _, err := netlink.LinkByName(name); err == nil {
			t.Errorf("VLAN %s is still there after its configuration went", name)
		}
	}
}

// checkLinks holds the kernel's links against the configuration.
func checkLinks(t *testing.T) {
	for name, want := range map[string]struct {
		parent   string
		id       int
		protocol netlink.VlanProtocol
	}{
		"red":   {"trunk", 10, netlink.VLAN_PROTOCOL_8021Q},
		"outer": {"trunk", 20, netlink.VLAN_PROTOCOL_8021AD},
		"blue":  {"outer", 30, netlink.VLAN_PROTOCOL_8021Q},
	} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v, ok := link.(*netlink.Vlan)
		if !ok {
			t.Errorf("%s is a %s", name, link.Type())
			continue
		}
		parent, err := netlink.LinkByIndex(v.ParentIndex)
		if err != nil || parent.Attrs().Name != want.parent || v.VlanId != want.id || v.VlanProtocol != want.protocol {
			t.Errorf("%s: VLAN %d (%v) on %v, expected %+v", name, v.VlanId, v.VlanProtocol, parent, want)
		}
	}
}

// checkBytes sends a frame from each station to each other, both families, and
// compares what comes out, tags included, byte by byte.
func checkBytes(t *testing.T, r running, trunk, plain host) {
	own := ownMACs(t)
	for name, s := range stations {
		addNeighbour(t, name, s.v4, s.mac)
		addNeighbour(t, name, s.v6, s.mac)
	}
	wires := map[string]wire{"red": trunk.wire(t), "plain": plain.wire(t)}
	wires["blue"] = wires["red"]

	for from, a := range stations {
		for to, b := range stations {
			if from == to {
				continue
			}
			for _, family := range []string{"ipv4", "ipv6"} {
				t.Run(family+" "+from+" to "+to, func(t *testing.T) {
					src, dst := netip.MustParseAddr(a.v4), netip.MustParseAddr(b.v4)
					if family == "ipv6" {
						src, dst = netip.MustParseAddr(a.v6), netip.MustParseAddr(b.v6)
					}
					mark := []byte("from " + from + " to " + to + " by " + family)
					sent := frame(a.mac, own[from], a.tags, src, dst, 64, mark)
					want := frame(own[to], b.mac, b.tags, src, dst, 63, mark)
					before := r.forwarded(t, to)
					wires[from].send(t, sent)
					got := wires[to].receive(t, func(f []byte) bool {
						return bytes.Contains(f, mark) && !bytes.Equal(f, sent)
					})
					if !bytes.Equal(got, want) {
						t.Fatalf("came out:\n%x\nexpected:\n%x", got, want)
					}
					if after := r.forwarded(t, to); after != before+1 {
						t.Errorf("the fast path counts %d packets out of %s, expected %d: the kernel forwarded it", after, to, before+1)
					}
				})
			}
		}
	}

	t.Run("unknown VLAN", func(t *testing.T) {
		mark := []byte("nobody's VLAN")
		b := stations["plain"]
		wires["red"].send(t, frame(redMAC, own["red"], []packet.Tag{{Type: packet.TypeVLAN, TCI: 99}},
			netip.MustParseAddr("10.0.10.9"), netip.MustParseAddr(b.v4), 64, mark))
		if got := wires["plain"].receive(t, func(f []byte) bool { return bytes.Contains(f, mark) }); got != nil {
			t.Errorf("a frame of VLAN 99, which nobody configured, was forwarded:\n%x", got)
		}
	})
}

// checkChanges has a flag put back in place by the router, and another outer tag made anew with the VLAN inside.
func checkChanges(t *testing.T, r running) {
	red, outer, blue := indexOf(t, "red"), indexOf(t, "outer"), indexOf(t, "blue")
	loose := func() bool {
		link, err := netlink.LinkByName("red")
		must(t, err)
		return *link.(*netlink.Vlan).LooseBinding
	}
	a, on := netlink.NewLinkAttrs(), true
	a.Index, a.Name = red, "red"
	must(t, netlink.LinkModify(&netlink.Vlan{LinkAttrs: a, VlanId: 10, LooseBinding: &on}))
	until(t, "the VLAN is down with its parent again", func() bool { return !loose() })

	r.apply(t, strings.Replace(stacked, "id: 20", "id: 21", 1))
	for name, before := range map[string]int{"outer": outer, "blue": blue} {
		if indexOf(t, name) == before {
			t.Errorf("%s is the link that it was", name)
		}
	}
	if indexOf(t, "red") != red {
		t.Error("red was made anew, which was to change in place only")
	}
	link, err := netlink.LinkByName("outer")
	must(t, err)
	if id := link.(*netlink.Vlan).VlanId; id != 21 {
		t.Errorf("the outer tag is %d", id)
	}
}

// checkHosts lets two hosts with ordinary VLAN devices talk by UDP through the router.
func checkHosts(t *testing.T, r running, trunk, plain host) {
	trunk.do(t, func() {
		parent, err := netlink.LinkByName("t1")
		if err != nil {
			t.Fatal(err)
		}
		a := netlink.NewLinkAttrs()
		a.Name, a.ParentIndex = "t1.10", parent.Attrs().Index
		if err := netlink.LinkAdd(&netlink.Vlan{LinkAttrs: a, VlanId: 10}); err != nil {
			t.Fatal(err)
		}
		up(t, "t1.10")
		addAddress(t, "t1.10", "10.0.10.2/24")
		addAddress(t, "t1.10", "2001:db8:10::2/64")
		addRoute(t, "10.0.40.0/24", "10.0.10.1")
		addRoute(t, "2001:db8:40::/64", "2001:db8:10::1")
	})
	plain.do(t, func() {
		addAddress(t, "p1", "10.0.40.2/24")
		addAddress(t, "p1", "2001:db8:40::2/64")
		addRoute(t, "10.0.10.0/24", "10.0.40.1")
		addRoute(t, "2001:db8:10::/64", "2001:db8:40::1")
	})
	for _, address := range []string{"10.0.40.2:7", "[2001:db8:40::2]:7"} {
		// The first datagrams make the kernel resolve neighbours, and the daemon
		// hears of them when the one CPU inside has time for it.
		until(t, "the fast path forwards datagrams to "+address, func() bool {
			before := r.forwarded(t, "plain")
			echo(t, plain, trunk, address, 20)
			return r.forwarded(t, "plain") >= before+10
		})
	}
}

// echo sends datagrams one after another from client to a server at address and wants each one back.
func echo(t *testing.T, server, client host, address string, count int) {
	t.Helper()
	echoFrom(t, server, client, "", address, count)
}

// echoFrom has the client send from an address of its own; "" for any.
func echoFrom(t *testing.T, server, client host, source, address string, count int) {
	t.Helper()
	var listener net.PacketConn
	server.do(t, func() {
		var err error
		if listener, err = net.ListenPacket("udp", address); err != nil {
			t.Fatal(err)
		}
	})
	defer listener.Close()
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := listener.ReadFrom(b)
			if err != nil {
				return
			}
			if _, err := listener.WriteTo(b[:n], from); err != nil {
				return
			}
		}
	}()
	client.do(t, func() {
		var d net.Dialer
		if source != "" {
			d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(source)}
		}
		c, err := d.Dial("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range count {
			if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 2)
			if n, err := c.Read(b); err != nil || n != 1 || b[0] != byte(i) {
				t.Fatalf("datagram %d to %s came back as %x: %v", i, address, b[:n], err)
			}
		}
	})
}

// reaches says whether a datagram from client to a server at address comes back.
func reaches(t *testing.T, server, client host, address string) (there bool) {
	t.Helper()
	var listener net.PacketConn
	var err error
	server.do(t, func() { listener, err = net.ListenPacket("udp", address) })
	must(t, err)
	defer listener.Close()
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := listener.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = listener.WriteTo(b[:n], from)
		}
	}()
	client.do(t, func() {
		c, err := net.Dial("udp", address)
		must(t, err)
		defer c.Close()
		must(t, c.SetDeadline(time.Now().Add(time.Second)))
		if _, err := c.Write([]byte{1}); err != nil {
			return
		}
		n, err := c.Read(make([]byte, 2))
		there = err == nil && n == 1
	})
	return there
}

// frame is a UDP datagram with the TTL or hop limit given.
func frame(from, to packet.MAC, tags []packet.Tag, src, dst netip.Addr, ttl uint8, payload []byte) []byte {
	datagram := packet.UDP{SrcPort: 1000, DstPort: 2000}.Append(nil, src, dst, payload)
	var ip []byte
	protocol := uint16(packet.TypeIPv4)
	if src.Is4() {
		ip = packet.IPv4{Src: src, Dst: dst, TTL: ttl, Protocol: packet.ProtoUDP}.Append(nil, datagram)
	} else {
		protocol = packet.TypeIPv6
		ip = packet.IPv6{Src: src, Dst: dst, HopLimit: ttl, NextHeader: packet.ProtoUDP}.Append(nil, datagram)
	}
	return packet.Ethernet{Src: from, Dst: to, Tags: tags, Type: protocol}.Append(nil, ip)
}

// ownMACs are the router's, by interface.
func ownMACs(t *testing.T) map[string]packet.MAC {
	t.Helper()
	own := map[string]packet.MAC{}
	for name := range stations {
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		own[name] = packet.MAC(link.Attrs().HardwareAddr)
	}
	return own
}

func addNeighbour(t *testing.T, link, address string, mac packet.MAC) {
	t.Helper()
	l, err := netlink.LinkByName(link)
	if err != nil {
		t.Fatal(err)
	}
	n := &netlink.Neigh{LinkIndex: l.Attrs().Index, IP: net.ParseIP(address), HardwareAddr: mac[:], State: netlink.NUD_PERMANENT}
	if err := netlink.NeighSet(n); err != nil {
		t.Fatalf("neighbour %s on %s: %v", address, link, err)
	}
}

func addRoute(t *testing.T, prefix, via string) {
	t.Helper()
	_, dst, err := net.ParseCIDR(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(via)}); err != nil {
		t.Fatalf("route %s via %s: %v", prefix, via, err)
	}
}

// running is a daemon whose files are below a directory of its own.
type running struct{ root string }

func startRouter(t *testing.T) running {
	t.Helper()
	r := running{t.TempDir()}
	log, err := os.Create(filepath.Join(r.root, "log"))
	if err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command(testuml.Minne(), "--root", r.root, "daemon")
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		_ = daemon.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the daemon's log:\n%s", text)
		}
	})
	until(t, "the daemon answers", func() bool {
		_, err := r.minne("status")
		return err == nil
	})
	return r
}

func (r running) minne(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, testuml.Minne(), append([]string{"--root", r.root}, args...)...).CombinedOutput()
	return string(out), err
}

func (r running) apply(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(r.root, "minne.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := r.minne("apply", file); err != nil {
		t.Fatalf("minne apply: %v\n%s", err, out)
	}
}

func (r running) observe(t *testing.T) (o fastpath.Observed) {
	t.Helper()
	out, err := r.minne("show", "fast-path", "--json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &o)
	}
	if err != nil {
		t.Fatalf("minne show fast-path: %v\n%s", err, out)
	}
	return o
}

// waitForPorts returns when the fast path can send on all of these ports.
func (r running) waitForPorts(t *testing.T, names ...string) {
	t.Helper()
	until(t, "the fast path sends on all ports", func() bool {
		o := r.observe(t)
		sending := map[string]bool{}
		for _, p := range o.Ports {
			sending[p.Name] = p.Transmits
		}
		for _, name := range names {
			if !sending[name] {
				return false
			}
		}
		return o.Ready
	})
}

// forwarded is how many packets the fast path has sent out of an interface.
func (r running) forwarded(t *testing.T, name string) uint64 {
	t.Helper()
	for _, traffic := range r.observe(t).Traffic {
		if traffic.Name == name {
			return traffic.TxPackets
		}
	}
	return 0
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 30 s: %s", what)
}
