// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"minne/internal/lab"
	"minne/internal/testing/testbuild"
)

// A neighbour of the router: a cable, an address on it, and FRR with BGP and OSPF.
type neighbour struct {
	name, port string // node, and the router's port
	router     netip.Addr
	address    netip.Addr
	asn        int
}

var neighbours = []neighbour{
	{"left", "lan", netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), 64501},
	{"right", "wan", netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2"), 64502},
}

// far is the neighbour's own port.
const far = "far"

// routerConfig has sessions that end when nothing is heard for three and four seconds, and a route for the
// answers to forged sources, so that the kernel does all the work that a flood can make it do.
const routerConfig = `version: 1
system: {hostname: router, router-id: 192.0.2.1}
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  wan: {addresses: [198.51.100.1/24]}
routing:
  static:
    - {prefix: 0.0.0.0/0, via: [192.0.2.2]}
  bgp:
    asn: 64500
    bogons: accept
    peers:
      left: {address: 192.0.2.2, asn: 64501, hold-time: 3s}
      right: {address: 198.51.100.2, asn: 64502, hold-time: 3s}
  ospf:
    areas:
      0:
        interfaces:
          lan: {hello: 1s, dead: 4s}
          wan: {hello: 1s, dead: 4s}
fast-path: {guard: {mode: %s}}
`

func (n neighbour) frr() string {
	return fmt.Sprintf(`router bgp %d
 bgp router-id %v
 no bgp ebgp-requires-policy
 neighbor %[3]v remote-as 64500
 neighbor %[3]v timers 1 3
 neighbor %[3]v timers connect 1
exit
interface %s
 ip ospf area 0
 ip ospf hello-interval 1
 ip ospf dead-interval 4
exit
router ospf
 ospf router-id %[2]v
exit
`, n.asn, n.address, n.router, far)
}

// network is the router between its two neighbours.
type network struct {
	*testing.T
	lab    *lab.Lab
	router *lab.Minne
}

// build makes the network and waits until the sessions are up.
func build(t *testing.T, guard string) *network {
	t.Helper()
	topology := lab.Topology{Nodes: []lab.Node{{Name: "router"}}}
	for _, n := range neighbours {
		topology.Nodes = append(topology.Nodes, lab.Node{Name: n.name})
		topology.Links = append(topology.Links, lab.Link{
			A: lab.Port{Node: n.name, Name: far, Addresses: []netip.Prefix{netip.PrefixFrom(n.address, 24)}},
			B: lab.Port{Node: "router", Name: n.port},
		})
	}
	l, err := lab.Start(t.Context(), topology)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &network{T: t, lab: l}
	for _, n := range neighbours { // so that the router's fast path may send there
		w.must(l.Node(n.name).AcceptRedirects(far))
	}
	w.router, err = l.Node("router").Minne(testbuild.Minne(t, t.TempDir()), fmt.Sprintf(routerConfig, guard), "")
	w.must(err, w.router.StartDaemon(t.Context()))
	_, err = w.router.Command(t.Context(), "apply", w.router.Config)
	w.must(err)
	for _, n := range neighbours {
		w.must(l.Node(n.name).RunFRR(t.Context(), []byte(n.frr())))
	}
	w.must(lab.Until(t.Context(), 90*time.Second, "BGP and OSPF to be up", func() error {
		for _, n := range neighbours {
			if s, err := w.sessions(t.Context(), n); err != nil || !s.up() {
				return fmt.Errorf("%s: %+v, %v", n.name, s, err)
			}
		}
		return nil
	}))
	return w
}

func (w *network) must(errs ...error) {
	w.Helper()
	for _, err := range errs {
		if err != nil {
			w.Fatal(err)
		}
	}
}

// sessions is what a neighbour's FRR says of its sessions with the router.
type sessions struct {
	BGP         string // state
	Established int    // how often the session came up
	Dropped     int    // how often it broke
	OSPF        string // state
	Changes     int    // of the state, since the neighbour was first seen
}

func (s sessions) up() bool {
	return s.BGP == "Established" && len(s.OSPF) > 4 && s.OSPF[:4] == "Full"
}

func (w *network) sessions(ctx context.Context, n neighbour) (s sessions, err error) {
	var bgp map[string]struct {
		State       string `json:"bgpState"`
		Established int    `json:"connectionsEstablished"`
		Dropped     int    `json:"connectionsDropped"`
	}
	if err := w.ask(ctx, n, &bgp, "show bgp neighbors "+n.router.String()+" json"); err != nil {
		return s, err
	}
	b := bgp[n.router.String()]
	s.BGP, s.Established, s.Dropped = b.State, b.Established, b.Dropped
	var ospf map[string]json.RawMessage
	if err := w.ask(ctx, n, &ospf, "show ip ospf neighbor detail json"); err != nil {
		return s, err
	}
	return s, s.readOSPF(ospf)
}

func (w *network) ask(ctx context.Context, n neighbour, into any, question string) error {
	node := w.lab.Node(n.name)
	dir := node.Dir + "/frr"
	out, err := node.Run(ctx, "vtysh", "--vty_socket", dir, "--config_dir", dir, "-c", question)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("%s of %s: %w: %.300s", question, n.name, err, out)
	}
	return nil
}
