// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/destinations"
	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/openloop"
	"minne/internal/lab/pattern"
	"minne/internal/lab/report"
	"minne/internal/lab/session"
	"minne/internal/subsystem/kernel"
)

// measureFlags are what all measurements with an open loop have in common.
type measureFlags struct {
	traffic string
	sizes   []string
	table   string
	cards   openloop.Cards
	lanes   int
	dir     string
	asJSON  bool
}

func (f *measureFlags) register(c *cobra.Command) {
	f.registerTraffic(c)
	c.Flags().IntVar(&f.lanes, "lanes", 1, "`number` of generators; each has its own CPU, and its own receive queue of the device with another CPU")
	f.registerCards(c)
	f.registerReport(c)
}

// registerTraffic adds the flags that say what is sent.
func (f *measureFlags) registerTraffic(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.traffic, "traffic", "one-flow", "`words` of the traffic pattern, such as \"flows=2048@30 family=ipv6 bidirectional\"; see \"minne lab patterns\"")
	flags.StringArrayVar(&f.sizes, "size", nil, "frame `sizes` in bytes with FCS (default 64 or that of the traffic), a mix (imix, imix-csit, 64:45,576:25), several sizes separated by commas, or rfc2544 for all sizes of that standard")
	flags.StringVar(&f.table, "table", "", "routing table of the device: a `file` of prefixes, full for the Internet table, or a number of prefixes from it; destinations are then taken from the table")
}

// registerCards adds the flags that put network cards in place of namespaces.
func (f *measureFlags) registerCards(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.cards.Left, "tx", "", "measure the device between two network cards: the `port` that sends")
	flags.StringVar(&f.cards.Right, "rx", "", "the `port` that receives (both send when the traffic is bidirectional)")
	flags.StringVar(&f.cards.LeftGateway, "tx-gateway", "", "`address` or MAC of the device's port at --tx; without gateways the device is a bridge or a cable")
	flags.StringVar(&f.cards.RightGateway, "rx-gateway", "", "`address` or MAC of the device's port at --rx")
	flags.StringSliceVar(&f.cards.LeftAddress, "tx-address", nil, "`addresses` with prefix length of the tester at --tx during the measurement, to resolve the gateway's MAC address and to answer it")
	flags.StringSliceVar(&f.cards.RightAddress, "rx-address", nil, "`addresses` of the tester at --rx during the measurement")
	flags.BoolVar(&f.cards.Force, "force", false, "use ports also when they carry this computer's default route or SSH session, or belong to a bridge or bond")
}

// registerReport adds the flags that say where figures go.
func (f *measureFlags) registerReport(c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "out", "", "`directory` of the report (default minne-lab-DATE-WHAT; none for no report)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the result as JSON; a report is written only with --out")
}

// rfc2544Sizes are the frame sizes of RFC 2544 section 9.1.
var rfc2544Sizes = []string{"64", "128", "256", "512", "1024", "1280", "1518"}

// patterns returns the traffic with each of the sizes.
func (f *measureFlags) patterns() ([]pattern.Pattern, error) {
	sizes := []string{""} // what the traffic's own words say
	if len(f.sizes) > 0 {
		sizes = nil
	}
	for _, text := range f.sizes {
		switch {
		case text == "rfc2544":
			sizes = append(sizes, rfc2544Sizes...)
		case strings.ContainsAny(text, ":="): // a mix, whose own commas are in it
			sizes = append(sizes, text)
		default:
			sizes = append(sizes, strings.Split(text, ",")...)
		}
	}
	var out []pattern.Pattern
	for _, size := range sizes {
		p, err := pattern.Options{Traffic: f.traffic, Size: size, Table: f.table}.Parse()
		if err != nil {
			return nil, usageError{err}
		}
		out = append(out, p)
	}
	return out, nil
}

// devices reads the devices named on the command line.
func devices(args []string, otherwise ...string) ([]device.Spec, error) {
	if len(args) == 0 {
		args = otherwise
	}
	var out []device.Spec
	for _, text := range args {
		d, err := device.Parse(text)
		if err != nil {
			return nil, usageError{err}
		}
		out = append(out, d)
	}
	return out, nil
}

// plan is the measurement that the flags describe.
func (f *measureFlags) plan(args []string) (p measure.Plan, err error) {
	if p.Traffic, err = f.patterns(); err != nil {
		return p, err
	}
	if p.Means.Binary, err = os.Executable(); err != nil {
		return p, err
	}
	p.Means.Load = kernel.BulkRoutes
	if p.Lanes = f.lanes; f.lanes < 1 || f.lanes > openloop.MaxLanes {
		return p, usageError{fmt.Errorf("--lanes %d: expected 1 to %d", f.lanes, openloop.MaxLanes)}
	}
	if f.cards.Left != "" || f.cards.Right != "" {
		if len(args) > 0 {
			return p, usageError{fmt.Errorf("device %s: between network cards the device is what they are connected to; leave out either --tx and --rx or the device", args[0])}
		}
		p.Cards = &f.cards
	} else if p.Devices, err = devices(args, "kernel", "minne"); err != nil {
		return p, err
	}
	p.Table, err = table(p.Traffic)
	return p, err
}

// everything is what a device has routes to when the frames of a capture are replayed.
var everything = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// table returns the routing table that the traffic draws destinations from: the device has its routes.
func table(traffic []pattern.Pattern) ([]netip.Prefix, error) {
	name, replay := "", false
	for _, p := range traffic {
		if p.Table != "" {
			name = p.Table
		}
		replay = replay || p.Shape == pattern.Replay
	}
	if name == "" {
		if replay {
			return everything, nil
		}
		return nil, nil
	}
	t, err := destinations.Named(name)
	return t.Prefixes(), err
}

// measure runs a plan and reports what it found.
func (f *measureFlags) measure(ctx context.Context, a *app, title, name string, p measure.Plan) error {
	return f.session(ctx, a, title, name, func(ctx context.Context, s *session.Session) error { return p.Run(ctx, s) })
}

// session runs a measurement in a session of its own and prints the result.
func (f *measureFlags) session(ctx context.Context, a *app, title, name string, run func(context.Context, *session.Session) error) error {
	dir := f.dir
	if dir == "" && !f.asJSON {
		dir = "minne-lab-" + time.Now().Format("20060102-150405") + "-" + name
	} else if dir == "none" {
		dir = ""
	}
	s, err := session.Begin(session.Options{Title: title, Command: append([]string{"minne"}, os.Args[1:]...), Version: version(), Commit: commit, Dir: dir, Progress: a.err})
	if err != nil {
		return err
	}
	r, err := s.End(run(ctx, s))
	if err != nil && s.Empty() {
		if errors.Is(err, context.Canceled) {
			return errors.New("interrupted before there was a figure")
		}
		return err
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; what was measured until then is in the report")
	}
	if f.asJSON {
		return errors.Join(err, a.printJSON(r))
	}
	err = errors.Join(err, report.WriteTables(a.out, r))
	if dir != "" {
		fmt.Fprintf(a.out, "\nReport: %s\n", filepath.Join(dir, "report.html"))
	}
	return err
}
