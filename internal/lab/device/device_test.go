// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/base/ipnet"
	"minne/internal/lab"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func TestParseAndString(t *testing.T) {
	good := filepath.Join(t.TempDir(), "router.yaml")
	if err := os.WriteFile(good, []byte("version: 1\nsystem: {hostname: x}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nsystem: {hostnam: x}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, name, wrong string }{
		{text: "kernel", name: "kernel"},
		{text: "bridge", name: "bridge"},
		{text: "none", name: "none"},
		{text: "minne", name: "minne"},
		{text: "fastpath", name: "minne"},
		{text: "minne,fast-path=off", name: "minne,fast-path=off"},
		{text: "minne,fast-path=on", name: "minne"},
		{text: "fastpath,binary=/bin/true,structure=range16", name: "minne,structure=range16,binary=/bin/true"},
		{text: "minne,config=" + good, name: "minne,config=" + good},
		{text: "", wrong: "expected one of"},
		{text: "cisco", wrong: "expected one of"},
		{text: "kernel,fast-path=off", wrong: "takes no options"},
		{text: "minne,fast-path=maybe", wrong: "expected on or off"},
		{text: "minne,structure=trie", wrong: "range18"},
		{text: "minne,speed=fast", wrong: `option "speed"`},
		{text: "minne,structure", wrong: "expected fast-path=off"},
		{text: "minne,binary=/nonexistent", wrong: "no such file"},
		{text: "minne,binary=/etc/passwd", wrong: "not an executable"},
		{text: "minne,binary=/etc", wrong: "not an executable"},
		{text: "minne,config=/nonexistent", wrong: "no such file"},
		{text: "minne,config=" + bad, wrong: "hostname"},
		{text: "minne,config=" + good + ",fast-path=off", wrong: "belong to the configuration itself"},
	} {
		s, err := Parse(c.text)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q: error %v, expected %q", c.text, err, c.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if s.String() != c.name {
			t.Errorf("%q is %q, expected %q", c.text, s, c.name)
		} else if again, err := Parse(s.String()); err != nil || again != s {
			t.Errorf("%q read again: %+v, %v", s, again, err)
		}
	}
}

func TestWhoForwards(t *testing.T) {
	for _, c := range []struct {
		spec       Spec
		kernelPort bool
		want       Forwarder
		hops       int
	}{
		{Spec{Kind: Kernel}, false, ByKernel, 1},
		{Spec{Kind: Minne}, false, ByFastPath, 1},
		{Spec{Kind: Minne}, true, ByKernel, 1},
		{Spec{Kind: Minne, FastPathOff: true}, false, ByKernel, 1},
		{Spec{Kind: Minne, Config: "x"}, false, ByAny, 1},
		{Spec{Kind: Bridge}, false, ByAny, 0},
		{Spec{Kind: None}, false, ByAny, 0},
	} {
		if got := c.spec.Forwarder(c.kernelPort); got != c.want || c.spec.Hops() != c.hops {
			t.Errorf("%s, kernel port %v: %q and %d hops, expected %q and %d", c.spec, c.kernelPort, got, c.spec.Hops(), c.want, c.hops)
		}
	}
}

// TestAddressesAreForBenchmarks holds every network of a rig in the ranges set aside (RFC 2544
// appendix C.2.2, RFC 5180 section 8), and apart from the others: hosts are not on a port's own network.
func TestAddressesAreForBenchmarks(t *testing.T) {
	ranges := ipnet.Must("198.18.0.0/15", "2001:2::/48")
	all := [][]netip.Prefix{InAddresses, OutAddresses, InHosts, OutHosts}
	for i, networks := range all {
		if len(networks) != len(ranges) {
			t.Fatalf("%v: expected one network of each family", networks)
		}
		for family, p := range networks {
			if !ranges[family].Contains(p.Addr()) || p.Bits() < ranges[family].Bits() {
				t.Errorf("%v is not within %v", p, ranges[family])
			}
			for _, others := range all[:i] {
				if p.Overlaps(others[family]) {
					t.Errorf("%v overlaps %v", p, others[family])
				}
			}
		}
	}
}

func TestSpreadUsesEveryNextHop(t *testing.T) {
	const hops = 64
	count := map[int]int{}
	for i := range 25_600 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 0}), 24)
		count[Spread(p, hops)]++
	}
	if len(count) != hops {
		t.Fatalf("%d next hops used, expected %d", len(count), hops)
	}
	for hop, n := range count {
		if n < 200 || n > 800 {
			t.Errorf("next hop %d has %d routes of 25,600 over %d", hop, n, hops)
		}
	}
}

func TestAConfigurationThatDoesNotFit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "router.yaml")
	text := "version: 1\nsystem: {hostname: x}\ninterfaces:\n  left: {addresses: [192.0.2.1/24]}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Spec{Kind: Minne, Config: file}.config(wiring())
	for _, want := range []string{file, "no interface right", "interface left has no address 198.18.0.1/24", `right: {addresses: ["198.18.1.1/24", "fd00:1::1/64"]}`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q in it", err, want)
		}
	}
}

