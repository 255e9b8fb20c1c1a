// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/lab"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func up(t *testing.T, b *Blueprint, binary string) *Network {
	t.Helper()
	net, err := b.Up(t.Context(), binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
		if left := remains(t, net.Run); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return net
}

// remains lists what a run has left on this host.
func remains(t *testing.T, run string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/run/netns/minne-%s-*", "/run/minne-lab/%s", "/etc/frr/minne-lab-%s-*", "/run/frr/minne-lab-%s-*", "/sys/fs/bpf/minne-instances/lab-%s-*"} {
		list, err := filepath.Glob(fmt.Sprintf(pattern, run))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, list...)
	}
	return found
}

// ping sends one packet, again until an answer comes.
func ping(t *testing.T, from *lab.Running, to string) {
	t.Helper()
	err := lab.Until(t.Context(), 40*time.Second, "an answer from "+to, func() error {
		_, err := from.Run(t.Context(), "ping", "-c", "1", "-W", "1", to)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBuiltinTopologiesForward(t *testing.T) {
	binary := testbuild.Minne(t, t.TempDir())
	for name, c := range map[string]struct {
		from string
		to   []string
	}{
		"pair":   {"generator", []string{"198.18.0.3", "2001:2::3"}},
		"router": {"generator", []string{"198.19.0.2", "2001:2:0:1::2"}},
		"bridge": {"left", []string{"198.18.0.3", "2001:2::3"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			net := up(t, b, binary)
			for _, to := range c.to {
				ping(t, net.Node(c.from), to)
			}
		})
	}
}

// The example of the documentation: three makes of router, a host at each end.
func TestBIRDMinneAndFRRExchangeRoutes(t *testing.T) {
	b, err := Load("../../../docs/examples/lab/bgp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	net := up(t, b, testbuild.Minne(t, t.TempDir()))
	for _, to := range []string{"203.0.113.2", "2001:db8:b::2"} {
		ping(t, net.Node("left"), to)
	}
	// By way of BGP, not of anything else.
	for _, c := range []struct {
		node   string
		asked  []string
		answer string
		times  int
	}{
		{"bird", []string{"birdc", "show", "route", "203.0.113.0/24"}, "AS64503i", 1},
		{"frr", []string{"vtysh", "-c", "show ip route 198.51.100.0/24"}, `Known via "bgp"`, 1},
		{"minne", []string{"minne", "show", "bgp", "summary"}, "Established", 4},
	} {
		node := net.Node(c.node)
		out, err := node.Run(t.Context(), append([]string{filepath.Join(node.Dir, "bin", c.asked[0])}, c.asked[1:]...)...)
		if err != nil || strings.Count(out, c.answer) != c.times {
			t.Errorf("%v in %s says (%v)\n%s\nexpected %d × %s", c.asked, c.node, err, out, c.times, c.answer)
		}
	}
}

// Two Minnes side by side, both with their fast path, a plain kernel router, and a narrow cable.
func TestAChainOfRouters(t *testing.T) {
	b, err := Load("../../../docs/examples/lab/chain.yaml")
	if err != nil {
		t.Fatal(err)
	}
	net := up(t, b, testbuild.Minne(t, t.TempDir()))
	left := net.Node("left")
	ping(t, left, "192.0.2.194")
	for _, name := range []string{"one", "two"} {
		out, err := net.Routers[name].Command(t.Context(), "show", "fast-path")
		if err != nil || strings.Count(out, " native ") != 2 {
			t.Errorf("%s: expected two native ports (%v)\n%s", name, err, out)
		}
	}
	// The answer comes first or the sender knows already: both name the cable's MTU.
	err = lab.Until(t.Context(), time.Minute, "path MTU discovery", func() error {
		cmd := "ping -M do -s 1400 -c 1 -W 1 192.0.2.194 2>&1 | grep -E 'mtu ?= ?1400'"
		_, err := left.Run(t.Context(), "sh", "-c", cmd)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Whenever the operator has enough of waiting.
func TestAnInterruptedStartLeavesNothing(t *testing.T) {
	b, err := Load("../../../docs/examples/lab/bgp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	binary := testbuild.Minne(t, t.TempDir())
	interrupted := 0
	for _, wait := range []time.Duration{0, 100, 300, 500, 700} {
		ctx, cancel := context.WithTimeout(t.Context(), wait*time.Millisecond)
		net, err := b.Up(ctx, binary)
		cancel()
		if err == nil {
			net.Close()
		} else {
			interrupted++
		}
		if left := remains(t, fmt.Sprintf("%d-*", os.Getpid())); len(left) > 0 {
			t.Errorf("interrupted after %s (%v), left behind: %v", wait*time.Millisecond, err, left)
		}
	}
	if interrupted == 0 {
		t.Error("no start was interrupted: the test shows nothing")
	}
}

// What is wrong with a daemon's configuration shows only once it runs: then everything goes again.
func TestARefusedConfigurationLeavesNothing(t *testing.T) {
	for runs, c := range map[string]struct{ config, says string }{
		"bird": {"router id 192.0.2.1;\n      protocol nonsense;", "bird.conf:7:10"},
		"frr":  {"router bgp 64500\n      nonsense here", "nonsense here"},
	} {
		text := fmt.Sprintf("version: 1\nnodes:\n  r:\n    runs: %s\n    config: |\n      %s\n", runs, c.config)
		b, err := Parse("x.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.Up(t.Context(), "/nonexistent")
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "x.yaml") {
			t.Errorf("%s: %v, expected it to name x.yaml and %s", runs, err, c.says)
		}
		if left := remains(t, fmt.Sprintf("%d-*", os.Getpid())); len(left) > 0 {
			t.Errorf("%s: left behind: %v", runs, left)
		}
	}
}
