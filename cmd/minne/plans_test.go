// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/kernel"
)

// plansConfig has two households behind one port and NAT; SPEED is that of the slow one.
const plansConfig = `version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24, "2001:db8:1::1/64"], subscribers: on}
  wan: {zone: wan, addresses: [198.51.100.1/24, "2001:db8:2::1/64"]}
plans:
  fast: {down: 400Mbit, up: 400Mbit}
  slow: {down: SPEED, up: SPEED, burst: 20ms}
subscribers:
  castle: {plan: fast, addresses: [192.0.2.10/32, "2001:db8:1::10/128"]}
  cottage: {plan: slow, addresses: [192.0.2.20/32]}
firewall:
  policies:
    - {from: lan, to: wan, default: permit}
nat: [{from: lan, to: wan, masquerade: true}]
`

// subscriber is what show subscribers says of one.
func (b *box) subscriber(name string) kernel.SubscriberState {
	b.t.Helper()
	var v show.SubscribersView
	b.json(&v, "show", "subscribers", "--json")
	for _, s := range v.Subscribers {
		if s.Name == name {
			return s
		}
	}
	b.t.Fatalf("show subscribers: no %s in %+v", name, v)
	return kernel.SubscriberState{}
}

// planned waits until the plans of both households hold.
func (b *box) planned(what string) {
	b.t.Helper()
	eventually(b.t, what, func() bool {
		for _, name := range []string{"castle", "cottage"} {
			if s := b.subscriber(name); s.Down.Problem+s.Up.Problem != "" {
				return false
			}
		}
		led := b.has("tc filter show dev lan ingress", "ifb-lan") && b.has("tc filter show dev lan parent 4d69:", "minne-plans") && b.has("tc filter show dev ifb-lan parent 4d69:", "minne-plans")
		return led && b.has("ip link show dev ifb-lan", ",UP")
	})
}

// sender sends UDP packets of 1,000 bytes from an address, with a pause after each, until it is told to stop, and says how many.
func (h *host) sender(from, to string, pause time.Duration) (stop func() int64) {
	h.t.Helper()
	var c net.Conn
	if err := h.inside(func() (err error) {
		c, err = (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}).Dial("udp", to)
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	var sent atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer c.Close()
		for packet := make([]byte, 1000); ; time.Sleep(pause) {
			select {
			case <-end:
				return
			default:
			}
			if _, err := c.Write(packet); err == nil {
				sent.Add(1)
			}
		}
	}()
	return func() int64 {
		close(end)
		<-ended
		return sent.Load()
	}
}

