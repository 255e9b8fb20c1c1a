// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/fastpath/classify/rulegen"
	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/result"
	"minne/internal/lab/ruleset"
	"minne/internal/lab/traffic"
)

// Policies is a rig of Minne routers whose firewalls differ in the number of rules
// between the entry and the way out, and of a kernel with the rules of one of them.
//
// The firewalls keep no state and permit by default, and all rules permit, each with a
// counter of its own: so every packet arrives, and one that meets no rule has been
// compared with all of them. The kernel has the very chain that Minne loads into
// its own kernel, and nothing else: no connection tracking, no zones.
type Policies struct {
	*Rig
	Open    *Path // a router without zones
	Few     *Path // FewRules
	Many    *Path // ManyRules
	Blocked *Path // a set of Blocklisted addresses, none of which sends
	Linear  *Path // the kernel with FewRules in nftables
	Random  *Load // IPv4 5-tuples, random all of them: between the hosts on both sides, half TCP (SYN), half UDP
}

// The sizes of the firewalls.
const (
	FewRules    = 600
	ManyRules   = 10_000
	Blocklisted = 120_000
)

// The places of the routers, and their zones.
const (
	openPlace, fewPlace, manyPlace, blockedPlace, linearPlace = "open", "few", "many", "blocked", "linear"

	insideZone, outsideZone = "inside", "outside"
)

// policySeed makes rules, lists and packets the same in every run.
const policySeed = 4

