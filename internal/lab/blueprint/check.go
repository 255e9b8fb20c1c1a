// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"minne/internal/model/config"
)

// What the parts of a blueprint can't mean together.

// A node's name becomes part of a namespace's and of a router instance's name.
var nodeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`)

const nodeForm = "a lower-case letter, then lower-case letters, digits and dashes, at most 15 in all"

// portName is what the kernel takes as an interface's name, without dots: they separate it from the node's.
var portName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,14}$`)

const portForm = "letters, digits, - and _, at most 15 in all"

func (b *Blueprint) names() []string { return slices.Sorted(maps.Keys(b.Nodes)) }

func (b *Blueprint) checkNodes() {
	if len(b.Nodes) == 0 {
		b.document.Refuse("nodes", "there is no node", "a key for each machine, as left: {runs: host}", "")
	}
	owners := map[netip.Addr]string{}
	for _, name := range b.names() {
		at := "nodes." + name
		if !nodeName.MatchString(name) {
			b.document.Refuse(at, fmt.Sprintf("a node can't be called %q", name), nodeForm, "")
			continue
		}
		n := b.Nodes[name]
		b.checkConfigured(at, n)
		b.checkAddresses(at, name, n, owners)
		b.checkRoutes(at, n)
	}
}

// checkConfigured refuses keys that mean nothing for what runs on the node.
func (b *Blueprint) checkConfigured(at string, n *Node) {
	daemon := n.Runs == Minne || n.Runs == BIRD || n.Runs == FRR
	switch {
	case daemon && n.Config == "":
		b.document.Refuse(at, fmt.Sprintf("%s has no configuration", at), "config: with the name of a file, or the text itself behind |", "")
	case !daemon && n.Config != "":
		b.document.Refuse(at+".config", fmt.Sprintf("a node that runs %s takes no configuration", n.Runs), "config with runs: minne, bird or frr", "")
	}
	if n.Secrets != "" && n.Runs != Minne {
		b.document.Refuse(at+".secrets", fmt.Sprintf("a node that runs %s takes no secrets", n.Runs), "secrets only with runs: minne", "")
	}
	if n.Machine == UML && (n.Runs == BIRD || n.Runs == FRR) {
		b.document.Refuse(at+".machine", fmt.Sprintf("a node that runs %s can't run in User-Mode Linux", n.Runs), "machine: uml with runs: minne, host, kernel or bridge", "")
	}
	b.checkImage(at, n)
	if n.Runs != Minne && n.Runs != Bridge {
		return
	}
	reason := map[Role]string{Minne: "are set in its configuration", Bridge: "belong to the machines that it joins"}[n.Runs]
	for _, port := range slices.Sorted(maps.Keys(n.Ports)) {
		if len(n.Ports[port]) > 0 {
			b.document.Refuse(at+".ports."+port, fmt.Sprintf("addresses on a port of a node that runs %s", n.Runs), "none here: they "+reason, "")
		}
	}
	if len(n.Gateway) > 0 {
		b.document.Refuse(at+".gateway", fmt.Sprintf("a gateway of a node that runs %s", n.Runs), "none here: routes "+reason, "")
	}
	if len(n.Routes) > 0 {
		b.document.Refuse(at+".routes", fmt.Sprintf("routes of a node that runs %s", n.Runs), "none here: routes "+reason, "")
	}
}

// checkImage wants the image of a node in QEMU, and of no other.
func (b *Blueprint) checkImage(at string, n *Node) {
	switch {
	case n.Machine == QEMU && n.Runs != Minne:
		b.document.Refuse(at+".machine", fmt.Sprintf("a node that runs %s can't run in QEMU, which boots the router's image", n.Runs), "machine: qemu with runs: minne", "")
	case n.Machine == QEMU && n.Image == "":
		b.document.Refuse(at+".machine", "there is no image to boot", "image: with the file that ./dev image makes", "")
	case n.Machine != QEMU && n.Image != "":
		b.document.Refuse(at+".image", "only a node in QEMU boots an image", "machine: qemu with image", "")
	}
}

