// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net/netip"
)

// Topology is a network to build: nodes and the cables between them.
type Topology struct {
	Name  string // under which Exec finds it; "" is a lab that is only known by its run
	Nodes []Node
	Links []Link
	// Binary is the path of the minne command, which a node in a machine of its own runs as its first process.
	Binary string
}

// Node is one machine of the network.
type Node struct {
	Name string
	// Machine is what the node stands in.
	Machine MachineKind
	// Image is the file of the router's disk image, which a node in QEMU boots.
	Image string
	// Card is the model of the network cards of a node in QEMU, by QEMU's name; "" is DefaultCard.
	Card string
	// Boot, when not nil, starts a machine of another kind for the node.
	Boot Boot `json:"-"`
	// Forwards makes the node a plain kernel router. A node that runs Minne
	// leaves it off: forwarding is the router's own business.
	Forwards bool
	// EverywhereBut, when not empty, makes the node answer to every address but
	// these, as a stand-in for the rest of the Internet. Networks that it is
	// connected to or has routes to must be among them.
	EverywhereBut []netip.Prefix
	Routes        []Route
	// Loopback addresses are the node's own, whatever its ports do.
	Loopback []netip.Prefix
	// Bridge makes the node a switch: all its ports are those of one Linux bridge, br0.
	Bridge bool
}

// foreign is the kind of a machine that somebody else boots.
const foreign MachineKind = "foreign"

func (n Node) kind() MachineKind {
	if n.Boot != nil {
		return foreign
	}
	return n.Machine
}

// Link is a cable between two ports.
type Link struct {
	A, B Port
	MTU  int // bytes; 0 is 1500
	// Queues is how many each end has in each direction; 0 is 1, with which nothing can
	// be out of order. A redirected frame takes the queue of the sending CPU's number modulo Queues.
	Queues int
}

// Port is one end of a cable.
type Port struct {
	Node      string
	Name      string // the interface's name in the node, at most 15 bytes
	Addresses []netip.Prefix
	// Silent keeps the port without an IPv6 link-local address and without any
	// neighbour discovery: for ports that only a generator or sink uses.
	Silent bool
}

// Route is a static route of a node's kernel.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// check finds what would fail halfway through building.
func (t Topology) check() error {
	var errs []error
	nodes := map[string]bool{}
	for _, n := range t.Nodes {
		if nodes[n.Name] {
			errs = append(errs, fmt.Errorf("two nodes have the name %s", n.Name))
		}
		nodes[n.Name] = true
		if n.Machine != Namespace && boot[n.Machine] == nil {
			errs = append(errs, fmt.Errorf("node %s: there is no kind of machine %q", n.Name, n.Machine))
		}
	}
	ports := map[string]bool{}
	for _, l := range t.Links {
		for _, p := range []Port{l.A, l.B} {
			at := p.Node + "." + p.Name
			switch {
			case !nodes[p.Node]:
				errs = append(errs, fmt.Errorf("port %s: there is no node %s", at, p.Node))
			case p.Name == "" || len(p.Name) > 15:
				errs = append(errs, fmt.Errorf("port %s: expected a name of 1 to 15 bytes", at))
			case ports[at]:
				errs = append(errs, fmt.Errorf("port %s has two cables", at))
			}
			ports[at] = true
		}
	}
	return errors.Join(errs...)
}