// NewPolicies builds the routers. The caller closes the rig. That the fast paths judge by themselves
// is what AwaitFast is for.
func NewPolicies(ctx context.Context, means device.Means) (*Policies, error) {
	dir, err := os.MkdirTemp("", "minne-policies-") // read once, when the routers begin
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	places := []Place{{Name: linearPlace, Device: device.Spec{Kind: device.Kernel}, Routes: oneRoute[:1]}}
	for _, name := range []string{openPlace, fewPlace, manyPlace, blockedPlace} {
		spec, err := firewalled(dir, name)
		if err != nil {
			return nil, err
		}
		places = append(places, Place{Name: name, Device: spec, Routes: oneRoute[:1]})
	}
	r, err := NewRig(ctx, means, places...)
	if err != nil {
		return nil, err
	}
	p := &Policies{Rig: r, Open: r.Path(openPlace), Few: r.Path(fewPlace), Many: r.Path(manyPlace), Blocked: r.Path(blockedPlace), Linear: r.Path(linearPlace)}
	for _, path := range p.fast() {
		path.forwarder = device.ByFastPath
		path.Name = "the fast path of router " + path.device.Node().Name
	}
	if err := p.copyRules(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if p.Random, err = r.randomLoad(traffic.MaxDestinations); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return p, nil
}

// fast are the ways through fast paths.
func (p *Policies) fast() []*Path { return []*Path{p.Open, p.Few, p.Many, p.Blocked} }

// firewalled writes a router's files and returns the device.
func firewalled(dir, place string) (device.Spec, error) {
	zones, firewall := false, ""
	var err error
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	policy := func(rules string) string {
		return fmt.Sprintf("    - {from: %s, to: %s, stateless: true, %sdefault: permit}\n", insideZone, outsideZone, rules)
	}
	fromFile := func(n int) string {
		file := write(place+".csv", ruleset.CSV(ruleset.Rules(n, device.InHosts[0], device.OutHosts[0], policySeed)))
		return fmt.Sprintf("rules-file: %s, expect-rows: %d, ", file, n)
	}
	switch place {
	case fewPlace:
		zones, firewall = true, "firewall:\n  policies:\n"+policy(fromFile(FewRules))
	case manyPlace:
		zones, firewall = true, "firewall:\n  policies:\n"+policy(fromFile(ManyRules))
	case blockedPlace:
		file := write("blocklist.txt", ruleset.Blocklist(Blocklisted, device.InHosts[0], policySeed))
		zones, firewall = true, fmt.Sprintf("firewall:\n  sets:\n    blocked: {file: %s}\n  policies:\n%s", file, policy("rules: [deny any @blocked], "))
	}
	file := write(place+".yaml", "version: 1\nsystem: {hostname: device}\n"+zonedPorts(zones)+firewall)
	return device.Spec{Kind: device.Minne, Config: file}, err
}

// zonedPorts is the section of the interfaces, with zones or without.
func zonedPorts(zones bool) string {
	var b strings.Builder
	b.WriteString("interfaces:\n")
	for _, p := range []struct {
		name, zone string
		addresses  []netip.Prefix
	}{{device.In, insideZone, device.InAddresses}, {device.Out, outsideZone, device.OutAddresses}} {
		zone := ""
		if zones {
			zone = "zone: " + p.zone + ", "
		}
		fmt.Fprintf(&b, "  %s: {%saddresses: [%q, %q]}\n", p.name, zone, p.addresses[0], p.addresses[1])
	}
	return b.String()
}

// rulesChain is the chain of nftables in which Minne has the rules.
const rulesChain = insideZone + "_to_" + outsideZone

// copyRules gives the kernel the chain of the router with few rules.
func (p *Policies) copyRules(ctx context.Context) error {
	chain, err := p.Device(fewPlace).Node().Run(ctx, "nft", "-s", "list", "chain", "inet", "minne_policy", rulesChain)
	if err != nil {
		return err
	}
	node := p.Device(linearPlace).Node()
	file := filepath.Join(node.Dir, "rules.nft")
	text := fmt.Sprintf(`table inet minne_policy {
	chain default_deny_log {
		drop
	}
}
%stable inet minne_policy {
	chain forward {
		type filter hook forward priority filter; policy accept;
		iifname %q oifname %q goto %s
	}
}
`, chain, device.In, device.Out, rulesChain)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	_, err = node.Run(ctx, "nft", "-f", file)
	return err
}

// Streams of random packets. They are no other load's, so that they can be sent beside one.
const (
	streamUDP = 4
	streamTCP = 5
)

// randomLoad prepares packets between random hosts and ports.
func (r *Rig) randomLoad(n int) (*Load, error) {
	random := rand.New(rand.NewPCG(policySeed, 2))
	lap := make([]traffic.Packet, n)
	for i := range lap {
		p := &lap[i]
		*p = traffic.Packet{
			Source: rulegen.Inside(device.InHosts[0], random), Destination: rulegen.Inside(device.OutHosts[0], random),
			SourcePort: uint16(random.Uint32()), DestinationPort: uint16(random.Uint32()),
			Protocol: unix.IPPROTO_UDP, FrameBytes: traffic.MinFrame4, Stream: streamUDP,
		}
		if i%2 == 1 {
			p.Protocol, p.FrameBytes, p.Stream = unix.IPPROTO_TCP, traffic.MinFrame4TCP, streamTCP
		}
	}
	size := float64(traffic.MinFrame4+traffic.MinFrame4TCP)/2 + 4
	subject := result.Subject{Traffic: fmt.Sprintf("%d random 5-tuples", n), MeanSize: size}
	return r.newLoad(subject, traffic.Lap{Packets: n, Packet: func(i int) traffic.Packet { return lap[i] }},
		map[uint8]int{streamUDP: traffic.MinFrame4, streamTCP: traffic.MinFrame4TCP})
}

// AwaitFast waits until the fast paths of all these routers forward every packet of the load; the error of one that
// can't says why.
func (p *Policies) AwaitFast(ctx context.Context) error {
	for _, path := range p.fast() {
		if err := path.capable(ctx); err != nil {
			return err
		}
		if err := path.AwaitFast(ctx, p.Random); err != nil {
			return err
		}
	}
	return nil
}

// capable waits until the fast path is on the ports of the path's router, and tells why it is not.
func (p *Path) capable(ctx context.Context) error {
	return lab.Until(ctx, 10*time.Second, "the fast path on the ports", func() error {
		var fast struct {
			Problem string `json:"problem"`
			Ports   []struct {
				Name string `json:"name"`
				Mode string `json:"mode"`
				Why  string `json:"why"`
			} `json:"ports"`
		}
		if err := p.device.Router().JSON(ctx, &fast, "show", "fast-path"); err != nil {
			return err
		}
		if fast.Problem != "" {
			return errors.New(fast.Problem)
		}
		for _, have := range fast.Ports {
			if have.Mode == "off" && (have.Name == device.In || have.Name == device.Out) {
				return fmt.Errorf("port %s of router %s does not have it: %s", have.Name, p.device.Node().Name, have.Why)
			}
		}
		return nil
	})
}

// Met returns the share of the packets since the rules were loaded that met one of the rules in a router
// with rules, in its kernel and its fast path together.
func (p *Policies) Met(ctx context.Context, path *Path) (float64, error) {
	var all struct {
		Rules []struct {
			Text    string `json:"text"`
			Packets uint64 `json:"packets"`
		} `json:"rules"`
	}
	if err := path.device.Router().JSON(ctx, &all, "show", "firewall"); err != nil {
		return 0, err
	}
	met, sum := uint64(0), uint64(0)
	for _, r := range all.Rules {
		sum += r.Packets
		if r.Text != "default permit" {
			met += r.Packets
		}
	}
	if sum == 0 {
		return 0, fmt.Errorf("no rule of router %s has counted a packet", path.device.Node().Name)
	}
	return float64(met) / float64(sum), nil
}
