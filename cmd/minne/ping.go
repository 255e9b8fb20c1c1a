// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"minne/internal/daemon/router"
)

// prober is a program of the system that sends packets and prints what comes back.
type prober struct {
	name, short string
	source      string // its option for the source address
	install     string // Debian's package
	example     string
}

var probers = []prober{
	{"ping", "Ping a host, from the router or from the address of one of its ports", "-I", "iputils-ping", "-c 3 -s 1400"},
	{"traceroute", "Trace the route to a host, from the router or from the address of one of its ports", "-s", "traceroute", "-n -I"},
	{"mtr", "Trace the route to a host continuously, from the router or from the address of one of its ports", "-a", "mtr-tiny", "--report -n"},
}

func newPingCommand(a *app) *cobra.Command { return a.probeCommand(probers[0]) }

func newTracerouteCommand(a *app) *cobra.Command { return a.probeCommand(probers[1]) }

func newMTRCommand(a *app) *cobra.Command { return a.probeCommand(probers[2]) }

// probeFlags are those of a prober.
type probeFlags struct {
	from      string
	four, six bool
}

func (a *app) probeCommand(p prober) *cobra.Command {
	var f probeFlags
	c := &cobra.Command{
		Use:   p.name + " DESTINATION [-- OPTION…]",
		Short: p.short,
		Long: fmt.Sprintf(`%s:
runs the system's %s in the router's network namespace.

With --from, the packets' source address is that of the named interface, or of the first
interface of the named zone. They still follow the router's routes. Put options of %s
itself after "--".`, p.short, p.name, p.name),
		Example: fmt.Sprintf("minne %s --from lan 192.0.2.99 -- %s", p.name, p.example),
		Args: func(c *cobra.Command, args []string) error {
			given := len(args)
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				given = dash
			}
			if given != 1 {
				return errors.New("expected one destination, an address or a name; put options of " + p.name + " after --")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.probe(c, p, f, args[0], args[1:])
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "`interface or zone` whose address is the source")
	c.Flags().BoolVarP(&f.four, "ipv4", "4", false, "use IPv4 for a name that has both")
	c.Flags().BoolVarP(&f.six, "ipv6", "6", false, "use IPv6")
	return c
}

func (a *app) probe(c *cobra.Command, p prober, f probeFlags, destination string, options []string) error {
	if strings.HasPrefix(destination, "-") {
		return usageError{fmt.Errorf("%q: expected an address or a name", destination)}
	}
	path, err := exec.LookPath(p.name)
	if err != nil {
		return fmt.Errorf("%s is not installed: apt install %s", p.name, p.install)
	}
	address, err := netip.ParseAddr(destination)
	literal := err == nil
	if literal && (f.four && address.Is6() || f.six && address.Is4()) {
		return usageError{fmt.Errorf("%s is of the other address family", destination)}
	}
	six := f.six || literal && address.Is6()
	argv := []string{p.name}
	if f.from != "" {
		source, itsSix, err := a.source(c, f.from, literal, six, f.four)
		if err != nil {
			return err
		}
		six = itsSix
		argv = append(argv, p.source, source)
		f.four = f.four || !six
	}
	switch {
	case six:
		argv = append(argv, "-6")
	case f.four || literal:
		argv = append(argv, "-4")
	}
	inst, err := a.inst()
	if err != nil {
		return err
	}
	if err := enterRouter(router.Netns(inst)); err != nil {
		return err
	}
	err = unix.Exec(path, append(append(argv, options...), destination), os.Environ())
	return fmt.Errorf("%s: %w", path, err)
}

// source is the address that packets from an interface or a zone have: of the family of a literal
// destination, or of IPv4 for a name unless the operator or the port wants IPv6.
func (a *app) source(c *cobra.Command, from string, literal, six, four bool) (address string, isSix bool, err error) {
	client, err := a.client()
	if err != nil {
		return "", false, err
	}
	v, err := router.Source.Ask(c.Context(), client, router.SourceQuestion{From: from})
	if err != nil {
		return "", false, err
	}
	if !literal && !six && !four && !v.IPv4.IsValid() {
		six = true
	}
	chosen, family := v.IPv4, "IPv4"
	if six {
		chosen, family = v.IPv6, "IPv6"
	}
	if !chosen.IsValid() {
		return "", six, fmt.Errorf("%s has no %s address to send from", from, family)
	}
	return chosen.String(), six, nil
}

// enterRouter moves this thread into the router's network namespace, for a program that takes the place
// of this one.
func enterRouter(path string, here bool) error {
	if here {
		return nil
	}
	if path == "" {
		return errors.New("the router's network namespace is gone: start its daemon")
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("the router's network namespace: %w; run it as root (sudo)", err)
	}
	defer ns.Close()
	runtime.LockOSThread()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the router's network namespace: %w; run it as root (sudo)", err)
	}
	return nil
}
