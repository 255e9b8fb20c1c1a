// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/nft"
	"minne/internal/testing/hands"
)

// Never open: while each fault of docs/design/faults.md is injected, a host in the WAN sends what the
// firewall denies to one in the LAN and to the router itself, without a pause. None of it may arrive.
// Half of the tests have the fast path on the ports, half the kernel alone.

const guardedConfig = `version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24, "2001:db8:1::1/64"], fast-path: %[1]s, anti-spoof: strict}
  wan: {zone: wan, addresses: [198.51.100.1/24], fast-path: %[1]s}
firewall:
  sets: {friends: {addresses: [198.51.100.77]}}
  policies:
    - {from: wan, to: lan, rules: [permit tcp any 192.0.2.10 80, permit any @friends any]}
    - {from: lan, to: wan, rules: [permit any]}
    - {from: lan, to: self, rules: [permit tcp any any 8022]}
nat: [{from: lan, to: wan, masquerade: true}]
`

// guarded is a box with a firewall, and a host on each side.
type guarded struct {
	*box
	lan, wan *host
	self     *host // the router as one that serves
	file     string
	denied   atomic.Int64 // packets that were forwarded though the firewall denies them
	heard    atomic.Int64 // packets to the router itself
	met      atomic.Int64 // connections to the router itself
	nftDir   string       // in front of the daemon's PATH
}

// newGuarded starts a router, applies the configuration, and the denied traffic.
func newGuarded(t *testing.T, fastPath string) *guarded {
	t.Helper()
	g := &guarded{box: newBox(t)}
	g.nftDir = filepath.Join(g.root, "programs")
	g.breakNft("")
	g.boot()
	g.lan = g.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	g.wan = g.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1"})
	for _, far := range []struct{ netns, link string }{{g.lan.netns, "lan-far"}, {g.wan.netns, "wan-far"}} {
		// Without it the fast path can't send by the port, and leaves what would leave there to the kernel.
		if out, err := exec.Command("nsenter", "--net="+far.netns, "ethtool", "-K", far.link, "gro", "on").CombinedOutput(); err != nil {
			t.Fatalf("GRO of %s: %v\n%s", far.link, err, out)
		}
	}
	g.lan.serve(":80")
	g.file = g.box.file("guarded.yaml", fmt.Sprintf(guardedConfig, fastPath))
	g.want(0, "applied", "apply", g.file)
	g.lan.count("192.0.2.10:5000", &g.denied)
	g.wan.pour("192.0.2.10:5000")
	g.self = &host{t, g.netns}
	g.self.serve(":8022")
	g.self.serve(":8023") // permitted to nobody
	g.self.count(":5001", &g.heard)
	g.wan.pour("198.51.100.1:5001")
	g.wan.knock("198.51.100.1:8022", &g.met)
	g.wantService(true)
	return g
}

// boot starts the daemon with the box's own nft in front of all others.
func (g *guarded) boot(env ...string) {
	g.t.Helper()
	g.start(append(env, "PATH="+g.nftDir+":"+os.Getenv("PATH"))...)
}