func wiring() Wiring {
	p := netip.MustParsePrefix
	return Wiring{Ports: []Port{
		{Name: "left", Addresses: []netip.Prefix{p("198.18.0.1/24"), p("fd00::1/64")}},
		{Name: "right", Addresses: []netip.Prefix{p("198.18.1.1/24"), p("fd00:1::1/64")}},
	}}
}

// Every kind of device between two hosts: what they send passes, with the TTL that
// the kind stands for, at first, after a restart, and after a reset.
func TestDevicesForward(t *testing.T) {
	binary := testbuild.Minne(t, t.TempDir())
	own := filepath.Join(t.TempDir(), "router.yaml")
	if err := os.WriteFile(own, []byte("version: 1\nsystem: {hostname: own}\n"+interfaces(wiring())), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"kernel", "bridge", "minne", "minne,fast-path=off", "minne,structure=range16", "minne,config=" + own} {
		t.Run(strings.ReplaceAll(text, "/", "_"), func(t *testing.T) {
			t.Parallel()
			spec, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			n := between(t, spec, binary)
			n.mustPass(t, "at first")
			if err := n.device.Restart(t.Context()); (err == nil) != (spec.Kind == Minne) {
				t.Errorf("restart: %v", err)
			}
			n.mustPass(t, "after a restart")
			if err := n.device.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := n.device.AwaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.mustPass(t, "after a reset")
			f, err := n.device.Facts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if f.Name != text || f.Version == "" || spec.Hops() == 1 && (f.Routes4 != 2 || f.Routes6 != 1) || spec.Kind == Minne && len(f.BinaryHash)+len(f.ConfigHash) != 128 {
				t.Errorf("facts %+v", f)
			}
		})
	}
}

// network is a device between two hosts.
type network struct {
	lab    *lab.Lab
	device *Device
}

func between(t *testing.T, spec Spec, binary string) network {
	t.Helper()
	p := netip.MustParsePrefix
	port := func(node, name string, addresses ...netip.Prefix) lab.Port {
		return lab.Port{Node: node, Name: name, Addresses: addresses}
	}
	a := port("a", "port", p("198.18.0.2/24"), p("fd00::2/64"))
	b := port("b", "port", p("198.18.1.2/24"), p("fd00:1::2/64"))
	// Behind b, reached by routes.
	b.Addresses = append(b.Addresses, p("203.0.113.1/32"), p("2001:db8::1/128"))
	if spec.Hops() == 0 {
		b.Addresses = []netip.Prefix{p("198.18.0.3/24"), p("fd00::3/64"), p("203.0.113.1/32"), p("2001:db8::1/128")}
	}
	l, err := lab.Start(t.Context(), lab.Topology{
		Nodes: []lab.Node{{Name: "a"}, {Name: "device"}, {Name: "b"}},
		Links: []lab.Link{{A: a, B: port("device", "left")}, {A: port("device", "right"), B: b}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	w := wiring()
	for i, node := range []string{"a", "b"} {
		_, mac, err := l.Node(node).Port("port")
		if err != nil {
			t.Fatal(err)
		}
		for _, address := range [][2]string{{"198.18.0.2", "198.18.1.2"}, {"fd00::2", "fd00:1::2"}} {
			w.Ports[i].Stations = append(w.Ports[i].Stations, Station{Address: netip.MustParseAddr(address[i]), MAC: mac})
		}
	}
	w.Ports[1].Routes = []netip.Prefix{p("203.0.113.0/24"), p("2001:db8::/32")}
	d, err := spec.Start(t.Context(), l.Node("device"), w, Means{Binary: binary, Load: kernel.BulkRoutes})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Install(t.Context(), 1, []netip.Prefix{p("203.0.113.128/25")}); err != nil {
		t.Fatal(err)
	}
	if err := d.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	for node, via := range map[string][2]string{"a": {"198.18.0.1", "fd00::1"}, "b": {"198.18.1.1", "fd00:1::1"}} {
		for _, gateway := range via {
			argv := []string{"ip", "route", "add", "default", "via", gateway}
			if spec.Hops() == 0 {
				argv = []string{"ip", "-6", "route", "add", "default", "dev", "port"}
				if strings.Contains(gateway, ".") {
					argv[1] = "-4"
				}
			}
			if out, err := l.Node(node).Run(t.Context(), argv...); err != nil {
				t.Fatal(err, out)
			}
		}
	}
	if err := l.Node("a").AcceptRedirects("port"); err != nil {
		t.Fatal(err)
	}
	if err := l.Node("b").AcceptRedirects("port"); err != nil {
		t.Fatal(err)
	}
	return network{l, d}
}

// mustPass sends echo requests from a to b and looks at the TTL of the answers.
func (n network) mustPass(t *testing.T, when string) {
	t.Helper()
	want := fmt.Sprintf("ttl=%d", 64-n.device.Hops())
	for _, to := range []string{"203.0.113.1", "2001:db8::1"} {
		// The hosts' own ports may have been without a carrier a moment ago.
		err := lab.Until(t.Context(), time.Minute, "an answer with "+want, func() error {
			out, err := n.lab.Node("a").Run(t.Context(), "ping", "-n", "-c", "1", "-W", "1", to)
			if !strings.Contains(out, want) {
				return fmt.Errorf("%v\n%s", err, out)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s, %s, to %s: %v", n.device.Spec, when, to, err)
		}
	}
}
