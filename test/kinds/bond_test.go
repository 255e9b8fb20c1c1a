// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// cable adds another veth from port, in this namespace, to link inside a host.
func (h host) cable(t *testing.T, port, link string) {
	t.Helper()
	a := netlink.NewLinkAttrs()
	a.Name = port
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: link}))
	far, err := netlink.LinkByName(link)
	must(t, err)
	must(t, netlink.LinkSetNsFd(far, int(h.ns)))
	h.do(t, func() {
		ethtool(t, link, 0x26, 0) // as newHost has it
		ethtool(t, link, 0x17, 0)
		up(t, link)
	})
}

// router is this namespace, as a host.
func router(t *testing.T) host {
	t.Helper()
	here, err := netns.Get()
	must(t, err)
	t.Cleanup(func() { here.Close() })
	return host{ns: here}
}

// masterOf is the name of what a link belongs to.
func masterOf(t *testing.T, name string) string {
	t.Helper()
	l, err := netlink.LinkByName(name)
	must(t, err)
	if l.Attrs().MasterIndex == 0 {
		return ""
	}
	m, err := netlink.LinkByIndex(l.Attrs().MasterIndex)
	must(t, err)
	return m.Attrs().Name
}

// says waits until a command of minne prints all of some words.
func (r running) says(t *testing.T, command string, words ...string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("minne %s says:\n%s", command, last)
		}
	}()
	until(t, "minne "+command+" says "+strings.Join(words, ", "), func() bool {
		last, _ = r.minne(strings.Fields(command)...)
		text := strings.Join(strings.Fields(last), " ") // whatever the width of the terminal
		for _, w := range words {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
}

const bonded = `
version: 1
system: {hostname: stick, router-id: 10.0.60.1}
interfaces:
  b0: {}
  b1: {}
  core: {bond: {ports: [b0, b1]}, addresses: [10.0.60.1/24, "2001:db8:60::1/64"]}
`

// TestBond has the router's bond agree by LACP with a bond of the kernel on the other side, lose a cable, and come
// apart again.
func TestBond(t *testing.T) {
	far := newHost(t, "b0", "f0")
	far.cable(t, "b1", "f1")
	var partner string
	far.do(t, func() {
		b := netlink.NewLinkBond(netlink.NewLinkAttrs())
		b.Name, b.Mode, b.Miimon, b.LacpRate = "bond0", netlink.BOND_MODE_802_3AD, 50, netlink.BOND_LACP_RATE_FAST
		must(t, netlink.LinkAdd(b))
		for _, name := range []string{"f0", "f1"} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkSetDown(l))
			must(t, netlink.LinkSetMaster(l, b))
		}
		up(t, "bond0")
		addAddress(t, "bond0", "10.0.60.2/24")
		addAddress(t, "bond0", "2001:db8:60::2/64")
		l, err := netlink.LinkByName("bond0")
		must(t, err)
		partner = l.Attrs().HardwareAddr.String()
	})
	r, here := startRouter(t), router(t)
	r.apply(t, bonded)
	r.says(t, "show interfaces core", "LACP partner "+partner, "2 of 2 ports in use")
	r.says(t, "show interfaces b0", "port of core")
	for _, name := range []string{"b0", "b1"} {
		if text, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6"); err != nil || string(text) != "1\n" {
			t.Errorf("IPv6 on %s: %q, %v", name, text, err)
		}
	}
	echo(t, here, far, "10.0.60.1:7", 3)
	echo(t, here, far, "[2001:db8:60::1]:7", 3)

	cable := ""
	t.Run("a cable is lost", func(t *testing.T) { cable = checkLost(t, here, far) })
	r.says(t, "show interfaces core", "1 of 2 ports in use")
	far.do(t, func() { up(t, cable) })
	r.says(t, "show interfaces core", "2 of 2 ports in use")
	far.do(t, func() {
		l, err := netlink.LinkByName("f0")
		must(t, err)
		must(t, netlink.LinkSetDown(l))
	})
	r.says(t, "show interfaces core", "1 of 2 ports in use")

	taken, err := netlink.LinkByName("b1")
	must(t, err)
	must(t, netlink.LinkSetNoMaster(taken))
	until(t, "the router puts b1 back", func() bool { return masterOf(t, "b1") == "core" })
	until(t, "LACP agrees on b1 again", func() bool { return reaches(t, here, far, "10.0.60.1:7") })

	r.apply(t, strings.Replace(bonded, "ports: [b0, b1]", "ports: [b0, b1], mode: active-backup, primary: b1", 1))
	r.says(t, "show interfaces core", "active-backup", "1 of 2 ports in use: b1")

	r.apply(t, "version: 1\nsystem: {hostname: stick}\ninterfaces: {b0: {}, b1: {addresses: [10.0.60.1/24]}}\n")
	if _, err := netlink.LinkByName("core"); err == nil || masterOf(t, "b0") != "" || masterOf(t, "b1") != "" {
		t.Error("the bond is still there after its configuration went")
	}
	if text, err := os.ReadFile("/proc/sys/net/ipv6/conf/b0/disable_ipv6"); err != nil || string(text) != "0\n" {
		t.Errorf("IPv6 on b0: %q, %v", text, err)
	}
}

