// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"minne/internal/model/config"
)

// Blueprint is a network as its author wrote it. The tags are those of the router's schema.
type Blueprint struct {
	Version     int              `yaml:"version" doc:"Version of this file's format." enum:"1" required:"true"`
	Description string           `yaml:"description" doc:"What the network is for, in one line."`
	Nodes       map[string]*Node `yaml:"nodes" doc:"The machines by name." required:"true"`
	Links       []*Link          `yaml:"links" doc:"The cables."`

	name     string // of the file or the built-in topology
	document *config.Document
}

// Role is what runs on a node.
type Role string

// The roles of nodes.
const (
	Host   Role = "host"   // sends and receives, forwards nothing
	Kernel Role = "kernel" // forwards by its kernel
	Bridge Role = "bridge" // its ports are those of one switch
	Minne  Role = "minne"
	BIRD   Role = "bird"
	FRR    Role = "frr"
)

// Machine is what a node stands in.
type Machine string

// The kinds of machines.
const (
	Namespace Machine = "namespace" // a network namespace of the host's kernel
	UML       Machine = "uml"       // User-Mode Linux
	QEMU      Machine = "qemu"      // the router's disk image on an emulated PC
)

// Node is one machine.
type Node struct {
	Runs    Role                        `yaml:"runs" doc:"What it is." enum:"host,kernel,bridge,minne,bird,frr" required:"true"`
	Ports   map[string][]config.Address `yaml:"ports" doc:"Addresses of its ports."`
	Gateway []netip.Addr                `yaml:"gateway" doc:"Default routes, one per family." example:"198.18.0.1"`
	Routes  []Route                     `yaml:"routes" doc:"Static routes."`
	// Config is the configuration of what runs there: the name of a file, relative to the blueprint, or
	// the text itself, as a block behind |.
	Config string `yaml:"config" doc:"Configuration: a file, or the text itself behind |." lines:"true"`
	// Prepare is run by a shell in the node, before what runs there.
	Prepare string  `yaml:"prepare" doc:"Commands for a shell, run in the node before what runs there starts." lines:"true"`
	Machine Machine `yaml:"machine" doc:"Where it runs: a network namespace of this host, User-Mode Linux with a kernel of its own, or a PC that QEMU emulates and that boots the router's image." default:"namespace" enum:"namespace,uml,qemu"`
	Image   string  `yaml:"image" doc:"File of the router's disk image, for machine: qemu."`
	Card    string  `yaml:"card" doc:"Model of its network cards, by QEMU's name, for machine: qemu." default:"virtio-net-pci" enum:"virtio-net-pci,vmxnet3,e1000,e1000e,igb"`
	Secrets string  `yaml:"secrets" doc:"Secrets of a Minne: a file, or the text itself behind |." lines:"true"`

	text        string         // of the configuration
	origin      string         // file that the configuration stands in
	parsed      *config.Config // of a Minne
	secretsText string
}

// Route is a static route of a node's kernel.
type Route struct {
	Prefix config.Prefix `yaml:"prefix" doc:"Destination." required:"true"`
	Via    netip.Addr    `yaml:"via" doc:"Next hop." required:"true"`
}

// Link is a cable between two ports, each written NODE.PORT.
type Link struct {
	Ends []string `yaml:"ends" doc:"The two ports." required:"true" example:"left.eth0"`
	MTU  int      `yaml:"mtu" doc:"Largest packet in bytes, without the Ethernet header." default:"1500" min:"68" max:"65535"`
}

// maxFile is the biggest file that a blueprint may name, in bytes.
const maxFile = 64 << 20

// Load reads a blueprint: a built-in one by its name, anything else as a file.
func Load(name string) (*Blueprint, error) {
	if data, found := Text(name); found {
		return Parse(name, data)
	}
	data, err := readFile(name)
	if os.IsNotExist(err) {
		hint := ""
		if near := config.Nearest(name, Names()); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
		return nil, fmt.Errorf("no topology and no file is called %q%s (topologies: %s)", name, hint, strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, err
	}
	return Parse(name, data)
}

// Parse decodes a blueprint and reads the files that it names. file is its name in messages, and its
// directory the one that names of files are relative to. The error is a *config.Error.
func Parse(file string, data []byte) (*Blueprint, error) {
	b := &Blueprint{name: file}
	var err error
	b.document, err = config.ReadDocument(file, data, b, "version: 1, nodes and links")
	if err != nil {
		return nil, err
	}
	b.checkNodes()
	b.checkLinks()
	if err := b.document.Err(); err != nil {
		return nil, err
	}
	return b, b.readConfigs()
}

// Name is what the blueprint is called: for a file its name without directory and ending.
func (b *Blueprint) Name() string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(b.name), ".yml"), ".yaml")
}

// readFile reads a file of bounded size.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d MB: is this the right file?", path, maxFile>>20)
	}
	return data, err
}
