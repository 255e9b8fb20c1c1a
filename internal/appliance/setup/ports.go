// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/subsystem/kernel"
)

// Port is a link that can become the WAN or a LAN.
type Port struct {
	Name    string
	MAC     string
	Driver  string
	Bus     string
	Cable   bool
	Speed   uint32       // Mbit/s, 0 when unknown
	Network netip.Prefix // that a DHCP server behind it offers an address in; the zero Prefix for none
	PPPoE   bool         // an access concentrator answers behind it
}

// Bounds of looking at ports.
const (
	carrierWait = 4 * time.Second // copper takes two or three seconds to agree on a speed
	probeTime   = 6 * time.Second
)

// FindPorts returns the machine's Ethernet ports: hardware, and in a container the ends of veth
// pairs. They are put up, or a cable could not be seen; lower puts those down again that were. With
// probe, each that has a cable is asked for a DHCP server and for a PPPoE access concentrator.
func FindPorts(ctx context.Context, probe bool) (ports []Port, lower func(), err error) {
	var raised []netlink.Link
	lower = func() {
		for _, link := range raised {
			_ = netlink.LinkSetDown(link) // one that is gone is down
		}
	}
	k := kernel.New(slog.New(slog.DiscardHandler))
	if ports, err = readPorts(ctx, k); err != nil {
		return nil, lower, err
	}
	for _, p := range ports {
		link, err := netlink.LinkByName(p.Name)
		if err == nil && link.Attrs().Flags&net.FlagUp == 0 {
			raised = append(raised, link)
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			return nil, lower, fmt.Errorf("port %s: put up: %w", p.Name, err)
		}
	}
	for until := time.Now().Add(carrierWait); ; {
		if ports, err = readPorts(ctx, k); err != nil {
			return nil, lower, err
		}
		if !slices.ContainsFunc(ports, func(p Port) bool { return !p.Cable }) || time.Now().After(until) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, lower, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if probe {
		probeAll(ctx, ports)
	}
	return ports, lower, nil
}

func readPorts(ctx context.Context, k *kernel.Kernel) (ports []Port, err error) {
	links, err := k.Interfaces(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if l.Port() && !isRadio(l.Name) {
			ports = append(ports, Port{Name: l.Name, MAC: l.MAC, Driver: l.Driver, Bus: l.BusPath, Cable: l.State == "up", Speed: l.Speed})
		}
	}
	slices.SortFunc(ports, func(a, b Port) int { return strings.Compare(natural(a.Name), natural(b.Name)) })
	return ports, nil
}

// natural makes eth10 come after eth9: numbers are padded.
func natural(name string) string {
	var b strings.Builder
	digits := ""
	flush := func() {
		if digits != "" {
			fmt.Fprintf(&b, "%08s", digits)
			digits = ""
		}
	}
	for _, r := range name {
		if r >= '0' && r <= '9' {
			digits += string(r)
			continue
		}
		flush()
		b.WriteRune(r)
	}
	flush()
	return b.String()
}

// probeScript keeps what a DHCP server offers and sets nothing.
const probeScript = "#!/bin/sh\n[ \"$1\" = bound ] && echo \"$ip/$mask\" >\"${0%/*}/$interface\"\nexit 0\n"

// probeAll asks behind every port with a cable whether a DHCP server or an access concentrator (RFC 2516: PADI and PADO)
// answers: that is probably the way to the Internet. Not finding out is no failure.
func probeAll(ctx context.Context, ports []Port) {
	dir, err := os.MkdirTemp("", "minne-setup-")
	if err != nil {
		return
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "event")
	if err := os.WriteFile(script, []byte(probeScript), 0o755); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var all sync.WaitGroup
	for i := range ports {
		p := &ports[i]
		if !p.Cable {
			continue
		}
		all.Go(func() {
			c := exec.CommandContext(ctx, "pppoe-discovery", "-I", p.Name, "-t", "1", "-a", "2")
			out, err := c.Output()
			p.PPPoE = err == nil && strings.Contains(string(out), "Access-Concentrator:")
		})
		all.Go(func() {
			c := exec.CommandContext(ctx, "udhcpc", "-f", "-q", "-n", "-B", "-t", "3", "-T", "1", "-i", p.Name, "-s", script)
			if c.Run() != nil {
				return
			}
			if b, err := os.ReadFile(filepath.Join(dir, p.Name)); err == nil {
				if offered, err := netip.ParsePrefix(strings.TrimSpace(string(b))); err == nil {
					p.Network = offered.Masked()
				}
			}
		})
	}
	all.Wait()
}

// link says in a few words what is behind a port.
func (p Port) link() string {
	switch {
	case !p.Cable:
		return "no cable"
	case p.Speed >= 1000:
		return fmt.Sprintf("%g Gbit/s", float64(p.Speed)/1000)
	case p.Speed > 0:
		return fmt.Sprintf("%d Mbit/s", p.Speed)
	}
	return "cable"
}

func (p Port) network() string {
	var found []string
	if p.PPPoE {
		found = append(found, "PPPoE")
	}
	if p.Network.IsValid() {
		found = append(found, "DHCP "+p.Network.String())
	}
	return strings.Join(found, ", ")
}

// findPort returns the port that a name, a number of the list, a MAC or a bus address means.
func findPort(ports []Port, word string) (int, bool) {
	for i, p := range ports {
		if word == p.Name || word == fmt.Sprint(i+1) || strings.EqualFold(word, p.MAC) || word == p.Bus && p.Bus != "" {
			return i, true
		}
	}
	return 0, false
}

// guessWAN is the port behind which a provider's access concentrator is, else one with a DHCP server, else the first with a cable, else the first.
func guessWAN(ports []Port) int {
	for _, fits := range []func(Port) bool{
		func(p Port) bool { return p.PPPoE },
		func(p Port) bool { return p.Network.IsValid() },
		func(p Port) bool { return p.Cable },
	} {
		if i := slices.IndexFunc(ports, fits); i >= 0 {
			return i
		}
	}
	return 0
}
