// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/instance"
	"minne/internal/model/config"
	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testframes"
	"minne/internal/testing/testwire"
)

// everyKind is a router with every kind of link that the fast path forwards over. Ports gN have far ends hN.
const everyKind = `
version: 1
system: {hostname: stick, router-id: 10.20.1.1}
interfaces:
  field: {match: {name: g0}, addresses: [10.20.1.1/24, "fd00:20:1::1/64"]}
  table: {match: {name: g1}}
  riser: {match: {name: g2}}
  sofa: {match: {name: g3}}
  house:
    bridge:
      ports: [table, riser, sofa]
      vlans:
        table: {access: 10}
        riser: {trunk: [10, 20]}
        sofa: {access: 20}
  staff: {vlan: {parent: house, id: 10}, addresses: [10.20.2.1/24, "fd00:20:2::1/64"]}
  guests: {vlan: {parent: house, id: 20}, addresses: [10.20.3.1/24, "fd00:20:3::1/64"]}
  g4: {}
  g5: {}
  core: {bond: {ports: [g4, g5], mode: balance-xor, hash: layer3+4}, addresses: [10.20.4.1/24, "fd00:20:4::1/64"]}
  tagged: {vlan: {parent: core, id: 5}, addresses: [10.20.5.1/24, "fd00:20:5::1/64"]}
  stem: {match: {name: g6}, mtu: 1508}
  outer: {vlan: {parent: stem, id: 20, protocol: 802.1ad}, mtu: 1504}
  inner: {vlan: {parent: outer, id: 30}, mtu: 1500, addresses: [10.20.6.1/24, "fd00:20:6::1/64"]}
  line: {match: {name: g7}}
  isp: {pppoe: {parent: line, user: first, secret: isp}}
  twice: {match: {name: g8}, mtu: 1512}
  service: {vlan: {parent: twice, id: 40, protocol: 802.1ad}, mtu: 1508}
  access: {vlan: {parent: service, id: 7}, mtu: 1508}
  whole: {mtu: 1500, pppoe: {parent: access, user: second, secret: isp}}
  big: {match: {name: g9}, mtu: 9000, addresses: [10.20.9.1/24, "fd00:20:9::1/64"]}
  large: {match: {name: g10}, mtu: 9000, addresses: [10.20.10.1/24, "fd00:20:10::1/64"]}
  wide: {vlan: {parent: large, id: 8}, mtu: 8996, addresses: [10.20.11.1/24, "fd00:20:11::1/64"]}
`

const farPorts = 11

// place is where a station is: it has a MAC of its own, and senders behind it.
type place struct {
	name    string // for people
	on      string // the router's interface
	far     int    // number of the far end on which its frames come
	tags    []packet.Tag
	session uint16 // number of the PPPoE session; 0 for none
	mtu     int
	bridged bool

	number  int
	own     packet.MAC // of the router there
	station packet.MAC
}

var (
	staffTag = []packet.Tag{{Type: packet.TypeVLAN, TCI: 10}}
	guestTag = []packet.Tag{{Type: packet.TypeVLAN, TCI: 20}}
)

var places = []place{
	{name: "port", on: "field", far: 0, mtu: 1500},
	{name: "bridge, access", on: "staff", far: 1, mtu: 1500, bridged: true},
	{name: "bridge, trunk", on: "staff", far: 2, tags: staffTag, mtu: 1500, bridged: true},
	{name: "bridge, other trunk", on: "guests", far: 2, tags: guestTag, mtu: 1500, bridged: true},
	{name: "bridge, other access", on: "guests", far: 3, mtu: 1500, bridged: true},
	{name: "bond", on: "core", far: 4, mtu: 1500},
	{name: "bond, other port", on: "core", far: 5, mtu: 1500},
	{name: "VLAN on bond", on: "tagged", far: 5, tags: []packet.Tag{{Type: packet.TypeVLAN, TCI: 5}}, mtu: 1500},
	{name: "QinQ", on: "inner", far: 6, tags: []packet.Tag{{Type: packet.TypeQinQ, TCI: 20}, {Type: packet.TypeVLAN, TCI: 30}}, mtu: 1500},
	{name: "PPPoE", on: "isp", far: 7, session: 0x1234, mtu: 1492},
	{name: "PPPoE in QinQ", on: "whole", far: 8, session: 0x00ff, mtu: 1500,
		tags: []packet.Tag{{Type: packet.TypeQinQ, TCI: 40}, {Type: packet.TypeVLAN, TCI: 7}}},
	{name: "jumbo", on: "big", far: 9, mtu: 9000},
	{name: "other jumbo", on: "large", far: 10, mtu: 9000},
	{name: "VLAN, jumbo", on: "wide", far: 10, tags: []packet.Tag{{Type: packet.TypeVLAN, TCI: 8}}, mtu: 8996},
}

