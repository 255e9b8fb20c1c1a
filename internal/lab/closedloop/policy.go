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

	"minne/internal/base/ipnet"
	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/result"
	"minne/internal/lab/rulegen"
	"minne/internal/lab/ruleset"
	"minne/internal/lab/traffic"
	"minne/internal/subsystem/fastpath"
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
	Few     *Path
	Many    *Path
	Blocked *Path // a set of addresses, none of which sends
	Linear  *Path // the kernel with the rules of Few in nftables
	// 5-tuples of IPv4, half TCP (SYN), half UDP. Random: addresses and ports random over all that there are.
	// FewNear, ManyNear: addresses random in the networks that the rules of Few or Many are about.
	Random, FewNear, ManyNear *Load
}

// PolicySizes say how large the firewalls are.
type PolicySizes struct {
	Few, Many int // rules
	Blocked   int // addresses
	Packets   int // different ones
}

// FullSizes are those of which figures are told.
var FullSizes = PolicySizes{Few: 600, Many: 10_000, Blocked: 120_000, Packets: traffic.MaxDestinations}

// The places of the routers, and their zones.
const (
	openPlace, fewPlace, manyPlace, blockedPlace, linearPlace = "open", "few", "many", "blocked", "linear"

	insideZone, outsideZone = "inside", "outside"
)

// PolicySeed makes rules, lists and packets the same in every run.
const PolicySeed = 4

// NewPolicies builds the routers. The caller closes the rig. That the fast paths judge by themselves
// is what AwaitFast is for.
func NewPolicies(ctx context.Context, means device.Means, sizes PolicySizes) (*Policies, error) {
	dir, err := os.MkdirTemp("", "minne-policies-") // read once, when the routers begin
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	packets := randomPackets(world, sizes.Packets)
	files := firewallFiles{PolicySizes: sizes, dir: dir, senders: senders(packets)}
	places := []Place{{Name: linearPlace, Device: device.Spec{Kind: device.Kernel}, Routes: oneRoute[:1]}}
	for _, name := range []string{openPlace, fewPlace, manyPlace, blockedPlace} {
		spec, err := files.device(name)
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
	if err := p.loads(packets, sizes); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return p, nil
}

func (p *Policies) loads(random []traffic.Packet, sizes PolicySizes) (err error) {
	for _, l := range []struct {
		into    **Load
		packets []traffic.Packet
	}{
		{&p.Random, random},
		{&p.FewNear, randomPackets(ruleset.Sites(sizes.Few, PolicySeed), sizes.Packets)},
		{&p.ManyNear, randomPackets(ruleset.Sites(sizes.Many, PolicySeed), sizes.Packets)},
	} {
		if *l.into, err = p.randomLoad(l.packets); err != nil {
			return err
		}
	}
	return nil
}

// fast are the ways through fast paths.
func (p *Policies) fast() []*Path { return []*Path{p.Open, p.Few, p.Many, p.Blocked} }

// firewallFiles writes what the routers are configured with.
type firewallFiles struct {
	PolicySizes
	dir     string
	senders map[netip.Addr]bool // who is not to be blocked
	err     error
}

// device writes a router's files and returns the device.
func (f *firewallFiles) device(place string) (device.Spec, error) {
	firewall := ""
	switch place {
	case fewPlace:
		firewall = "firewall:\n  policies:\n" + f.rules(place, f.Few)
	case manyPlace:
		firewall = "firewall:\n  policies:\n" + f.rules(place, f.Many)
	case blockedPlace:
		list := f.write("blocklist.txt", ruleset.Blocklist(f.Blocked, f.senders, PolicySeed))
		firewall = fmt.Sprintf("firewall:\n  sets:\n    blocked: {file: %s}\n  policies:\n%s", list, stateless("rules: [deny any @blocked], "))
	}
	file := f.write(place+".yaml", "version: 1\nsystem: {hostname: device}\n"+zonedPorts(firewall != "")+firewall)
	return device.Spec{Kind: device.Minne, Config: file}, f.err
}

// rules writes n rules and returns the policy that has them.
func (f *firewallFiles) rules(place string, n int) string {
	file := f.write(place+".csv", ruleset.CSV(ruleset.Rules(n, PolicySeed)))
	return stateless(fmt.Sprintf("rules-file: %s, expect-rows: %d, ", file, n))
}

func stateless(rules string) string {
	return fmt.Sprintf("    - {from: %s, to: %s, stateless: true, %sdefault: permit}\n", insideZone, outsideZone, rules)
}

func (f *firewallFiles) write(name, text string) (path string) {
	path = filepath.Join(f.dir, name)
	f.err = errors.Join(f.err, os.WriteFile(path, []byte(text), 0o644))
	return path
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

// world is all addresses of IPv4.
var world = ipnet.Must("0.0.0.0/0")

// randomPackets are packets between random addresses of networks, with random ports.
func randomPackets(networks []netip.Prefix, n int) []traffic.Packet {
	random := rand.New(rand.NewPCG(PolicySeed, 2))
	address := func() netip.Addr {
		for {
			if a := rulegen.Inside(networks[random.IntN(len(networks))], random); forwardable(a) {
				return a
			}
		}
	}
	packets := make([]traffic.Packet, n)
	for i := range packets {
		p := &packets[i]
		*p = traffic.Packet{
			Source: address(), Destination: address(), SourcePort: uint16(random.Uint32()), DestinationPort: uint16(random.Uint32()),
			Protocol: unix.IPPROTO_UDP, FrameBytes: traffic.MinFrame4, Stream: streamUDP,
		}
		if i%2 == 1 {
			p.Protocol, p.FrameBytes, p.Stream = unix.IPPROTO_TCP, traffic.MinFrame4TCP, streamTCP
		}
	}
	return packets
}

// forwardable tells whether a router forwards from and to an address: it is of one host, and not in the rig's own networks.
func forwardable(a netip.Addr) bool {
	first := a.As4()[0]
	return a.IsGlobalUnicast() && first != 0 && first < 224 && !benchmarking[0].Contains(a)
}

func senders(packets []traffic.Packet) map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(packets))
	for i := range packets {
		all[packets[i].Source] = true
	}
	return all
}

// randomLoad prepares random packets.
func (r *Rig) randomLoad(packets []traffic.Packet) (*Load, error) {
	size := float64(traffic.MinFrame4+traffic.MinFrame4TCP)/2 + 4
	subject := result.Subject{Traffic: fmt.Sprintf("%d random 5-tuples", len(packets)), MeanSize: size}
	return r.newLoad(subject, traffic.Lap{Packets: len(packets), Packet: func(i int) traffic.Packet { return packets[i] }},
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
		var fast fastpath.Observed
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
