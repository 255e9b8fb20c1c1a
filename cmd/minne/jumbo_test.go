// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath"
)

// large sends UDP packets of many sizes from one neighbour to an address of the other, which answers with the same bytes. The
// first has ten bytes, again and again until ready says that the connection is.
func large(from, to *neighbour, address string, ready func() bool, sizes ...int) error {
	var server net.PacketConn
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := to.inside(func() (err error) { server, err = net.ListenPacket("udp", address); return err })
		if err == nil {
			break
		}
		// A process that another test is just starting holds a copy of the last server's socket until it runs.
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
			return err
		}
	}
	ended := make(chan struct{})
	defer func() { // the port is free when the reader has let go of it
		server.Close()
		<-ended
	}()
	go func() {
		defer close(ended)
		buffer := make([]byte, 1<<16)
		for {
			n, who, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if _, err := server.WriteTo(buffer[:n], who); err != nil {
				return
			}
		}
	}()
	var client net.Conn
	if err := from.inside(func() (err error) { client, err = net.Dial("udp", address); return err }); err != nil {
		return err
	}
	defer client.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if err := exchange(client, 10); err != nil {
			return err
		}
		if ready() {
			break
		}
		if time.Now().After(end) {
			return errors.New("the connection does not get ready")
		}
	}
	for _, size := range sizes {
		if err := exchange(client, size); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends a number of random bytes and compares what comes back.
func exchange(client net.Conn, size int) error {
	sent, got := make([]byte, size), make([]byte, 1<<16)
	if _, err := rand.Read(sent); err != nil {
		return err
	}
	if err := client.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := client.Write(sent); err != nil {
		return fmt.Errorf("%d bytes: %w", size, err)
	}
	n, err := client.Read(got)
	if err != nil {
		return fmt.Errorf("%d bytes: %w", size, err)
	}
	if !bytes.Equal(sent, got[:n]) {
		return fmt.Errorf("%d bytes came back as %d others", size, n)
	}
	return nil
}

func always() bool { return true }

// speed exchanges large packets and returns Mbit/s, both ways together.
func speed(t *testing.T, from, to *neighbour) float64 {
	t.Helper()
	const count, size = 1000, 8952
	sizes := make([]int, count)
	for i := range sizes {
		sizes[i] = size
	}
	var start time.Time
	ready := func() bool { start = time.Now(); return true }
	eventually(t, "large packets", func() bool { return large(from, to, "198.51.100.2:9", always, size) == nil })
	if err := large(from, to, "198.51.100.2:9", ready, sizes...); err != nil {
		t.Error(err)
	}
	return 2 * count * (size + 28) * 8 / time.Since(start).Seconds() / 1e6
}

const jumboConfig = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:a::1/64"]%s}
  wan: {addresses: [198.51.100.1/24, "2001:db8:b::1/64"]%[1]s}
`

// TestJumbo has packets of 9,000 bytes on the fast path, in both families, translated, and with a tag; the program takes
// frames in several buffers only while an MTU asks for them.
func TestJumbo(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan, wan := b.newNeighbour("lan"), b.newNeighbour("wan")
	for _, n := range []*neighbour{lan, wan} {
		n.run("ethtool -K eth0 gro on tx off")
	}
	lan.run("ip addr add 192.0.2.2/24 dev eth0 && ip addr add 2001:db8:a::2/64 dev eth0 nodad && ip route add default via 192.0.2.1 && ip -6 route add default via 2001:db8:a::1")
	wan.run("ip addr add 198.51.100.2/24 dev eth0 && ip addr add 2001:db8:b::2/64 dev eth0 nodad && ip route add default via 198.51.100.1 && ip -6 route add default via 2001:db8:b::1")
	b.want(exitOK, "applied", "apply", b.file("small.yaml", fmt.Sprintf(jumboConfig, "")))
	b.want(exitOK, "native", "show", "fast-path")
	eventually(t, "packets of 1500 bytes", func() bool { return large(lan, wan, "198.51.100.2:9", always, 1, 1400) == nil })

	b.want(exitOK, "applied", "apply", b.file("large.yaml", fmt.Sprintf(jumboConfig, ", mtu: 9000")))
	for _, n := range []*neighbour{lan, wan} {
		n.run("ip link set eth0 mtu 9000")
	}
	if out := b.want(exitOK, "", "show", "fast-path").out; strings.Count(out, "native") < 2 {
		t.Errorf("with an MTU of 9000:\n%s", out)
	}
	sizes := []int{1, 1400, 3000, 3700, 4000, 4096, 7000, 8172, 8952}
	whole := uint64(0) // bytes of all frames one way, with the larger header
	for _, size := range sizes {
		whole += uint64(14 + 40 + 8 + size)
	}
	forwarded := func() (n, bytes uint64) {
		var v fastpath.Observed
		b.json(&v, "show", "fast-path", "--json")
		for _, one := range v.Traffic {
			n += one.RxPackets
			bytes += one.RxBytes
		}
		return n, bytes
	}
	try := func(what string) {
		t.Helper()
		for _, address := range []string{"198.51.100.2:9", "[2001:db8:b::2]:9"} {
			eventually(t, what+": neighbours are known", func() bool { return large(lan, wan, address, always) == nil })
			var before, bytesBefore, last uint64
			ready := func() bool { // both packets of an exchange were forwarded
				was := last
				before, bytesBefore = forwarded()
				last = before
				return was != 0 && before == was+2
			}
			if err := large(lan, wan, address, ready, sizes...); err != nil {
				t.Errorf("%s, to %s: %v", what, address, err)
			}
			n, bytes := forwarded()
			// A packet a second may go up for a stale neighbour.
			if n, bytes = n-before, bytes-bytesBefore; n < uint64(2*len(sizes)-2) || n > uint64(2*len(sizes)) || bytes < whole*3/2 || bytes > 2*whole {
				t.Errorf("%s, to %s: the fast path forwarded %d packets of %d bytes, expected %d of %d\n%s", what, address, n, bytes, 2*len(sizes), 2*whole, b.minne("show", "fast-path").out)
			}
		}
	}
	try("plain")
	var v fastpath.Observed
	b.json(&v, "show", "fast-path", "--json")
	for _, p := range v.Ports {
		if p.Forwarded == 0 || p.Received < p.Forwarded {
			t.Errorf("show fast-path of %s: received %d packets, and forwarded %d of them", p.Name, p.Received, p.Forwarded)
		}
	}
	fast := speed(t, lan, wan)
	b.want(exitOK, "applied", "apply", b.file("kernel.yaml", fmt.Sprintf(jumboConfig, ", mtu: 9000")+"fast-path: {mode: off}\n"))
	slow := speed(t, lan, wan)
	t.Logf("packets of 8,980 bytes there and back, one at a time, none lost or changed: %.0f Mbit/s by the fast path, %.0f by the kernel, %.2f times; with sockets, and the copies that a veth pair makes for XDP",
		fast, slow, fast/slow)
	b.want(exitOK, "applied", "apply", b.file("nat.yaml", strings.ReplaceAll(fmt.Sprintf(jumboConfig, ", mtu: 9000, zone: ZONE"), "ZONE", "both")+
		"nat: [{from: both, to: both, masquerade: on, families: [ipv4]}]\n"))
	try("masqueraded")
	b.wantWhole(4)

	// Larger than the way out: the kernel says so.
	b.want(exitOK, "applied", "apply", b.file("mixed.yaml", strings.Replace(fmt.Sprintf(jumboConfig, ", mtu: 9000"), "db8:b::1/64\"], mtu: 9000", "db8:b::1/64\"]", 1)))
	if out, err := lan.try("ping -c 1 -W 5 -M do -s 4000 198.51.100.2"); err == nil || !strings.Contains(out, "mtu = 1500") && !strings.Contains(out, "mtu=1500") {
		t.Errorf("ping with more than the MTU of the way out: %v\n%s", err, out)
	}
	// And back: the program for small frames.
	for _, n := range []*neighbour{lan, wan} {
		n.run("ip link set eth0 mtu 1500")
	}
	b.want(exitOK, "applied", "apply", b.file("small.yaml", fmt.Sprintf(jumboConfig, "")))
	b.want(exitOK, "native", "show", "fast-path")
	eventually(t, "packets of 1500 bytes again", func() bool { return large(lan, wan, "198.51.100.2:9", always, 1, 1400) == nil })
}
