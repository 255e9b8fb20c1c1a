// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"minne/internal/lab"
	"minne/internal/subsystem/fastpath"
	"minne/internal/testing/testbuild"
)

// cardsConfig is a router between two hosts; behind its right port there are also a VLAN and a VLAN in a service VLAN.
const cardsConfig = `version: 1
system: {hostname: edge}
interfaces:
  left: {addresses: [192.0.2.1/25, "2001:db8:1::1/64"]}
  right: {addresses: [192.0.2.129/25, "2001:db8:2::1/64"]}
  servers: {vlan: {parent: right, id: 100}, addresses: [198.51.100.1/24]}
  access: {vlan: {parent: right, id: 200, protocol: 802.1ad}}
  line: {vlan: {parent: access, id: 7}, addresses: [203.0.113.1/24]}
`

// TestCards has the image forward through each model of network card that QEMU and the image both know: in which mode
// the fast path attaches, and that it carries what it says it can, untagged and tagged.
func TestCards(t *testing.T) {
	tree, err := lab.UMLTree()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "../../scripts/fetch-uml.sh", tree).CombinedOutput(); err != nil {
		t.Fatalf("fetch User-Mode Linux from Debian's packages: %v\n%s", err, out)
	}
	binary := testbuild.Minne(t, t.TempDir())
	for _, c := range []struct {
		card, mode string
	}{
		{"virtio-net-pci", "native"},
		{"vmxnet3", "native"},
		{"e1000e", "generic"},
		{"e1000", "generic"},
		{"igb", "native"}, // in QEMU from version 8.1 on
	} {
		t.Run(c.card, func(t *testing.T) {
			config := ""
			if c.mode == "generic" {
				config = "fast-path: {mode: generic}\n" // unasked, a card without native XDP is left to the kernel
			}
			if c.card == "igb" && !lab.HasCard("igb") {
				t.Log("this QEMU has no igb, so nothing is known of it")
				return
			}
			b := cardsBed(t, c.card, binary, cardsConfig+config)
			modes := b.modes(t)
			t.Logf("%s", b.run(t, "router", "sh", "-c", "minne show fast-path | head -n 9; ethtool -i left | head -n 1; ethtool -l left | tail -n 5"))
			for _, port := range []string{"left", "right"} {
				if !strings.HasPrefix(modes[port], c.mode) {
					t.Errorf("%s: mode %s, expected %s", port, modes[port], c.mode)
				}
			}
			for _, to := range []string{"192.0.2.130", "2001:db8:2::2", "198.51.100.2"} {
				b.carries(t, to)
			}
			if c.card == "vmxnet3" {
				// QEMU's model drops 802.1ad tags too that the driver has not put into its filter, and the driver puts 802.1Q ones there only.
				b.run(t, "router", "ip", "link", "set", "right", "promisc", "on")
			}
			b.carries(t, "203.0.113.2")
		})
	}
}

// bed is the router with its hosts.
type bed struct {
	*lab.Lab
	router *lab.Minne
}

// cardsBed boots the router between two hosts. The right one is a User-Mode Linux: it has VLANs, which this host may lack.
func cardsBed(t *testing.T, card, binary, config string) bed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	left, right := prefixes("192.0.2.2/25", "2001:db8:1::2/64"), prefixes("192.0.2.130/25", "2001:db8:2::2/64")
	l, err := lab.Start(ctx, lab.Topology{
		Binary: binary,
		Nodes: []lab.Node{
			{Name: "router", Machine: lab.QEMU, Image: imageFile(t), Card: card},
			{Name: "left", Routes: routes("192.0.2.1", "2001:db8:1::1")},
			{Name: "right", Machine: lab.UML, Routes: routes("192.0.2.129", "2001:db8:2::1")},
		},
		Links: []lab.Link{
			{A: lab.Port{Node: "router", Name: "left"}, B: lab.Port{Node: "left", Name: "eth0", Addresses: left}},
			{A: lab.Port{Node: "router", Name: "right"}, B: lab.Port{Node: "right", Name: "eth0", Addresses: right}},
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
	b := bed{Lab: l}
	b.run(t, "right", "sh", "-ec", `ip link add link eth0 name eth0.100 type vlan id 100
		ip address add 198.51.100.2/24 dev eth0.100; ip link set eth0.100 up
		ip link add link eth0 name eth0.200 type vlan id 200 protocol 802.1ad; ip link set eth0.200 up
		ip link add link eth0.200 name line type vlan id 7; ip address add 203.0.113.2/24 dev line; ip link set line up`)
	if b.router, err = l.Node("router").Minne("", config, ""); err != nil {
		t.Fatal(err)
	}
	if err := b.router.StartDaemon(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.router.Command(ctx, "apply", b.router.Config); err != nil {
		t.Fatalf("%v\n%s", err, b.router.Log(20))
	}
	return b
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func routes(v4, v6 string) []lab.Route {
	return []lab.Route{{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(v4)}, {To: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr(v6)}}
}

func (b bed) run(t *testing.T, node string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := b.Node(node).Run(ctx, argv...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

func (b bed) observe(ctx context.Context) (o fastpath.Observed, err error) {
	err = b.router.JSON(ctx, &o, "show", "fast-path")
	return o, err
}

// modes waits until the fast path is ready and returns each port's mode, with why when that says more.
func (b bed) modes(t *testing.T) map[string]string {
	t.Helper()
	modes := map[string]string{}
	err := lab.Until(t.Context(), 3*time.Minute, "the fast path", func() error {
		o, err := b.observe(t.Context())
		for _, p := range o.Ports {
			modes[p.Name] = strings.TrimSpace(p.Mode + " " + p.Why)
		}
		if err == nil && (!o.Ready || len(modes) == 0) {
			err = errors.New("it is not ready")
		}
		return err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, b.router.Log(20))
	}
	return modes
}

// carries pings from the left host and wants that the fast path forwarded nearly all of it, both ways.
func (b bed) carries(t *testing.T, to string) {
	t.Helper()
	const pings = 20
	err := lab.Until(t.Context(), 3*time.Minute, "the fast path to carry what goes to "+to, func() error {
		before, err := b.observe(t.Context())
		if err != nil {
			return err
		}
		if _, err := b.Node("left").Run(t.Context(), "ping", "-q", "-c", fmt.Sprint(pings), "-i", "0.05", "-W", "20", to); err != nil {
			return err
		}
		after, err := b.observe(t.Context())
		if err != nil {
			return err
		}
		if grown := sent(after) - sent(before); grown < 2*pings*8/10 {
			return fmt.Errorf("of %d packets there and back it sent %d", 2*pings, grown)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v\n%s", err, b.run(t, "router", "sh", "-c", "minne show fast-path; minne show drops"))
	}
}

// sent is how many packets the fast path has forwarded.
func sent(o fastpath.Observed) (packets uint64) {
	for _, traffic := range o.Traffic {
		packets += traffic.TxPackets
	}
	return packets
}