// breakNft puts a program in nft's place; "" puts the true one back.
func (g *guarded) breakNft(program string) {
	g.t.Helper()
	real, err := exec.LookPath("nft")
	if err != nil {
		g.t.Fatal(err)
	}
	if program == "" {
		program = "#!/bin/sh\nexec " + real + " \"$@\"\n"
	}
	if err := os.MkdirAll(g.nftDir, 0o755); err != nil {
		g.t.Fatal(err)
	}
	scratch := filepath.Join(g.root, "nft.new") // the daemon may start it at any time
	if err := os.WriteFile(scratch, []byte(program), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(scratch, filepath.Join(g.nftDir, "nft")); err != nil {
		g.t.Fatal(err)
	}
}

// powerOff ends the daemon and leaves of the kernel what a boot begins with.
func (g *guarded) powerOff() {
	g.t.Helper()
	if g.daemon != nil {
		g.end(syscall.SIGKILL)
	}
	for _, port := range []string{"lan", "wan"} { // nobody brings them up but the daemon
		link, err := g.links.LinkByName(port)
		if err == nil {
			err = g.links.LinkSetDown(link)
		}
		if err != nil {
			g.t.Fatal(err)
		}
	}
	g.want(0, "", "stop", "--all", "--netns", g.netns)
	g.nft("flush", "ruleset")
}

// wantManaged wants that the LAN reaches the router, as the firewall permits.
func (g *guarded) wantManaged(what string) {
	g.t.Helper()
	eventually(g.t, what+": the LAN reaches the router", func() bool { return g.lan.reach("192.0.2.1:8022") == "192.0.2.10" })
	eventually(g.t, what+": by IPv6, too", func() bool { return g.lan.reach("[2001:db8:1::1]:8022") == "2001:db8:1::10" })
	g.lan.wantReach("192.0.2.1:8023", "silence")
}

// wantService waits until the service that the firewall permits answers, or wants that it does not.
func (g *guarded) wantService(want bool) {
	g.t.Helper()
	if !want {
		g.wan.wantReach("192.0.2.10:80", "silence")
		return
	}
	eventually(g.t, "the permitted service answers", func() bool { return g.wan.reach("192.0.2.10:80") == "198.51.100.9" })
}

// wantNone says how many denied packets came through since the last call: none, or else the test fails.
func (g *guarded) wantNone(what string) {
	g.t.Helper()
	if n, heard, met := g.denied.Swap(0), g.heard.Swap(0), g.met.Swap(0); n+heard+met > 0 {
		g.t.Errorf("%s: %d denied packets were forwarded, %d reached the router, and %d connections", what, n, heard, met)
	}
}

// pour sends UDP packets to an address, of 16 flows in turn, until the test ends.
func (h *host) pour(to string) {
	h.t.Helper()
	var sockets []net.Conn
	err := h.inside(func() error {
		for range 16 {
			c, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			sockets = append(sockets, c)
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pace := time.NewTicker(500 * time.Microsecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-pace.C:
				_, _ = sockets[i%len(sockets)].Write([]byte("denied")) // what nobody answers may be refused
			}
		}
	}()
	h.t.Cleanup(func() {
		close(stop)
		<-ended
		for _, c := range sockets {
			c.Close()
		}
	})
}

// knock connects to an address again and again until the test ends, and counts how often it can.
func (h *host) knock(to string, n *atomic.Int64) {
	h.t.Helper()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = h.inside(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				c, err := net.DialTimeout("tcp", to, 20*time.Millisecond)
				if err == nil {
					n.Add(1)
					c.Close()
				}
				time.Sleep(time.Millisecond) // the network may be unreachable at once
			}
		})
	}()
	h.t.Cleanup(func() {
		close(stop)
		<-ended
	})
}

