// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"minne/internal/lab"
	"minne/internal/model/config"
)

// loopback is the port that every machine has without a cable.
const loopback = "lo"

// Topology returns the network for package lab, without what runs on it.
func (b *Blueprint) Topology() lab.Topology {
	t := lab.Topology{Name: b.Name()}
	for _, name := range b.names() {
		n := b.Nodes[name]
		node := lab.Node{
			Name: name, Bridge: n.Runs == Bridge, Loopback: prefixes(n.Ports[loopback]),
			Forwards: n.Runs == Kernel || n.Runs == BIRD || n.Runs == FRR,
		}
		switch n.Machine {
		case UML:
			node.Machine = lab.UML
		case QEMU:
			node.Machine, node.Image, node.Card = lab.QEMU, b.nextTo(n.Image), n.Card
		}
		for _, via := range n.Gateway {
			node.Routes = append(node.Routes, lab.Route{To: netip.PrefixFrom(via, 0).Masked(), Via: via})
		}
		for _, r := range n.Routes {
			node.Routes = append(node.Routes, lab.Route{To: r.Prefix.Prefix, Via: r.Via})
		}
		t.Nodes = append(t.Nodes, node)
	}
	for _, l := range b.Links {
		t.Links = append(t.Links, lab.Link{A: b.port(l.Ends[0]), B: b.port(l.Ends[1]), MTU: l.MTU})
	}
	return t
}

func (b *Blueprint) port(end string) lab.Port {
	node, port, _ := strings.Cut(end, ".")
	n := b.Nodes[node]
	return lab.Port{Node: node, Name: port, Addresses: prefixes(n.Ports[port]), Silent: n.Runs == Bridge}
}

func prefixes(addresses []config.Address) (out []netip.Prefix) {
	for _, a := range addresses {
		out = append(out, a.Prefix)
	}
	return out
}

// Network is a blueprint that has been built.
type Network struct {
	*lab.Lab
	Routers map[string]*lab.Minne // the nodes that run Minne
}

// Up builds the network and starts what runs on its nodes; each Minne has then applied its
// configuration. binary is the minne command. When Up fails, or ctx ends, nothing is left behind; else
// the caller closes the network.
func (b *Blueprint) Up(ctx context.Context, binary string) (*Network, error) {
	t := b.Topology()
	t.Binary = binary
	l, err := lab.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	net := &Network{Lab: l, Routers: map[string]*lab.Minne{}}
	if err := b.start(ctx, net, binary); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return net, nil
}

func (b *Blueprint) start(ctx context.Context, net *Network, binary string) error {
	for _, l := range b.Links {
		for i, end := range l.Ends {
			if err := b.accept(net, end, l.Ends[1-i]); err != nil {
				return err
			}
		}
	}
	names := b.names()
	for _, name := range names {
		if text := b.Nodes[name].Prepare; text != "" {
			if _, err := net.Node(name).Run(ctx, "sh", "-ec", text); err != nil {
				return fmt.Errorf("node %s, commands of prepare: %w", name, err)
			}
		}
	}
	for _, name := range names {
		if n := b.Nodes[name]; n.Runs == Minne {
			m, err := net.Node(name).Minne(binary, n.text, n.secretsText)
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			net.Routers[name] = m
		}
	}
	var starting sync.WaitGroup
	failures := make([]error, len(names))
	for i, name := range names {
		starting.Go(func() {
			if err := b.Nodes[name].start(ctx, net, name); err != nil {
				failures[i] = fmt.Errorf("node %s, configured by %s: %w", name, b.Nodes[name].origin, err)
			}
		})
	}
	starting.Wait()
	return errors.Join(failures...)
}

// accept lets a port take frames that the fast path of a Minne at the other end sends it.
func (b *Blueprint) accept(net *Network, end, far string) error {
	node, port, _ := strings.Cut(end, ".")
	farNode, _, _ := strings.Cut(far, ".")
	fast := func(n *Node) bool { return n.Runs == Minne && n.Machine != UML && n.Machine != QEMU }
	if !fast(b.Nodes[farNode]) || fast(b.Nodes[node]) {
		return nil
	}
	return net.Node(node).AcceptRedirects(port)
}

// start runs what runs on the node.
func (n *Node) start(ctx context.Context, net *Network, name string) error {
	node := net.Node(name)
	switch n.Runs {
	case Minne:
		m := net.Routers[name]
		if err := m.StartDaemon(ctx); err != nil {
			return err
		}
		if _, err := m.Command(ctx, "apply", m.Config); err != nil {
			return fmt.Errorf("%w\ndaemon: %s", err, m.Log(10))
		}
	case BIRD:
		_, err := node.RunBIRD(ctx, []byte(n.text))
		return err
	case FRR:
		return node.RunFRR(ctx, []byte(n.text))
	}
	return nil
}
