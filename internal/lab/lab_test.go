// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab/traffic"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// A kernel router between a generator and a sink: its ends have static neighbours.
func threeInARow(t *testing.T) *Lab {
	t.Helper()
	l, err := Start(t.Context(), Topology{
		Nodes: []Node{
			{Name: "left", Routes: []Route{{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.0.1.1")}, {netip.MustParsePrefix("::/0"), netip.MustParseAddr("fd00:1::1")}}},
			{Name: "router", Forwards: true},
			{Name: "right", EverywhereBut: prefixes("10.0.0.0/8", "fd00::/8"), Routes: []Route{{netip.MustParsePrefix("10.0.1.0/24"), netip.MustParseAddr("10.0.2.1")}, {netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:2::1")}}},
		},
		Links: []Link{
			{A: port("left", "up", "10.0.1.2/24", "fd00:1::2/64"), B: port("router", "left", "10.0.1.1/24", "fd00:1::1/64")},
			{A: port("router", "right", "10.0.2.1/24", "fd00:2::1/64"), B: port("right", "up", "10.0.2.2/24", "fd00:2::2/64")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// defaultToTheRight gives the router default routes to the node that answers everywhere.
func (l *Lab) defaultToTheRight(t *testing.T) {
	t.Helper()
	for _, r := range []string{"10.0.2.2", "fd00:2::2"} {
		if _, err := l.Node("router").Run(t.Context(), "ip", "route", "add", "default", "via", r); err != nil {
			t.Fatal(err)
		}
	}
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func port(node, name string, addresses ...string) Port {
	p := Port{Node: node, Name: name}
	p.Addresses = prefixes(addresses...)
	return p
}

func TestNodesReachEachOtherThroughARouter(t *testing.T) {
	l := threeInARow(t)
	l.defaultToTheRight(t)
	for _, to := range []string{"10.0.2.2", "fd00:2::2", "192.0.2.99", "2001:db8::99"} {
		// One answer is enough: on a busy machine neighbours may need longer than the first request waits.
		if out, err := l.Node("left").Run(t.Context(), "ping", "-c", "1", "-w", "60", to); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestStreamsAreCountedAndCheckedAtTheSink(t *testing.T) {
	l := threeInARow(t)
	router, right, left := l.Node("router"), l.Node("right"), l.Node("left")
	l.defaultToTheRight(t)
	if err := router.AcceptRedirects("left"); err != nil {
		t.Fatal(err)
	}
	sink, err := traffic.NewSink()
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	into, intoMAC, err := right.Port("up")
	if err != nil {
		t.Fatal(err)
	}
	if err := right.Do(func() error { return sink.Attach(into) }); err != nil {
		t.Fatal(err)
	}
	generator, err := traffic.NewGenerator()
	if err != nil {
		t.Fatal(err)
	}
	defer generator.Close()
	if err := generator.SetDestinations([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("198.51.100.7")}); err != nil {
		t.Fatal(err)
	}
	out, outMAC, err := left.Port("up")
	if err != nil {
		t.Fatal(err)
	}
	_, routerMAC, err := router.Port("left")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		source string
		bytes  int
		ttl    uint8
		rate   float64
		wrong  bool
	}{
		{"IPv4", "10.0.1.2", traffic.MinFrame4, 63, 0, false},
		{"IPv4 paced", "10.0.1.2", 512, 63, 50_000, false},
		{"IPv6", "fd00:1::2", traffic.MinFrame6, 63, 0, false},
		{"IPv6 paced", "fd00:1::2", 1514, 63, 50_000, false},
		{"a TTL that no router would make", "10.0.1.2", traffic.MinFrame4, 64, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			const frames = 10_000
			if err := sink.Expect(3, traffic.Expect{TTL: c.ttl, FrameBytes: c.bytes, MAC: intoMAC, MACBytes: 6}); err != nil {
				t.Fatal(err)
			}
			stream := traffic.Stream{ID: 3, Port: out, From: outMAC, To: routerMAC, Source: netip.MustParseAddr(c.source), FrameBytes: c.bytes, Frames: frames, Rate: c.rate}
			var sent traffic.Sent
			err := left.Do(func() (err error) { sent, err = generator.Send(t.Context(), stream); return err })
			if err != nil {
				t.Fatal(err)
			}
			var a traffic.Arrived
			err = Until(t.Context(), 1e9, "the last packets", func() (err error) { a, err = sink.Arrived(3); return err })
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("sent %+v (%.0f ns per frame), arrived %+v", sent, sent.PerFrame(), a)
			if sent.Frames != frames || a.Received == 0 || a.Duplicated != 0 || a.Reordered != 0 {
				t.Errorf("sent %d of %d, arrived %+v", sent.Frames, frames, a)
			}
			if (a.Wrong() != "") != c.wrong {
				t.Errorf("wrong: %q, expected some: %v", a.Wrong(), c.wrong)
			}
		})
	}
}

func TestSweepRemovesLabsOfDeadProcesses(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	run := strconv.Itoa(dead.Process.Pid) + "-1"
	name := namespaceName(run, "node")
	if err := addNamespace(name); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(baseDir, run), 0o755); err != nil {
		t.Fatal(err)
	}
	// Something that runs in it, without being a child that the lab knows.
	var sleeper = exec.Command("sleep", "1000")
	if err := inside(name, sleeper.Start); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Wait(); err == nil {
		t.Error("the process in the abandoned namespace was not ended")
	}
	for _, path := range []string{filepath.Join(namespaceDir, name), filepath.Join(baseDir, run)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", path, err)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	l := threeInARow(t)
	p, err := l.Node("left").Start("sleep", "sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	dir := l.Dir
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	for _, path := range []string{dir, filepath.Join(namespaceDir, l.Node("left").Namespace)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there (%v)", path, err)
		}
	}
}

func TestAFailedStartLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before, _ := filepath.Glob(filepath.Join(namespaceDir, "minne-*"))
	if _, err := Start(ctx, Topology{Nodes: []Node{{Name: "a"}}}); err == nil {
		t.Error("no error although the context had ended")
	}
	after, _ := filepath.Glob(filepath.Join(namespaceDir, "minne-*"))
	if len(after) > len(before) {
		t.Errorf("namespaces before %v, after %v", before, after)
	}
}

func TestTopologyCheckNamesTheMistake(t *testing.T) {
	for _, c := range []struct {
		name string
		t    Topology
		ok   bool
	}{
		{"good", Topology{Nodes: []Node{{Name: "a"}, {Name: "b"}}, Links: []Link{{A: port("a", "p"), B: port("b", "p")}}}, true},
		{"node twice", Topology{Nodes: []Node{{Name: "a"}, {Name: "a"}}}, false},
		{"unknown node", Topology{Nodes: []Node{{Name: "a"}}, Links: []Link{{A: port("a", "p"), B: port("b", "p")}}}, false},
		{"port twice", Topology{Nodes: []Node{{Name: "a"}, {Name: "b"}}, Links: []Link{{A: port("a", "p"), B: port("b", "p")}, {A: port("a", "p"), B: port("b", "q")}}}, false},
		{"long name", Topology{Nodes: []Node{{Name: "a"}, {Name: "b"}}, Links: []Link{{A: port("a", "sixteen-bytes-xx"), B: port("b", "p")}}}, false},
	} {
		if err := c.t.check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestTwoBIRDsExchangeATable(t *testing.T) {
	l := threeInARow(t)
	bgp := func(name, local, remote string, own, other uint32, full bool) []BIRDPeer {
		return []BIRDPeer{{Name: name, Local: netip.MustParseAddr(local), Remote: netip.MustParseAddr(remote), LocalAS: own, PeerAS: other, Password: "secret", BFD: true, Full: full}}
	}
	var table []netip.Prefix
	for i := range 1000 {
		table = append(table, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), 0}), 24))
	}
	left, router := l.Node("left"), l.Node("router")
	if _, err := left.StartBIRD(t.Context(), BIRD{RouterID: netip.MustParseAddr("10.0.1.2"), Announced: table, BGP: bgp("to_router", "10.0.1.2", "10.0.1.1", 64496, 64497, true)}); err != nil {
		t.Fatal(err)
	}
	if _, err := router.StartBIRD(t.Context(), BIRD{RouterID: netip.MustParseAddr("10.0.1.1"), BGP: bgp("to_left", "10.0.1.1", "10.0.1.2", 64497, 64496, false)}); err != nil {
		t.Fatal(err)
	}
	err := Until(t.Context(), 30*time.Second, "the table", func() error {
		if state, err := router.BIRDState(t.Context(), "to_left"); err != nil || state != "Established" {
			return fmt.Errorf("session %s (%v)", state, err)
		}
		routes, err := router.CountRoutes(unix.AF_INET)
		if err == nil && routes[unix.RTPROT_BIRD] != len(table) {
			err = fmt.Errorf("%d of %d routes", routes[unix.RTPROT_BIRD], len(table))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestProbeTellsWhatWasLostAndForHowLong(t *testing.T) {
	l := threeInARow(t)
	l.defaultToTheRight(t)
	destinations := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("198.51.100.9")}
	probe, err := StartProbe(l.Node("left"), l.Node("right"), destinations, 500, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	flows := func() error { return probe.Flowing(200 * time.Millisecond) }
	if err := Until(t.Context(), 20*time.Second, "the probe to flow", flows); err != nil {
		t.Fatal(err)
	}
	// One of three destinations is gone for a while.
	if _, err := l.Node("router").Run(t.Context(), "ip", "route", "add", "blackhole", "198.51.100.0/24"); err != nil {
		t.Fatal(err)
	}
	if err := Until(t.Context(), 20*time.Second, "the probe to notice", func() error {
		err := probe.Flowing(200 * time.Millisecond)
		if err == nil {
			return errors.New("it still flows")
		}
		if !strings.Contains(err.Error(), " to 198.51.100.9") || strings.Contains(err.Error(), " to 192.0.2.1") {
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Node("router").Run(t.Context(), "ip", "route", "del", "blackhole", "198.51.100.0/24"); err != nil {
		t.Fatal(err)
	}
	if err := Until(t.Context(), 20*time.Second, "the probe to flow again", flows); err != nil {
		t.Fatal(err)
	}
	o := probe.Stop()
	if o.Destinations != 3 || o.Lost == 0 || o.Lost >= o.Sent || o.Longest <= 0 {
		t.Errorf("%+v, expected that one of three destinations lost packets for a while", o)
	}
}
