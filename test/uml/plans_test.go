// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"fmt"
	"strings"
	"testing"

	"minne/internal/daemon/show"
	subsystem "minne/internal/subsystem/kernel"
)

// TestPlans has subscribers behind a bridge, by address and by MAC address, and one that has a VLAN alone, with cake and with
// fq_codel at their classes. What they send and receive passes their own queues, a queue that somebody replaces comes back,
// and without the sections nothing is left.
func TestPlans(t *testing.T) {
	const plans = `
      plans:
        house: {down: 8Mbit, up: 4Mbit, queue: cake}
        farm: {down: 4Mbit, up: 3Mbit}
      subscribers:
        one: {plan: house, addresses: [10.1.0.2/32]}
        two: {plan: farm, mac: ["02:00:00:00:00:22"]}
        three: {plan: farm, interface: v7}
`
	config := func(sorts, sections string) string {
		return `
      version: 1
      interfaces:
        p1: {}
        p2: {}
        br: {bridge: {ports: [p1, p2]}, addresses: [10.1.0.1/24]` + sorts + `}
        v0: {}
        v7: {vlan: {parent: v0, id: 7}, addresses: [10.7.0.1/24]}
        wan: {addresses: [192.0.2.2/24]}
      fast-path: {mode: generic}` + sections
	}
	b := build(t, `
version: 1
nodes:
  one: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  two: {runs: host, ports: {eth0: [10.1.0.3/24]}, gateway: [10.1.0.1]}
  isp: {runs: host, ports: {eth0: [192.0.2.1/24]}, gateway: [192.0.2.2]}
  router:
    runs: minne
    machine: uml
    prepare: ip link add v0 type veth peer name v1
    config: |`+config(", subscribers: on", plans)+`
links:
  - {ends: [one.eth0, router.p1]}
  - {ends: [two.eth0, router.p2]}
  - {ends: [isp.eth0, router.wan]}
`)
	b.run(t, "two", "ip", "link", "set", "eth0", "address", "02:00:00:00:00:22")
	b.run(t, "router", "sh", "-c", "unshare -n sleep 600 </dev/null >/dev/null 2>&1 & for try in 1 2 3 4 5; do sleep 0.2; ip link set v1 netns $! 2>/dev/null && break; done; echo $! >/run/far")
	far := func(line string) string {
		return b.run(t, "router", "sh", "-c", "nsenter --net=/proc/$(cat /run/far)/ns/net sh -c '"+line+"'")
	}
	far("ethtool -K v1 txvlan off; ip link set v1 up; ip link add link v1 name v1.7 type vlan id 7; ip link set v1.7 up; ip address add 10.7.0.2/24 dev v1.7; ip route add default via 10.7.0.1")
	b.until(t, "the plans hold", func() error { return b.plansHold(t) })

	b.talk(t, "one", "isp", "192.0.2.1", kernel)
	b.talk(t, "two", "isp", "192.0.2.1", kernel)
	b.until(t, "the VLAN reaches the Internet", func() error {
		if out := far("ping -q -c 20 -i 0.05 -s 1000 -W 5 192.0.2.1 || true"); !strings.Contains(out, "20 received") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	t.Log("\n" + b.command(t, "show", "shape"))
	for name, want := range map[string]struct {
		queue    string
		down, up uint64
	}{"one": {"cake", 8e6, 4e6}, "two": {"fq-codel", 4e6, 3e6}, "three": {"fq-codel", 4e6, 3e6}} {
		const least = 20_000
		s := b.plan(t, name)
		if s.Down.Queue != want.queue || s.Up.Queue != want.queue || s.Down.Rate != want.down || s.Up.Rate != want.up || s.Down.Bytes < least || s.Up.Bytes < least {
			t.Errorf("%s: %+v", name, s)
		}
	}

	for _, hand := range []string{"tc qdisc replace dev br parent 4d69:2 handle 9002: pfifo_fast; tc qdisc del dev v7 root"} {
		b.run(t, "router", "sh", "-c", hand)
		b.until(t, "after "+hand+" the plans hold again", func() error { return b.plansHold(t) })
	}
	if log := b.router.Log(200); !strings.Contains(log, "the queue of subscriber one (down) was changed") {
		t.Errorf("the log does not say what was restored:\n%s", log)
	}
	b.apply(t, config("", ""))
	if left := b.run(t, "router", "sh", "-c", "tc qdisc show; ip link show"); strings.Contains(left, "htb") || strings.Contains(left, "cake") || strings.Contains(left, "ifb-") {
		t.Errorf("left behind:\n%s", left)
	}
	b.talk(t, "one", "isp", "192.0.2.1", fast)
}

func (b bed) plan(t *testing.T, name string) (found subsystem.SubscriberState) {
	t.Helper()
	var v show.SubscribersView
	if err := b.router.JSON(t.Context(), &v, "show", "subscribers"); err != nil {
		t.Fatal(err)
	}
	for _, s := range v.Subscribers {
		if s.Name == name {
			found = s
		}
	}
	return found
}

// plansHold is what show subscribers says against the plans of all three, which have a queue in either direction.
func (b bed) plansHold(t *testing.T) error {
	for name, queue := range map[string]string{"one": "cake", "two": "fq-codel", "three": "fq-codel"} {
		if s := b.plan(t, name); s.Name == "" || s.Down.Problem+s.Up.Problem != "" || s.Down.Queue != queue || s.Up.Queue != queue {
			return fmt.Errorf("%s: %+v", name, s)
		}
	}
	return nil
}