// checkLost takes the cable away that carries a stream of datagrams, prints how long none came back, and returns its far end.
func checkLost(t *testing.T, here, far host) (cable string) {
	var server, client net.PacketConn
	var err error
	here.do(t, func() { server, err = net.ListenPacket("udp", "10.0.60.1:9") })
	must(t, err)
	defer server.Close()
	go func() {
		for b := make([]byte, 64); ; {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(b[:n], from)
		}
	}()
	far.do(t, func() { client, err = net.ListenPacket("udp", "10.0.60.2:0") })
	must(t, err)
	defer client.Close()
	answers := make(chan time.Time, 1<<16)
	go func() {
		for b := make([]byte, 64); ; {
			if _, _, err := client.ReadFrom(b); err != nil {
				close(answers)
				return
			}
			answers <- time.Now()
		}
	}()
	to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.0.60.1:9"))
	var last time.Time
	gap, sent, answered := time.Duration(0), 0, 0
	// stream sends until some answers in a row came without a gap to speak of.
	stream := func(what string) {
		t.Helper()
		steady := 0
		for end := time.Now().Add(time.Minute); steady < 100; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no stream of answers %s: %d of %d", what, answered, sent)
			}
			_, _ = client.WriteTo([]byte("x"), to)
			sent++
			for more := true; more; {
				select {
				case at := <-answers:
					answered++
					steady++
					if !last.IsZero() {
						if pause := at.Sub(last); pause > gap {
							gap, steady = pause, 0
						}
					}
					last = at
				default:
					more = false
				}
			}
		}
	}
	// carried is how many frames each cable has carried from the far side, and to it.
	carried := func() (frames [2][2]uint64) {
		far.do(t, func() {
			for i, name := range []string{"f0", "f1"} {
				l, err := netlink.LinkByName(name)
				must(t, err)
				frames[i] = [2]uint64{l.Attrs().Statistics.TxPackets, l.Attrs().Statistics.RxPackets}
			}
		})
		return frames
	}
	was := carried()
	stream("before")
	now := carried()
	cable = "f0" // the one with the datagrams
	if now[1][0]-was[1][0] > now[0][0]-was[0][0] {
		cable = "f1"
	}
	t.Logf("%s carries the datagrams; frames out and in were %v, are %v", cable, was, now)
	t.Logf("before: no answer for %v; %d of %d datagrams were answered", gap.Round(time.Millisecond), answered, sent)
	gap, sent, answered = 0, 0, 0
	taken := make(chan error, 1)
	go func() { // datagrams go on meanwhile
		far.do(t, func() {
			l, err := netlink.LinkByName(cable)
			if err == nil {
				err = netlink.LinkSetDown(l)
			}
			taken <- err
		})
	}()
	for down := false; !down; {
		stream("while the cable is taken away")
		select {
		case err := <-taken:
			must(t, err)
			down = true
		default:
		}
	}
	stream("over the other cable")
	t.Logf("cable lost: no answer for %v; at 10,000 packets a second, %d packets (miimon 50 ms); %d of %d datagrams were answered",
		gap.Round(time.Millisecond), gap.Milliseconds()*10, answered, sent)
	return cable
}
