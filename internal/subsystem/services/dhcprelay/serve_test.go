// SPDX-License-Identifier: Apache-2.0

package dhcprelay

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/sendip"
	"minne/internal/subsystem/services/resident"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// cable is a link lan of the router with the address of the relay; a host's packet socket is at its other end.
type cable struct {
	t    *testing.T
	host netlink.Link
	fd   int
}

func newCable(t *testing.T) *cable {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	must(err)
	must(netlink.LinkSetUp(lo))
	must(netlink.AddrReplace(lo, &netlink.Addr{IPNet: &net.IPNet{IP: server.AsSlice(), Mask: net.CIDRMask(32, 32)}}))
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lan"}, PeerName: "host"}))
	lan, err := netlink.LinkByName("lan")
	must(err)
	t.Cleanup(func() { _ = netlink.LinkDel(lan) })
	must(netlink.AddrAdd(lan, &netlink.Addr{IPNet: &net.IPNet{IP: relayAddress.AsSlice(), Mask: net.CIDRMask(24, 32)}}))
	must(netlink.LinkSetUp(lan))
	c := &cable{t: t}
	c.host, err = netlink.LinkByName("host")
	must(err)
	must(netlink.LinkSetUp(c.host))
	all := int(binary.NativeEndian.Uint16([]byte{unix.ETH_P_IP >> 8, 0})) // network byte order
	c.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	must(err)
	t.Cleanup(func() { unix.Close(c.fd) })
	must(unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: c.host.Attrs().Index}))
	must(unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}))
	return c
}

// asks broadcasts a request as a host without an address.
func (c *cable) asks(message []byte) {
	c.t.Helper()
	packet := sendip.UDP(netip.AddrPortFrom(netip.IPv4Unspecified(), clientPort), netip.AddrPortFrom(everybody.address, serverPort), 64, message)
	if err := sendip.Send(c.host.Attrs().Index, everybody.mac, packet); err != nil {
		c.t.Fatal(err)
	}
}

// hears is the next datagram for a DHCP client at the host's end: the MAC and IP address that it is for, and what it says.
func (c *cable) hears() (delivery, []byte) {
	c.t.Helper()
	b := make([]byte, 2000)
	for {
		n, _, err := unix.Recvfrom(c.fd, b, 0)
		if err != nil {
			c.t.Fatal(err)
		}
		const link, ip, udp = 14, 20, 8
		f := b[:n]
		if n < link+ip+udp || f[link+9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(f[link+ip+2:]) != clientPort {
			continue
		}
		datagram := f[link+ip:]
		pseudo := append(slices.Clone(f[link+12:link+20]), 0, unix.IPPROTO_UDP, datagram[4], datagram[5])
		if sendip.Sum(f[link:link+ip]) != 0xffff || sendip.Sum(append(pseudo, datagram...)) != 0xffff {
			c.t.Errorf("wrong sums in %x", f)
		}
		return delivery{[6]byte(f), field(f, link+16)}, slices.Clone(datagram[udp:])
	}
}

// A request reaches the server with the option, and the answer the host without it, by its MAC address or to everybody; answers that are
// not for this relay reach nobody; port 67 may have another user.
func TestServe(t *testing.T) {
	c := newCable(t)
	open67 := func(address netip.Addr) *net.UDPConn {
		t.Helper()
		conn, err := open(t.Context(), address, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	open67(netip.IPv4Unspecified()) // a DHCP server of other interfaces
	far, stranger := open67(server), open67(netip.MustParseAddr("127.0.0.9"))
	relay := &Relay{book: book{counts: map[string]*counts{}}}
	relay.Service = resident.New(resident.Kind[Settings]{Name: "dhcp-relay", Title: "DHCP relay", Fact: fact, Work: relay.work}, slog.New(slog.DiscardHandler))
	if err := relay.Apply(t.Context(), map[string]Settings{"lan": settings("drop")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Stop(context.Background()) })

	got := make([]byte, 2000)
	answered := func() []byte { // what the server answers: it sends back the option
		t.Helper()
		if err := far.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, from, err := far.ReadFromUDPAddrPort(got)
		if err != nil || from != netip.AddrPortFrom(relayAddress, serverPort) {
			t.Fatalf("the server got a request from %v, %v", from, err)
		}
		found, _, ok := options(got[:n])
		if !ok || len(found) != 1 || !bytes.Equal(got[found[0].from+2:found[0].to], ours) || field(got, giField) != relayAddress || got[hopsField] != 1 {
			t.Fatalf("the server got %x", got[:n])
		}
		return with(with(got[:n], opField, answer), yiField, 192, 0, 2, 100)
	}
	sends := func(conn *net.UDPConn, message []byte) {
		t.Helper()
		if _, err := conn.WriteToUDPAddrPort(message, netip.AddrPortFrom(relayAddress, serverPort)); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range [][]byte{dhcp(request, discover...), with(dhcp(request, discover...), flagsField, broadcastFlag)} {
		c.asks(dhcp(answer, discover...))
		c.asks(with(request, giField, 192, 0, 2, 9))
		c.asks(request)
		good := answered()
		sends(far, with(good, giField, 192, 0, 2, 2))
		sends(far, with(good, yiField, 0)[:30])
		sends(far, bytes.Replace(good, ours, []byte("\x01\x03nal\x02\x05attic"), 1))
		sends(stranger, good)
		sends(far, good)
		to, heard := c.hears()
		want := delivery{[6]byte(hostMAC), netip.MustParseAddr("192.0.2.100")}
		if request[flagsField] != 0 {
			want = everybody
		}
		if found, _, ok := options(heard); to != want || !ok || len(found) != 0 || field(heard, yiField) != netip.MustParseAddr("192.0.2.100") {
			t.Errorf("%v heard %x", to, heard)
		}
	}
	const want = `{"interfaces":[{"interface":"lan","requests":2,"answers":2,"dropped":{"for another relay":2,"from another relay":2,"not a DHCP message":4,"not from a server":2,"with another's option 82":2}}]}`
	counted := func() string {
		list, err := relay.Observe(t.Context())
		text, _ := json.Marshal(list)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	for deadline := time.Now().Add(time.Minute); counted() != want; time.Sleep(time.Millisecond) { // the last is counted after it was sent
		if time.Now().After(deadline) {
			t.Fatalf("%s\nwant\n%s", counted(), want)
		}
	}
	if states := relay.States(); len(states) != 1 || !slices.Equal(states[0].Facts, []string{"DHCP of lan by 198.51.100.9 with option 82"}) {
		t.Errorf("%+v", states)
	}
}