// senders are the addresses behind a station.
func (p place) senders(v6 bool) netip.Prefix {
	if v6 {
		return netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/48", 100+p.number))
	}
	return netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 100+p.number))
}

// everyBed is the router of everyKind, without a daemon, and its far ends in one namespace.
type everyBed struct {
	config  *config.Config
	far     host
	wire    *testwire.Wire
	ends    map[int]int // ifindex of a far end → its number
	index   []int       // of far end n
	ports   map[int][]int
	own     map[netip.Addr]bool
	bridged map[string]int // of the frames that are asked, as withoutTags has them
	windows uint64
}

func newEveryKind(t *testing.T) *everyBed {
	t.Helper()
	b := &everyBed{ends: map[int]int{}, ports: map[int][]int{}, own: map[netip.Addr]bool{netip.IPv6Unspecified(): true, netip.IPv4Unspecified(): true}}
	b.cables(t)
	var err error
	b.config, err = config.Parse("router.yaml", []byte(everyKind))
	must(t, err)
	desired, err := kernel.Render(b.config)
	must(t, err)
	k := kernel.New(slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	must(t, k.Apply(t.Context(), desired))
	for _, p := range places {
		if p.session != 0 {
			dial(t, p.on, b.config.Interfaces[p.on].PPPoE.Parent, p)
		}
	}
	must(t, k.Apply(t.Context(), desired)) // and of the sessions, as when pppd has agreed
	must(t, k.Forwarding(t.Context(), true))
	b.stations(t)
	b.far.do(t, func() { b.wire, err = testwire.New() })
	must(t, err)
	t.Cleanup(b.wire.Close)
	return b
}

// cables makes the ports and their far ends.
func (b *everyBed) cables(t *testing.T) {
	t.Helper()
	b.far = newHost(t, "g0", "h0")
	for n := 1; n < farPorts; n++ {
		b.far.cable(t, fmt.Sprintf("g%d", n), fmt.Sprintf("h%d", n))
	}
	for n := range farPorts {
		b.far.do(t, func() {
			name := fmt.Sprintf("h%d", n)
			ethtool(t, name, 0x2c, 1) // ETHTOOL_SGRO, as newHost has it
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkSetMTU(l, 9100))
			must(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0))
			b.ends[l.Attrs().Index] = n
			b.index = append(b.index, l.Attrs().Index)
		})
	}
	t.Cleanup(func() { // the next test has ports with these names
		for _, name := range []string{"core", "house", "field", "table", "riser", "sofa", "g4", "g5", "stem", "line", "twice", "big", "large"} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkDel(l))
		}
	})
}

