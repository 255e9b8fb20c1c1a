// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"minne/internal/lab/device"
	"minne/internal/lab/matrix"
	"minne/internal/lab/result"
	"minne/internal/lab/session"
	"minne/internal/subsystem/kernel"
)

// Seconds of a cell of the matrix.
const (
	fullCell  = 3
	quickCell = 1
)

// matrixFlags are the flags of "minne lab matrix".
type matrixFlags struct {
	path, device, client string
	server, quick        bool
	seconds              int
	report               measureFlags
}

func newLabMatrixCommand(a *app) *cobra.Command {
	var f matrixFlags
	c := &cobra.Command{
		Use:   "matrix",
		Short: "Measure TCP and UDP transfers of all packet sizes over IPv4 and IPv6",
		Long: `Measure transfers between two hosts through a device with iperf3: TCP and UDP, over
IPv4 and IPv6, with IP packets of 64, 128, 256, 512, 1024 and 1500 bytes; then the
round-trip times of small packets while TCP fills the device in both directions. Hosts
and device are namespaces of this machine. The device routes or bridges, or both in
turn. UDP uses the rate at which most datagrams arrive, found by trials.

A platform with a single port is measured as one end of the transfers: run
"minne lab matrix --server" on one machine and "minne lab matrix --client
ADDRESS" on the other. Ctrl-C keeps the results so far. Needs iperf3 and, except with
--server and --client, root.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return usageError{err}
			}
			if f.server {
				fmt.Fprintln(a.err, "Serving transfers on TCP and UDP port 5201 and echoes on UDP port 5202 until Ctrl-C.")
				return matrix.Serve(c.Context())
			}
			return f.report.session(c.Context(), a, "TCP and UDP matrix", "matrix", f.measure)
		},
	}
	c.Flags().StringVar(&f.path, "path", "routed", "`what` the device does: routed, bridged or both")
	c.Flags().StringVar(&f.device, "device", "kernel", "`device` that routes: "+device.Grammar)
	c.Flags().BoolVar(&f.server, "server", false, "receive the transfers of another machine's --client, until Ctrl-C")
	c.Flags().StringVar(&f.client, "client", "", "measure transfers from this machine to the --server at this `address`")
	c.Flags().IntVar(&f.seconds, "seconds", fullCell, "`seconds` of each transfer")
	c.Flags().BoolVar(&f.quick, "quick", false, "1 second for each transfer, and fewer trials of UDP rates")
	f.report.registerReport(c)
	return c
}

func (f *matrixFlags) check(c *cobra.Command) error {
	switch {
	case f.server && f.client != "":
		return errors.New("--server and --client exclude each other: each runs on one of two machines")
	case (f.server || f.client != "") && (c.Flags().Changed("path") || c.Flags().Changed("device")):
		return errors.New("--path and --device are for a device on this machine, not for --server and --client")
	case !slices.Contains([]string{matrix.Routed, matrix.Bridged, "both"}, f.path):
		return fmt.Errorf("--path %s: expected routed, bridged or both", f.path)
	case f.path == matrix.Bridged && c.Flags().Changed("device"):
		return errors.New("--device is what routes; --path bridged measures a bridge of the kernel")
	case f.seconds < 1 || f.seconds > 3600:
		return fmt.Errorf("--seconds %d: expected 1 to 3600", f.seconds)
	}
	if f.quick && !c.Flags().Changed("seconds") {
		f.seconds = quickCell
	}
	return nil
}

// devices returns what is measured, in order.
func (f *matrixFlags) devices() ([]device.Spec, error) {
	bridge := device.Spec{Kind: device.Bridge}
	if f.path == matrix.Bridged {
		return []device.Spec{bridge}, nil
	}
	router, err := device.Parse(f.device)
	switch {
	case err != nil:
		return nil, usageError{fmt.Errorf("--device: %w", err)}
	case router.Hops() == 0:
		return nil, usageError{fmt.Errorf("--device %s does not route: choose kernel or minne, or --path bridged", f.device)}
	case f.path == "both":
		return []device.Spec{router, bridge}, nil
	}
	return []device.Spec{router}, nil
}

// measure measures all networks that the flags name, one after the other.
func (f *matrixFlags) measure(ctx context.Context, s *session.Session) error {
	if f.client != "" {
		n, err := matrix.Remote(ctx, f.client)
		if err != nil {
			return err
		}
		return f.transfers(ctx, n, s)
	}
	specs, err := f.devices()
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	for _, spec := range specs {
		n, err := matrix.Build(ctx, spec, device.Means{Binary: binary, Load: kernel.BulkRoutes})
		if err != nil {
			return err
		}
		if err := f.transfers(ctx, n, s); err != nil {
			return err
		}
	}
	return nil
}

// transfers measures one network and closes it.
func (f *matrixFlags) transfers(ctx context.Context, n *matrix.Network, s *session.Session) (err error) {
	defer func() { err = errors.Join(err, n.Close()) }()
	facts, err := n.Facts(ctx)
	if err != nil {
		return err
	}
	var before []result.Matrix
	s.Update(func(r *result.Result) {
		r.AddDevice(facts)
		r.Tester = result.Tester{Topology: n.Topology(), Mode: "transfers between protocol stacks", Transmit: "iperf3", Receive: "iperf3"}
		before = slices.Clip(r.Matrix)
	})
	o := matrix.Options{Seconds: f.seconds, Quick: f.quick, Progress: s.Progress, Done: func(m result.Matrix) {
		s.Update(func(r *result.Result) { r.Matrix = append(before, m) })
		if c := m.Cells[len(m.Cells)-1]; c.Note != "" {
			s.Note(fmt.Sprintf("%s %s of %d bytes is measured with %s", c.Family, c.Protocol, c.Bytes, c.Note))
		}
	}}
	s.Step("transfers through %s, %s", facts.Name, n.Path)
	if _, err := n.Matrix(ctx, o); err != nil {
		return err
	}
	s.Step("round trips through %s, idle and full", facts.Name)
	answer, err := n.Responsiveness(ctx, o)
	if err != nil {
		return err
	}
	s.Update(func(r *result.Result) { r.Responsiveness = append(r.Responsiveness, answer) })
	return nil
}
