// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// Port names a port of this machine in reports.
type Port struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitempty"`
	Bus    string `json:"bus,omitempty"`
	MAC    string `json:"mac,omitempty"`
	Speed  uint64 `json:"speed_bps,omitempty"`
	Role   string `json:"role"` // of a tester's port: "generator", "sink"; the caller sets it
}

// Facts are what is known of a port.
type Facts struct {
	Port
	Index      int
	Kind       string // "veth", "bridge" …; "" is a device of its own
	Up         bool   // the operator's will
	Carrier    bool   // there is somebody at the other end of the cable
	MTU        int    // bytes, without the Ethernet header
	Master     string // the bridge or bond that it belongs to
	Queues     Queues
	XDP        XDP
	StripsTags bool     // takes VLAN tags off frames before a program sees them (rx-vlan-offload)
	Program    *Program // an XDP program that is on it
	Uses       []Use    // what would be cut off if the port were taken
	Addresses  []string
}

// Queues are how many queues a device has in each direction, and how many it could have. 0 is unknown.
type Queues struct {
	Receive, Transmit         int
	MostReceive, MostTransmit int
}

// Program is an XDP program on a port.
type Program struct {
	ID   int
	Name string // as its author called it, at most 15 bytes
	Mode string // "native", "generic", "offloaded", "several"
}

// String names the program as bpftool lists it.
func (p Program) String() string {
	if p.Name == "" {
		return fmt.Sprintf("an XDP program (id %d, %s)", p.ID, p.Mode)
	}
	return fmt.Sprintf("the XDP program %s (id %d, %s)", p.Name, p.ID, p.Mode)
}

// kindsWithoutSpeed are made of software: the speed that some of them tell is made up.
var kindsWithoutSpeed = []string{"veth", "dummy", "tun", "bridge", "ifb", "macvlan", "ipvlan"}

// Look returns the facts of a port. The error of a name that no port has names those that there are.
func Look(name string) (Facts, error) {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return Facts{}, fmt.Errorf("list the ports: %w", err)
	}
	link := named(name, links)
	if link == nil {
		return Facts{}, unknown(name, links)
	}
	return facts(link, links)
}

// All returns the facts of every port of the network namespace but the loopback, as the kernel numbers them.
func All() ([]Facts, error) {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list the ports: %w", err)
	}
	var all []Facts
	for _, l := range links {
		if l.Attrs().RawFlags&unix.IFF_LOOPBACK != 0 {
			continue
		}
		f, err := facts(l, links)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// named finds a link by its name or another name of it.
func named(name string, links []netlink.Link) netlink.Link {
	for _, l := range links {
		if l.Attrs().Name == name {
			return l
		}
	}
	for _, l := range links {
		if slices.Contains(l.Attrs().AltNames, name) {
			return l
		}
	}
	return nil
}

// unknown refuses a name that no port has.
func unknown(name string, links []netlink.Link) error {
	var names []string
	for _, l := range links {
		if l.Attrs().RawFlags&unix.IFF_LOOPBACK == 0 {
			names = append(names, l.Attrs().Name)
		}
	}
	slices.Sort(names)
	there := "there are " + strings.Join(names, ", ")
	switch len(names) {
	case 0:
		there = "this machine has none but the loopback"
	case 1:
		there = "there is only " + names[0]
	}
	hint := ""
	if near := config.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	return fmt.Errorf("no port %q: %s%s", name, there, hint)
}

func facts(link netlink.Link, links []netlink.Link) (Facts, error) {
	a := link.Attrs()
	f := Facts{
		Port:    Port{Name: a.Name, MAC: a.HardwareAddr.String()},
		Index:   a.Index,
		Up:      a.RawFlags&unix.IFF_UP != 0,
		Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
		MTU:     a.MTU,
		XDP:     xdpOf(a.Index),
		Program: programOf(a.Xdp),
	}
	if kind := link.Type(); kind != "device" {
		f.Kind = kind
	}
	for _, l := range links {
		if a.MasterIndex != 0 && l.Attrs().Index == a.MasterIndex {
			f.Master = l.Attrs().Name
		}
	}
	d, err := open(a.Name)
	if err != nil {
		return f, err
	}
	defer d.close()
	f.Driver, f.Bus = d.driver()
	f.Queues = d.queues()
	f.StripsTags = d.stripsTags()
	if !slices.Contains(kindsWithoutSpeed, f.Kind) {
		f.Speed = d.speed()
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return f, fmt.Errorf("addresses of %s: %w", a.Name, err)
	}
	for _, address := range addresses {
		if !address.IP.IsLinkLocalUnicast() {
			f.Addresses = append(f.Addresses, address.IPNet.String())
		}
	}
	f.Uses, err = usesOf(link, links)
	return f, err
}

// programOf returns the program on a port, or nil.
func programOf(x *netlink.LinkXdp) *Program {
	if x == nil || !x.Attached {
		return nil
	}
	modes := []string{"", "native", "generic", "offloaded", "several"} // XDP_ATTACHED_
	p := &Program{ID: int(x.ProgId), Mode: fmt.Sprint(x.AttachMode)}
	if int(x.AttachMode) < len(modes) {
		p.Mode = modes[x.AttachMode]
	}
	program, err := ebpf.NewProgramFromID(ebpf.ProgramID(x.ProgId))
	if err != nil {
		return p // it has gone meanwhile, or only its id may be known
	}
	defer program.Close()
	if found, err := program.Info(); err == nil {
		p.Name = found.Name
	}
	return p
}
