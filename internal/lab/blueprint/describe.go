// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"minne/internal/model/config"
)

// What a person is told of a network that is up.

// Describe returns one line for each node: its name, what it is, its addresses.
func (b *Blueprint) Describe() []string {
	width := len(slices.MaxFunc(b.names(), func(x, y string) int { return len(x) - len(y) }))
	var lines []string
	for _, name := range b.names() {
		n := b.Nodes[name]
		line := fmt.Sprintf("%-*s  %-6s", width, name, n.Runs)
		for _, l := range b.Links {
			for i, end := range l.Ends {
				if node, port, _ := strings.Cut(end, "."); node == name {
					line += "  " + port
					for _, a := range b.addresses(n, port) {
						line += " " + a.String()
					}
					line += " → " + l.Ends[1-i]
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// addresses returns those of a port, wherever they are written.
func (b *Blueprint) addresses(n *Node, port string) []config.Address {
	if n.parsed != nil {
		for name, iface := range n.parsed.Interfaces {
			if iface != nil && linkOf(name, n.parsed) == port {
				return iface.Addresses
			}
		}
	}
	return n.Ports[port]
}

// Hints returns what to try in the lab with "minne lab exec": a node and a command each. The last one
// sends something from one host to another.
func (b *Blueprint) Hints() []string {
	commands := map[Role]string{Minne: "minne show interfaces", BIRD: "birdc show protocols", FRR: "vtysh -c 'show ip route'", Kernel: "ip route", Bridge: "bridge link"}
	var hints []string
	for _, name := range b.names() {
		if command, ok := commands[b.Nodes[name].Runs]; ok {
			hints = append(hints, name+" "+command)
		}
	}
	var hosts []string
	for _, name := range b.names() {
		if n := b.Nodes[name]; n.Runs == Host && len(b.reached(n)) > 0 {
			hosts = append(hosts, name)
		}
	}
	if len(hosts) > 1 {
		last := b.Nodes[hosts[len(hosts)-1]]
		hints = append(hints, hosts[0]+" ping "+b.reached(last)[0].Addr().String())
	}
	return hints
}

// reached returns the addresses of a node, those of its first port first.
func (b *Blueprint) reached(n *Node) (all []config.Address) {
	for _, port := range slices.Sorted(maps.Keys(n.Ports)) {
		all = append(all, n.Ports[port]...)
	}
	return all
}
