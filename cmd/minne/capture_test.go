// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"minne/internal/base/pcap"
	"minne/internal/daemon/show"
	"minne/internal/model/packet"
)

// forwarder is a box whose fast path forwards from lan to wan, and a wire on which the test speaks.
type forwarder struct {
	*box
	mac  packet.MAC // of lan
	wire int        // packet socket on the far end of lan
	far  int        // its ifindex
}

const forwarderConfig = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:a::1/64"], anti-spoof: strict}
  wan: {addresses: [198.51.100.1/24, "2001:db8:b::1/64"]}
routing:
  static:
    - {prefix: 203.0.113.0/24, blackhole: true}
`

func newForwarder(t *testing.T) *forwarder {
	f := &forwarder{box: newBox(t)}
	for _, far := range []string{"lan-far", "wan-far"} { // veths take redirected frames only with GRO
		f.inside("ethtool", "-K", far, "gro", "on")
		f.inside("sysctl", "-qw", "net.ipv6.conf."+far+".disable_ipv6=1") // else they speak unasked
	}
	f.start()
	f.want(0, "applied", "apply", f.file("minne.yaml", forwarderConfig))
	wan, err := f.links.LinkByName("wan")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"198.51.100.2", "2001:db8:b::2"} {
		n := netlink.Neigh{LinkIndex: wan.Attrs().Index, IP: net.ParseIP(host), State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0xb}}
		if err := f.links.NeighSet(&n); err != nil {
			t.Fatal(err)
		}
	}
	lan, err := f.links.LinkByName("lan")
	if err != nil {
		t.Fatal(err)
	}
	f.mac = packet.MAC(lan.Attrs().HardwareAddr)
	f.openWire()
	eventually(t, "the fast path forwards", func() bool { return f.explained().Verdict == "forwarded" })
	return f
}

// inside runs a command in the box's network namespace.
func (f *forwarder) inside(command ...string) {
	f.t.Helper()
	if out, err := exec.Command("nsenter", append([]string{"--net=" + f.netns}, command...)...).CombinedOutput(); err != nil {
		f.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

func (f *forwarder) openWire() {
	f.t.Helper()
	far, err := f.links.LinkByName("lan-far")
	if err != nil {
		f.t.Fatal(err)
	}
	f.far = far.Attrs().Index
	done := make(chan error)
	go func() { // a thread that ends with its goroutine, as it changes its namespace
		runtime.LockOSThread()
		ns, err := netns.GetFromPath(f.netns)
		if err == nil {
			err = netns.Set(ns)
			ns.Close()
		}
		if err == nil {
			f.wire, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		}
		done <- err
	}()
	if err := <-done; err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { unix.Close(f.wire) })
}

// probe is a packet from a host on the lan.
func probe(src, dst string, dport uint16) packet.Probe {
	return packet.Probe{Source: netip.MustParseAddr(src), Destination: netip.MustParseAddr(dst), Protocol: "udp", SrcPort: 4000, DstPort: dport, TTL: 64, Size: 100}
}

func (f *forwarder) send(n int, p packet.Probe) {
	f.t.Helper()
	frame, err := p.Frame(f.mac, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	for range n {
		if err := unix.Sendto(f.wire, frame, 0, &unix.SockaddrLinklayer{Ifindex: f.far}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *forwarder) explained(args ...string) show.Explained {
	f.t.Helper()
	a := f.minne(append([]string{"explain", "--in", "lan", "--src", "192.0.2.9", "--dst", "198.51.100.2", "--json"}, args...)...)
	var x show.Explained
	if err := json.Unmarshal([]byte(a.out), &x); err != nil {
		f.t.Fatalf("explain: %v\n%s%s", err, a.out, a.err)
	}
	return x
}

// capturing is a running minne capture.
type capturing struct {
	f        *forwarder
	cmd      *exec.Cmd
	out, err *os.File
}

func (f *forwarder) capture(args ...string) *capturing {
	f.t.Helper()
	c := &capturing{f: f, cmd: f.command(append([]string{"capture"}, args...)...)}
	for _, to := range []**os.File{&c.out, &c.err} {
		file, err := os.CreateTemp(f.t.TempDir(), "")
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { file.Close() })
		*to = file
	}
	c.cmd.Stdout, c.cmd.Stderr = c.out, c.err
	if err := c.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		if text, err := os.ReadFile(c.err.Name()); err == nil && f.t.Failed() {
			f.t.Logf("capture %v says:\n%s", args, text)
		}
	})
	eventually(f.t, "the capture runs", func() bool { return c.says("capturing") })
	return c
}

func (c *capturing) says(words string) bool {
	text, err := os.ReadFile(c.err.Name())
	return err == nil && strings.Contains(string(text), words)
}

// end ends it by Ctrl-C, unless it ends by itself, and returns what it printed.
func (c *capturing) end(interrupt bool) (out string) {
	c.f.t.Helper()
	if interrupt {
		if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
			c.f.t.Fatal(err)
		}
	}
	late := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if err := c.cmd.Wait(); err != nil {
		text, _ := os.ReadFile(c.err.Name())
		c.f.t.Fatalf("capture: %v\n%s", err, text)
	}
	text, err := os.ReadFile(c.out.Name())
	if err != nil {
		c.f.t.Fatal(err)
	}
	return string(text)
}

// TestCapture has captures with different filters run at once while known packets pass, and
// compares what each has.
func TestCapture(t *testing.T) {
	t.Parallel()
	f := newForwarder(t)
	path := func(name string) string { return filepath.Join(f.root, name+".pcapng") }
	type trial struct {
		name    string
		args    []string
		want    int
		comment string // of every packet
		address string // in every line of tcpdump
	}
	trials := []trial{
		{"forwarded", []string{"--verdict", "forwarded", "--net", "192.0.2.0/24"}, 340, "in lan: forwarded by wan", "IP 192.0.2.9.4000 > 198.51.100.2."},
		{"port", []string{"--port", "53", "--in", "lan", "--verdict", "forwarded", "--net", "0.0.0.0/0"}, 200, "in lan: forwarded by wan", "198.51.100.2.53"},
		{"spoofed", []string{"--reason", "spoofed"}, 50, "in lan: dropped (spoofed: the route back to the source uses another interface (reverse path check, uRPF))", "198.51.100.77"},
		{"blackhole", []string{"--verdict", "dropped", "--host", "203.0.113.9"}, 30, "in lan: dropped (blackhole: the route is a blackhole (null route))", "203.0.113.9"},
		{"punted", []string{"--verdict", "punted", "--host", "192.0.2.8"}, 20, "in lan: punted (ttl: TTL or hop limit expired: the kernel sends an error to the sender)", "192.0.2.8"},
		{"v6", []string{"--host", "2001:db8:a::9", "--host", "2001:db8:b::2"}, 40, "in lan: forwarded by wan", "IP6 2001:db8:a::9.4000 > 2001:db8:b::2."},
		{"sampled", []string{"--host", "192.0.2.9", "--verdict", "forwarded", "--port", "53", "--sample", "10", "--snaplen", "60"}, 20, "in lan: forwarded by wan", "192.0.2.9"},
		{"sent", []string{"--host", "192.0.2.9", "--port", "80", "--sent"}, 280, "in lan: forwarded by wan", "192.0.2.9"},
	}
	ordinary := f.program()
	for _, c := range trials {
		running := f.capture(append(c.args, "-w", path(c.name))...)
		f.traffic()
		f.settled()
		running.end(true)
		if text, _ := os.ReadFile(running.err.Name()); !strings.Contains(string(text), " 0 lost") {
			t.Errorf("%s: %s", c.name, text)
		}
		comments, err := os.ReadFile(path(c.name))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(comments), c.comment); n != c.want {
			t.Errorf("%s: %d packets with the comment %q, expected %d", c.name, n, c.comment, c.want)
		}
		text, err := exec.Command("tcpdump", "-n", "-r", path(c.name)).Output()
		if n := strings.Count(string(text), c.address); err != nil || n != c.want || strings.Count(string(text), "\n") != c.want {
			t.Errorf("%s: tcpdump reads %d packets with %s (%v), expected %d:\n%.500s", c.name, n, c.address, err, c.want, text)
		}
	}
	f.wantSent(path("sent"))

	f.want(0, "340 packets: 340 forwarded, 0 dropped, 0 punted to the kernel", "explain", "--in", "lan", "--pcap", path("forwarded"))
	f.want(0, "50 packets: 0 forwarded, 50 dropped, 0 punted to the kernel", "explain", "--in", "lan", "--pcap", path("spoofed"))
	lines := f.capture("--count", "5", "--verdict", "dropped")
	f.want(1, "another capture is running", "capture", "--count", "1")
	f.traffic()
	out := lines.end(false)
	if strings.Count(out, "\n") != 5 || strings.Count(out, "IPv4 198.51.100.77:4000 > 198.51.100.2:53 udp, 100 bytes, in lan: dropped (spoofed") != 5 {
		t.Errorf("five lines of drops:\n%s", out)
	}
	if now := f.program(); now != ordinary {
		t.Errorf("program %d is on the port, expected the ordinary one, %d", now, ordinary)
	}

	killed := f.capture()
	if f.program() == ordinary {
		t.Error("the capturing program is not on the port")
	}
	_ = killed.cmd.Process.Kill()
	eventually(t, "the ordinary program is back after a kill", func() bool { return f.program() == ordinary })

	changed := f.capture("-w", path("changed"), "--verdict", "forwarded")
	f.want(0, "applied", "apply", f.file("minne.yaml", forwarderConfig+"    - {prefix: 203.0.114.0/24, blackhole: true}\n"))
	f.send(10, probe("192.0.2.9", "198.51.100.2", 53))
	f.settled()
	changed.end(true)
	if text, err := exec.Command("tcpdump", "-n", "-r", path("changed")).Output(); err != nil || strings.Count(string(text), "\n") != 10 {
		t.Errorf("a commit disturbs the capture: %v\n%s", err, text)
	}
	ended := f.capture("-w", path("ended"))
	f.end(syscall.SIGTERM)
	if err := ended.cmd.Wait(); err == nil || !ended.says("the capture ended early: the daemon is stopping") {
		t.Errorf("the end of the daemon: %v", err)
	}
	if _, err := exec.Command("tcpdump", "-n", "-r", path("ended")).Output(); err != nil {
		t.Errorf("the file of a capture that ended early: %v", err)
	}
}

// traffic sends packets of every fate.
func (f *forwarder) traffic() {
	f.t.Helper()
	f.send(200, probe("192.0.2.9", "198.51.100.2", 53))
	f.send(140, probe("192.0.2.9", "198.51.100.2", 80))
	f.send(50, probe("198.51.100.77", "198.51.100.2", 53))
	f.send(30, probe("192.0.2.9", "203.0.113.9", 53))
	last := probe("192.0.2.8", "198.51.100.2", 53)
	last.TTL = 1
	f.send(20, last)
	f.send(40, probe("2001:db8:a::9", "2001:db8:b::2", 53))
}

// settled waits until all that was sent has come to the program: its counters stand still.
func (f *forwarder) settled() {
	f.t.Helper()
	count := func() string { return f.minne("fast-path", "status", "--json").out }
	before := count()
	eventually(f.t, "the traffic has passed", func() bool {
		time.Sleep(100 * time.Millisecond)
		now := count()
		same := now == before
		before = now
		return same
	})
}

// program is the id of the program on lan.
func (f *forwarder) program() int {
	f.t.Helper()
	link, err := f.links.LinkByName("lan")
	if err != nil || link.Attrs().Xdp == nil {
		f.t.Fatalf("lan: %v", err)
	}
	return int(link.Attrs().Xdp.ProgId)
}

// wantSent holds the packets as they left against those as they came.
func (f *forwarder) wantSent(path string) {
	f.t.Helper()
	file, err := os.Open(path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	n := map[string]int{}
	err = pcap.Read(file, func(r pcap.Record) error {
		s := packet.Summarize(r.Frame)
		n[fmt.Sprintf("%v ttl %d", s.DstMAC, s.TTL)]++
		return nil
	})
	came, left := n[f.mac.String()+" ttl 64"], n["02:00:00:00:00:0b ttl 63"]
	if err != nil || came != 140 || left != 140 {
		f.t.Errorf("%v, %d packets as they came, %d as they left: %v", err, came, left, n)
	}
}