func (b *Blueprint) checkAddresses(at, name string, n *Node, owners map[netip.Addr]string) {
	for _, port := range slices.Sorted(maps.Keys(n.Ports)) {
		if !portName.MatchString(port) {
			b.document.Refuse(at+".ports."+port, fmt.Sprintf("a port can't be called %q", port), portForm, "")
		}
		for i, a := range n.Ports[port] {
			path := fmt.Sprintf("%s.ports.%s[%d]", at, port, i)
			if owner, taken := owners[a.Addr()]; taken {
				b.document.Refuse(path, fmt.Sprintf("address %s belongs to %s already", a.Addr(), owner), "every address once", "")
			}
			owners[a.Addr()] = name + "." + port
			if a.Addr().IsUnspecified() || a.Addr().IsMulticast() || a.Bits() == 0 {
				b.document.Refuse(path, fmt.Sprintf("no port can have the address %s", a), "the address of one machine with the length of its network", "")
			}
		}
	}
}

// checkRoutes wants next hops that are on a network of the node: the kernel would refuse others halfway.
func (b *Blueprint) checkRoutes(at string, n *Node) {
	reachable := func(via netip.Addr) bool {
		for _, addresses := range n.Ports {
			for _, a := range addresses {
				if a.Masked().Contains(via) && a.Addr() != via {
					return true
				}
			}
		}
		return false
	}
	refuse := func(path string, via netip.Addr) {
		b.document.Refuse(path, fmt.Sprintf("next hop %s is on no network of this node", via), "a neighbour's address on one of its ports' networks", "")
	}
	families := map[bool]bool{}
	for i, via := range n.Gateway {
		path := fmt.Sprintf("%s.gateway[%d]", at, i)
		if families[via.Is4()] {
			b.document.Refuse(path, "a second gateway of the same family", "at most one IPv4 and one IPv6 address", "")
		}
		families[via.Is4()] = true
		if !reachable(via) && n.Runs != Minne && n.Runs != Bridge {
			refuse(path, via)
		}
	}
	for i, r := range n.Routes {
		path := fmt.Sprintf("%s.routes[%d]", at, i)
		switch {
		case n.Runs == Minne || n.Runs == Bridge:
		case r.Prefix.Addr().Is4() != r.Via.Is4():
			b.document.Refuse(path+".via", fmt.Sprintf("%s and %s are of two families", r.Prefix, r.Via), "a next hop of the destination's family", "")
		case !reachable(r.Via):
			refuse(path+".via", r.Via)
		}
	}
}

// checkLinks wants two different free ports at the ends of each cable, and a cable at each port.
func (b *Blueprint) checkLinks() {
	cabled := map[string]int{} // port → line of its cable
	unknown := false           // an end may have been meant for any port
	for i, l := range b.Links {
		at := fmt.Sprintf("links[%d].ends", i)
		if len(l.Ends) != 2 {
			b.document.Refuse(at, fmt.Sprintf("a cable with %d ends", len(l.Ends)), "[NODE.PORT, NODE.PORT]", "")
			continue
		}
		for j, end := range l.Ends {
			path := fmt.Sprintf("%s[%d]", at, j)
			if !b.checkEnd(path, end) {
				unknown = true
				continue
			}
			if line, taken := cabled[end]; taken {
				b.document.Refuse(path, fmt.Sprintf("%s has two cables, the first in line %d", end, line), "each port once; a node that runs bridge joins several cables", "")
			}
			cabled[end] = b.document.Line(path)
		}
	}
	if unknown {
		return
	}
	for _, name := range b.names() {
		for _, port := range slices.Sorted(maps.Keys(b.Nodes[name].Ports)) {
			if at := name + "." + port; cabled[at] == 0 && port != loopback {
				b.document.Refuse("nodes."+name+".ports."+port, fmt.Sprintf("port %s has no cable", at), "it among the ends of a link", config.Nearest(at, slices.Sorted(maps.Keys(cabled))))
			}
		}
	}
}