// stations makes the neighbours and routes, and takes note of the router's addresses and ports.
func (b *everyBed) stations(t *testing.T) {
	t.Helper()
	for n := range places {
		p := &places[n]
		p.number, p.station = n, packet.MAC{2, 0xee, 0, 0, 0, byte(n)}
		carrier := p.on
		if p.session != 0 {
			carrier = b.config.Interfaces[p.on].PPPoE.Parent
		}
		p.own = macOfLink(t, carrier)
		l, err := netlink.LinkByName(p.on)
		must(t, err)
		for _, v6 := range []bool{false, true} {
			_, prefix, err := net.ParseCIDR(p.senders(v6).String())
			must(t, err)
			route := netlink.Route{Dst: prefix, LinkIndex: l.Attrs().Index}
			if p.session == 0 {
				a := b.config.Interfaces[p.on].Addresses[map[bool]int{true: 1}[v6]]
				at := a.Addr().As16()
				at[15] = byte(10 + n)
				gateway := netip.AddrFrom16(at).Unmap()
				addNeighbour(t, p.on, gateway.String(), p.station)
				route.Gw = gateway.AsSlice()
			}
			must(t, netlink.RouteAdd(&route))
		}
	}
	links, err := netlink.LinkList()
	must(t, err)
	for _, l := range links {
		var far int
		if n, err := fmt.Sscanf(originalName(b.config, l.Attrs().Name), "g%d", &far); n == 1 && err == nil {
			b.ports[l.Attrs().Index] = append(b.ports[l.Attrs().Index], far)
			if l.Attrs().MasterIndex != 0 {
				b.ports[l.Attrs().MasterIndex] = append(b.ports[l.Attrs().MasterIndex], far)
			}
		}
		addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		must(t, err)
		for _, a := range addresses {
			own, _ := netip.AddrFromSlice(a.IP)
			b.own[own.Unmap()] = true
			if bits, _ := a.Mask.Size(); own.Is6() { // and the network's anycast address (RFC 4291 2.6.1)
				b.own[netip.PrefixFrom(own, bits).Masked().Addr()] = true
			}
		}
	}
}

// originalName is the kernel's name of a port before the configuration gave it its own.
func originalName(cfg *config.Config, name string) string {
	if i := cfg.Interfaces[name]; i != nil && i.Match != nil && i.Match.Name != "" {
		return i.Match.Name
	}
	return name
}

// dial makes a PPPoE session as pppd does when both ends have agreed: the station is the access concentrator.
func dial(t *testing.T, name, parent string, p place) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PPPOX, unix.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	concentrator := packet.MAC{2, 0xee, 0, 0, 0, byte(placeOf(name))}
	must(t, unix.Connect(fd, &unix.SockaddrPPPoE{SID: p.session, Remote: concentrator[:], Dev: parent}))
	channel, err := unix.IoctlGetInt(fd, unix.PPPIOCGCHAN)
	must(t, err)
	node := filepath.Join(t.TempDir(), "ppp")
	must(t, unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(108, 0))))
	open := func() int {
		fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	attached, unit, number := open(), open(), int32(-1)
	must(t, unix.IoctlSetPointerInt(attached, unix.PPPIOCATTCHAN, channel))
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(unit), unix.PPPIOCNEWUNIT, uintptr(unsafe.Pointer(&number))); errno != 0 {
		t.Fatalf("new unit of PPP: %v", errno)
	}
	must(t, unix.IoctlSetPointerInt(attached, unix.PPPIOCCONNECT, int(number)))
	l, err := netlink.LinkByName(fmt.Sprintf("ppp%d", number))
	must(t, err)
	must(t, netlink.LinkSetName(l, name))
	must(t, netlink.LinkSetMTU(l, p.mtu))
	must(t, netlink.LinkSetUp(l))
}

func placeOf(on string) int {
	for n, p := range places {
		if p.on == on {
			return n
		}
	}
	return -1
}

// fast starts the fast path on the router's ports, told of the kernel's state by the watcher as in the product.
func (b *everyBed) fast(t *testing.T) *fastpath.FastPath {
	t.Helper()
	inst, err := instance.New("voices")
	must(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	f := fastpath.New(inst, log)
	t.Cleanup(f.Close)
	desired, err := fastpath.Render(b.config)
	must(t, err)
	desired.Guard.On = false // all of these odd packets are to reach the kernel, at any rate
	must(t, fastpath.Frames{FastPath: f}.Apply(t.Context(), desired))
	must(t, f.Apply(t.Context(), desired))
	watcher := kernel.NewWatcher(log, f)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("kernel watcher: %v", err)
		}
	})
	return f
}

// output is one frame that the router sent on behalf of a generated one.
type output struct {
	far   int
	frame []byte
}