// TestPlans has two households with different plans behind NAT. Each has its own speed in both directions, whoever floods; a
// changed plan loses no packet, its own neither; what a hand takes away comes back; a new daemon goes on with the same
// classes; without the sections nothing is left.
func TestPlans(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1", "2001:db8:2::9/64": "2001:db8:2::1"})
	if out, err := exec.Command("nsenter", "--net="+lan.netns, "ip", "address", "add", "192.0.2.20/24", "dev", "lan-far").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	with := func(speed string) string {
		return b.file("plans.yaml", strings.ReplaceAll(plansConfig, "SPEED", speed))
	}
	b.want(0, "plans of subscribers behind lan", "apply", "--dry-run", with("2Mbit"))
	b.want(0, "applied", "apply", with("2Mbit"))
	b.planned("the plans hold")
	if said := b.want(0, "", "show", "fast-path").out; !strings.Contains(said, "shape") {
		t.Errorf("show fast-path does not say that the kernel has the port:\n%s", said)
	}

	// The slow one floods. What leaves its class is bounded by the clock, however busy the machine is.
	var heard, other atomic.Int64
	wan.count("198.51.100.9:7000", &heard)
	wan.count("198.51.100.9:7001", &other)
	before, from := b.subscriber("cottage"), time.Now()
	flood := lan.sender("192.0.2.20", "198.51.100.9:7000", 200*time.Microsecond)
	beside := lan.sender("192.0.2.10", "198.51.100.9:7001", time.Millisecond)
	eventually(t, "packets of the slow household had to wait or were lost", func() bool { return b.subscriber("cottage").Up.Dropped > 0 })
	after, took := b.subscriber("cottage"), time.Since(from)
	if sent, most := after.Up.Bytes-before.Up.Bytes, 2e6/8*(took.Seconds()+0.02)+2000; float64(sent) > most || sent == 0 {
		t.Errorf("%d bytes of the slow household passed in %v, at most %.0f expected", sent, took, most)
	}
	flood()
	if n := beside(); true {
		eventually(t, "all of the other household's packets arrive", func() bool { return other.Load() == n })
	}
	if s := b.subscriber("castle"); s.Up.Packets == 0 || s.Up.Dropped != 0 {
		t.Errorf("the other household: %+v", s.Up)
	}

	// Answers are its own, behind NAT.
	wan.echo(":7")
	lan.connect("198.51.100.9:7").wantEcho(true) // from .10
	lan.connect("[2001:db8:2::9]:7").wantEcho(true)
	if s := b.subscriber("castle"); s.Down.Packets < 4 {
		t.Errorf("answers to the household are not counted as its own: %+v", s.Down)
	}

	// Changed plans lose nothing, of others and of its own.
	eventually(t, "the flood is over", func() bool { return b.subscriber("cottage").Up.Waiting == 0 })
	heard.Store(0)
	own, others := lan.sender("192.0.2.20", "198.51.100.9:7000", 10*time.Millisecond), lan.sender("192.0.2.10", "198.51.100.9:7001", time.Millisecond)
	other.Store(0)
	for _, speed := range []string{"5Mbit", "3Mbit", "10Mbit"} {
		b.want(0, "applied", "apply", with(speed))
	}
	n, m := own(), others()
	eventually(t, "no packet is lost while a plan changes", func() bool { return heard.Load() == n && other.Load() == m })
	if s := b.subscriber("cottage"); s.Up.Rate != 10e6 || s.Up.Problem != "" || s.Up.Dropped != after.Up.Dropped && s.Up.Bytes < after.Up.Bytes {
		t.Errorf("after the change: %+v", s)
	}

	for _, hand := range []struct{ does, found string }{
		{"tc class change dev lan parent 4d69: classid 4d69:2 htb rate 1gbit", "speed of subscriber castle (down) was changed"},
		{"tc filter del dev ifb-lan parent 4d69:", "classifier of subscribers (up) of lan was changed"},
		{"tc qdisc del dev lan root", "htb of lan (down) was removed"},
		{"ip link del ifb-lan", "link ifb-lan was removed"},
		{"tc qdisc del dev lan ingress", "leads what lan receives to the plans was removed"},
		{"tc class add dev lan parent 4d69: classid 4d69:99 htb rate 1mbit", "nobody's"},
	} {
		b.inside(hand.does)
		b.wantRepaired(hand.found)
		b.planned("after " + hand.does)
	}

	// A new daemon knows whose class is which: nobody's counters begin again.
	eventually(t, "calm", func() bool { return b.status().Degraded == nil })
	lan.connect("198.51.100.9:7").wantEcho(true)
	classes := func() string { return b.inside("tc class show dev lan; tc class show dev ifb-lan") }
	had, castle := classes(), b.subscriber("castle")
	b.end(syscall.SIGKILL)
	b.start()
	b.planned("with a new daemon")
	if now := classes(); now != had {
		t.Errorf("with a new daemon the classes are\n%s\nbefore\n%s", now, had)
	}
	if s := b.subscriber("castle"); s.Down.Packets < castle.Down.Packets || castle.Down.Packets == 0 {
		t.Errorf("with a new daemon %+v, before %+v", s.Down, castle.Down)
	}
	t.Log("\n" + b.want(0, "", "show", "shape").out + "\n" + b.want(0, "", "show", "subscribers").out)

	b.want(0, "applied", "apply", b.file("none.yaml", "version: 1\ninterfaces:\n  lan: {addresses: [192.0.2.1/24]}\n  wan: {addresses: [198.51.100.1/24]}\n"))
	if left := b.inside("tc qdisc show; ip link show; tc filter show dev lan ingress"); strings.Contains(left, "htb") || strings.Contains(left, "ifb-lan") || strings.Contains(left, "mirred") {
		t.Errorf("left behind:\n%s", left)
	}
}