// checkEnd refuses what is no NODE.PORT of the blueprint.
func (b *Blueprint) checkEnd(path, end string) bool {
	node, port, dotted := strings.Cut(end, ".")
	switch {
	case !dotted:
		b.document.Refuse(path, fmt.Sprintf("%q names no port", end), "NODE.PORT, as left.eth0", "")
	case b.Nodes[node] == nil:
		b.document.Refuse(path, fmt.Sprintf("there is no node %q", node), "one of "+strings.Join(b.names(), ", "), config.Nearest(node, b.names()))
	case !portName.MatchString(port) || port == loopback:
		b.document.Refuse(path, fmt.Sprintf("a port can't be called %q", port), portForm, "")
	default:
		return true
	}
	return false
}

// readConfigs reads the configurations that the nodes name, and checks those of a Minne.
func (b *Blueprint) readConfigs() error {
	var wrong *config.Error
	for _, name := range b.names() {
		n := b.Nodes[name]
		at := "nodes." + name
		indent := 0
		if n.Config != "" {
			n.text, n.origin, indent = b.content(at+".config", n.Config)
		}
		if n.Secrets != "" {
			n.secretsText, _, _ = b.content(at+".secrets", n.Secrets)
		}
		if n.Runs != Minne || n.text == "" {
			continue
		}
		err := n.checkMinne()
		if err == nil {
			b.checkInterfaces(name, n)
		}
		var found *config.Error
		switch {
		case errors.As(err, &found):
			for i := range found.Problems {
				if found.Problems[i].Line > 0 {
					found.Problems[i].Column += indent
				}
			}
			if wrong == nil {
				wrong = &config.Error{}
			}
			wrong.Problems = append(wrong.Problems, found.Problems...)
			wrong.More += found.More
		case err != nil:
			b.document.Refuse(at+".secrets", err.Error(), "", "")
		}
	}
	if err := b.document.Err(); err != nil {
		return err
	}
	if wrong != nil {
		return wrong
	}
	return nil
}

// checkInterfaces wants a cable at every port that a Minne's configuration speaks of, unless the node's own commands
// may make it.
func (b *Blueprint) checkInterfaces(name string, n *Node) {
	if n.Prepare != "" {
		return
	}
	var ports []string
	for _, l := range b.Links {
		for _, end := range l.Ends {
			if node, port, _ := strings.Cut(end, "."); node == name {
				ports = append(ports, port)
			}
		}
	}
	slices.Sort(ports)
	for _, iface := range slices.Sorted(maps.Keys(n.parsed.Interfaces)) {
		link := linkOf(iface, n.parsed)
		if link == "" || link == loopback || slices.Contains(ports, link) {
			continue
		}
		expected := "a cable at " + name + "." + link
		if len(ports) > 0 {
			expected += "; there are cables at " + strings.Join(ports, ", ")
		}
		b.document.Refuse("nodes."+name+".config", fmt.Sprintf("the configuration has an interface %s, to which no cable leads", iface), expected, config.Nearest(link, ports))
	}
}

// linkOf returns the port that an interface of a Minne is, "" when it is none or can't be known yet.
func linkOf(name string, cfg *config.Config) string {
	switch i := cfg.Interfaces[name]; {
	case !cfg.Kind(name).Port:
		return ""
	case i == nil || i.Match == nil:
		return name
	default:
		return i.Match.Name
	}
}

// content returns a text that the blueprint holds or names, where it stands, and how far it is indented there.
func (b *Blueprint) content(path, value string) (text, origin string, indent int) {
	if strings.Contains(value, "\n") {
		text, indent = b.document.Inline(path, value)
		return text, b.name, indent
	}
	file := b.nextTo(value)
	data, err := readFile(file)
	if err != nil {
		b.document.Refuse(path, err.Error(), "the name of a file that can be read, relative to this one, or the text itself behind |", "")
	}
	return string(data), file, 0
}

// nextTo is a file that the blueprint names, relative to its own directory.
func (b *Blueprint) nextTo(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(b.name), file)
}

// checkMinne refuses what `minne check` refuses.
func (n *Node) checkMinne() (err error) {
	secrets, err := config.ParseSecrets("secrets", []byte(n.secretsText))
	if err != nil {
		return err
	}
	if n.parsed, err = config.Parse(n.origin, []byte(n.text)); err != nil {
		return err
	}
	return config.Check(n.parsed, secrets)
}