// count counts the UDP packets that arrive at an address.
func (h *host) count(address string, n *atomic.Int64) {
	h.t.Helper()
	err := h.inside(func() error {
		c, err := net.ListenPacket("udp", address)
		if err != nil {
			return err
		}
		h.t.Cleanup(func() { c.Close() })
		go func() {
			var packet [64]byte
			for {
				if _, _, err := c.ReadFrom(packet[:]); err != nil {
					return
				}
				n.Add(1)
			}
		}()
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// At boot, whatever step fails, and wherever the daemon is killed: nothing denied passes, and the
// router is whole in the end.
func TestNeverOpenAtBoot(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "on")
	for _, fault := range []string{
		"back-firewall:error", "back-firewall-done:error", "back-fast-path-firewall:error", "back-kernel:error", "back-forwarding-done:error",
		"back-firewall:kill", "back-firewall-done:kill", "back-kernel-done:kill", "back-forwarding-done:kill",
	} {
		g.powerOff()
		if strings.HasSuffix(fault, ":kill") {
			killed := g.command("daemon", "--netns", g.netns)
			killed.Env = append(killed.Env, "MINNE_FAULT="+fault)
			if out, err := killed.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("%s: %v\n%s", fault, err, out)
			}
			_ = g.wan.reach("192.0.2.10:80") // as it is now
			g.wantNone("dead after " + fault)
			g.boot()
		} else {
			g.boot("MINNE_FAULT=" + fault)
		}
		g.wantService(true)
		eventually(t, fault+": whole again", func() bool { return g.status().Degraded == nil })
		g.wantNone(fault)
	}
}

// Without a working nft there are no rules at boot, and so no way through; with one again, the router
// mends itself. At an apply, the former rules stay.
func TestNeverOpenWithoutNft(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "off")
	for name, program := range map[string]string{"fails": "#!/bin/sh\nexit 1\n", "killed": "#!/bin/sh\nkill -9 $$\n", "missing": ""} {
		broken := func() {
			g.breakNft(program)
			if program == "" {
				if err := os.Chmod(filepath.Join(g.nftDir, "nft"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		g.powerOff()
		broken()
		if program == "" { // no other one behind it
			g.start("PATH=" + g.nftDir)
		} else {
			g.boot()
		}
		if s := g.status(); !strings.Contains(fmt.Sprint(s.Degraded), "firewall") {
			t.Errorf("%s: the status does not say that the firewall is not in place: %q", name, s.Degraded)
		}
		if s := g.status(); strings.Contains(fmt.Sprint(s.Degraded, s.Repairs), "changed by") {
			t.Errorf("%s: somebody else is said to have changed what was never in place: %q, %q", name, s.Degraded, s.Repairs)
		}
		g.wantService(false)
		g.wantManaged("nft " + name)
		// The filter of an image's boot lets logins of help in, though all is shut.
		g.nft(fmt.Sprintf(`table inet lab_help { chain input { type filter hook input priority -5; iifname "lan" tcp dport 8023 meta mark set meta mark | %#x; }; }`, nft.HelpMark))
		g.lan.wantReach("192.0.2.1:8023", "192.0.2.10")
		g.nft("delete table inet lab_help")
		g.wantNone("nft " + name)
		g.breakNft("")
		g.wantService(true)
		eventually(t, "whole again", func() bool { return g.status().Degraded == nil })
		if s := g.status(); strings.Contains(fmt.Sprint(s.Repairs), "source address checks") {
			t.Errorf("%s: put in place for the first time, and told as a repair: %q", name, s.Repairs)
		}
		broken()
		more := g.box.file("more.yaml", strings.Replace(fmt.Sprintf(guardedConfig, "off"), "10 80,", "10 80, permit tcp any 192.0.2.10 81,", 1))
		if a := g.minne("apply", more); a.code == 0 {
			t.Errorf("%s: an apply works without nft\n%s", name, a.out)
		}
		g.wantService(true)
		g.breakNft("")
		g.wantNone("an apply with nft " + name)
	}
}

// Hands in the filter. The kernel lets nobody change the rules, so that not one denied packet passes; the
// source address checks are put back. What one changes that has the owner's socket is undone at once.
func TestNeverOpenByHand(t *testing.T) {
	for _, fastPath := range []string{"on", "off"} {
		t.Run("fast path "+fastPath, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, fastPath)
			repaired := g.status().Repaired
			for _, script := range []string{
				"insert rule inet minne_policy forward accept",
				"insert rule inet minne_policy wan_to_lan accept",
				"insert rule inet minne_policy input accept",
				"add element inet minne_policy friends_v4 { 198.51.100.9 }",
				"chain inet minne_policy forward { policy accept; }",
				"flush chain inet minne_policy forward",
				"flush chain inet minne_policy input",
				"delete chain inet minne_policy input",
				"add table inet minne_policy { flags dormant; }",
				"delete table inet minne_policy",
			} {
				if out, err := exec.Command("nsenter", "--net="+g.netns, "nft", script).CombinedOutput(); err == nil || !strings.Contains(string(out), "not permitted") {
					t.Errorf("%s: anybody can do it: %v\n%s", script, err, out)
				}
				g.wantNone(script)
			}
			g.wantService(true)
			if now := g.status(); now.Repaired != repaired {
				t.Errorf("told as repaired: %v", now.Repairs)
			}
			g.nft("flush ruleset")
			g.wantRepaired("the source address checks were changed by nft")
			g.wantService(true)
			g.wantNone("flush ruleset")
			for _, hand := range []struct{ script, words string }{
				{"delete table inet minne_policy", "the table is gone, by "},
				{"flush chain inet minne_policy forward", "rules of chain forward gone"},
				{"flush chain inet minne_policy input", "rules of chain input gone"},
				{"delete table inet minne_antispoof", "the source address checks were changed by nft"},
			} {
				g.hand(hand.script)
				g.wantRepaired(hand.words)
				g.wantNone(hand.script)
				g.wantService(true)
				time.Sleep(2500 * time.Millisecond) // four hands in ten seconds are no quarrel
			}
			// What the owner's socket permits passes the kernel until it is undone. Where the fast path judges, it has what
			// the configuration says, and drops the packets before the kernel sees them: all but those by which the
			// kernel asks for a neighbour, or learns that it is in use, which the program leaves to it before it filters,
			// the one in 100 ms that the kernel logs for a rule, and those of a connection that such a packet began.
			for _, hand := range []struct{ script, words string }{
				{"insert rule inet minne_policy forward accept", "rules of chain forward changed"},
				{"insert rule inet minne_policy input accept", "rules of chain input changed"},
				{"add element inet minne_policy friends_v4 { 198.51.100.9 }", "elements of set friends_v4 changed"},
			} {
				g.wantNone("before " + hand.script)
				before := g.reasons()
				g.hand(hand.script)
				g.wantRepaired(hand.words)
				n := uint64(g.denied.Swap(0) + g.heard.Swap(0) + g.met.Swap(0))
				after, left := g.reasons(), uint64(0)
				for _, reason := range []string{"refresh", "no-neighbour", "logged", "connection"} {
					left += after[reason] - before[reason]
				}
				if fastPath == "on" && n > left {
					t.Errorf("%s: %d packets passed beside the fast path, which left %d to the kernel; its reasons were %v and are %v",
						hand.script, n, left, before, after)
				}
				g.wantNone("after " + hand.script + " was undone") // their connections ended, too
				time.Sleep(2500 * time.Millisecond)
			}
			g.want(0, "nothing to change", "apply", g.file)
			s := g.status()
			if len(s.Faults) > 0 {
				t.Errorf("faults %v", s.Faults)
			}
			for _, r := range s.Repairs {
				t.Log(r.Text)
			}
		})
	}
}

// reasons is how many packets the fast path has dropped or left to the kernel, by reason.
func (g *guarded) reasons() map[string]uint64 {
	var v show.DropsView
	g.json(&v, "show", "drops", "--json")
	counts := map[string]uint64{}
	for _, d := range v.Drops {
		counts[d.Reason] += d.Count
	}
	return counts
}

// hand has nft(8) change a table of Minne's in the daemon's namespace, the rules by their owner's socket.
func (g *guarded) hand(script string) {
	g.t.Helper()
	if !strings.Contains(script, "minne_policy") {
		g.nft(script)
		return
	}
	var text strings.Builder
	for line := range strings.Lines(g.nft("list table inet minne_policy")) {
		if !strings.HasPrefix(line, "\tflags owner") {
			text.WriteString(line)
		}
	}
	err := g.self.inside(func() error {
		if element, ok := strings.CutPrefix(script, "add element inet minne_policy friends_v4 "); ok {
			a := netip.MustParseAddr(strings.Trim(element, "{ }"))
			return nft.Change("minne_policy", []nft.Elements{{Set: "friends_v4", Prefixes: []netip.Prefix{netip.PrefixFrom(a, 32)}}})
		}
		return hands.Nft(g.t.Context(), "minne_policy", text.String(), script)
	})
	if err != nil {
		g.t.Fatalf("%s: %v", script, err)
	}
}

// Somebody who empties the packet filter again and again, and a daemon that is dead.
func TestNeverOpenInAFight(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "off")
	for fought := false; !fought; {
		before := g.status().Repaired
		g.hand("delete table inet minne_policy")
		eventually(t, "it is undone, or given up", func() bool { s := g.status(); return s.Repaired > before || len(s.Faults) > 0 })
		for _, f := range g.status().Faults {
			fought = fought || strings.Contains(f.Text, "again and again")
		}
	}
	g.wantNone("a fight")
	g.wantService(true)
	eventually(t, "no fault any more", func() bool { return len(g.status().Faults) == 0 })
	g.wantNone("after a fight")
	g.end(syscall.SIGKILL)
	g.hand("delete table inet minne_policy")
	g.wantService(false)
	g.wantManaged("a dead daemon")
	g.wantNone("a dead daemon")
	g.boot()
	g.wantService(true)
	g.wantNone("a dead daemon's successor")
}

// A daemon that is dead, or stopped, and somebody who deletes all: the rules and the guard stay, and the next
// daemon has them. stop --all leaves it to whoever wants it.
func TestNeverOpenWithoutDaemon(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, "off")
	keeper := g.keepers()
	if len(keeper) != 1 {
		t.Fatalf("processes %v keep the guard's owner, want one", keeper)
	}
	attack := func(what string) {
		t.Helper()
		g.nft("flush ruleset")
		for _, table := range []string{"minne_guard", "minne_policy"} {
			if out, err := exec.Command("nsenter", "--net="+g.netns, "nft", "delete table inet "+table).CombinedOutput(); err == nil {
				t.Errorf("%s: anybody can delete %s\n%s", what, table, out)
			}
		}
		g.wantService(true)
		g.wantManaged(what)
		g.wantNone(what)
	}
	back := func(what string) {
		t.Helper()
		g.wantService(true)
		eventually(t, what+": whole again", func() bool { return g.status().Degraded == nil })
		if text := g.nft("list ruleset"); !strings.Contains(text, "table inet minne_policy") || !strings.Contains(text, "table inet minne_guard") {
			t.Errorf("%s: the packet filter is\n%s", what, text)
		}
		g.want(0, "nothing to change", "apply", g.file)
		if now := g.keepers(); len(now) != 1 || now[0] != keeper[0] {
			t.Errorf("%s: processes %v keep the guard's owner, %v did", what, now, keeper)
		}
		g.wantNone(what)
	}
	if err := g.daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	attack("a stopped daemon")
	if err := g.daemon.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	back("a daemon that goes on")
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		g.end(how)
		attack("a dead daemon: " + how.String())
		if err := os.RemoveAll(filepath.Join(g.root, "run")); err != nil { // nothing in it is needed to find the owner
			t.Fatal(err)
		}
		g.boot()
		back("its successor")
	}
	// Without the keeper, they stay, too, but have no owner.
	if err := syscall.Kill(keeper[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another keeper", func() bool { k := g.keepers(); return len(k) == 1 && k[0] != keeper[0] })
	g.end(syscall.SIGKILL)
	for _, k := range g.keepers() {
		if err := syscall.Kill(k, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "no keeper", func() bool { return len(g.keepers()) == 0 })
	g.nft("delete table inet minne_policy")
	g.wantService(false)
	g.wantNone("no daemon, no keeper")
	g.boot()
	keeper = g.keepers()
	back("the next daemon")
	g.powerOff()
	if text := g.nft("list ruleset"); text != "" || len(g.keepers()) > 0 {
		t.Errorf("after stop --all, processes %v keep an owner, and nft flush ruleset leaves\n%s", g.keepers(), text)
	}
}