// ask sends all frames through the router; outputs[i] is what came out for frame i. Between windows of frames stand
// markers, which are always forwarded, from each place to the next and to the one before: when they have come out, so
// has all that was to come.
func (b *everyBed) ask(t *testing.T, samples []testframes.Sample) [][]output {
	t.Helper()
	const window = 48
	outputs := make([][]output, len(samples))
	b.bridged = map[string]int{}
	for i, s := range samples {
		b.bridged[withoutTags(s.Frame)] = i
	}
	b.mark(t, nil, samples, outputs) // bridges learn who is where
	for at := 0; at < len(samples); at += window {
		b.mark(t, samples[at:min(at+window, len(samples))], samples, outputs)
	}
	for range 3 {
		b.mark(t, nil, samples, outputs)
	}
	lost, err := b.wire.Lost()
	must(t, err)
	if lost != 0 {
		t.Fatalf("the test bed lost %d frames", lost)
	}
	return outputs
}

// marker is the marker from one place to another.
func (b *everyBed) marker(from, to place, number int) []byte {
	host := func(p place) netip.Addr {
		a := p.senders(false).Addr().As4()
		a[3] = 7
		return netip.AddrFrom4(a)
	}
	payload := make([]byte, 32)
	copy(payload, "marker")
	binary.BigEndian.PutUint64(payload[8:], b.windows)
	binary.BigEndian.PutUint64(payload[16:], uint64(number))
	f := frame(from.station, from.own, from.tags, host(from), host(to), 64, payload)
	if from.session != 0 {
		f = packet.AddSession(f, packet.Session{ID: from.session, Peer: from.station})
	}
	return f
}

// markers is how many there are behind a window: from each place to two others.
var markers = 2 * len(places)

// mark sends frames and then markers, and reads until every marker has come out.
func (b *everyBed) mark(t *testing.T, frames, all []testframes.Sample, outputs [][]output) {
	t.Helper()
	b.windows++
	var out []testwire.Outgoing
	for _, s := range frames {
		out = append(out, testwire.Outgoing{Link: b.index[places[s.Port].far], Frame: s.Frame})
	}
	missing := map[uint64]bool{}
	for n, p := range places {
		for _, next := range []int{(n + 1) % len(places), (n + len(places) - 1) % len(places)} {
			number := n*len(places) + next
			missing[uint64(number)] = true
			out = append(out, testwire.Outgoing{Link: b.index[p.far], Frame: b.marker(p, places[next], number)})
		}
	}
	_, err := b.wire.Send(out)
	must(t, err)
	for deadline := time.Now().Add(time.Minute); len(missing) > 0; {
		c, ok := b.wire.Read(deadline)
		if !ok {
			for n := range missing {
				t.Errorf("marker from %s to %s missing", places[int(n)/len(places)].name, places[int(n)%len(places)].name)
			}
			t.FailNow()
		}
		if n := len(c.Frame); n > 66 && string(c.Frame[n-32:n-26]) == "marker" {
			if binary.BigEndian.Uint64(c.Frame[n-24:]) == b.windows {
				delete(missing, binary.BigEndian.Uint64(c.Frame[n-16:]))
			}
			continue
		}
		i, ok := b.bridged[withoutTags(c.Frame)]
		if !ok {
			i, ok = testframes.Match(all, c.Frame)
		}
		if ok {
			outputs[i] = append(outputs[i], output{b.ends[c.Link], c.Frame})
		} else {
			b.ownFrame(t, c.Frame)
		}
	}
}

// withoutTags is what a bridge does not change of a frame.
func withoutTags(frame []byte) string {
	at, _, ok := packet.NetworkOffset(frame)
	if !ok {
		return string(frame)
	}
	return string(frame[:12]) + string(frame[at-2:])
}

// ownFrame checks that an unmatched frame is one that the router made itself.
func (b *everyBed) ownFrame(t *testing.T, frame []byte) {
	t.Helper()
	s := packet.Summarize(frame)
	if s.Source.IsValid() && !b.own[s.Source] && !s.Source.IsLinkLocalUnicast() {
		t.Fatalf("the router sent a frame that is neither its own nor the forwarded form of one it got: %x", head(frame))
	}
}

// head is the part of a frame that fits into a message.
func head(frame []byte) []byte { return frame[:min(len(frame), 100)] }
