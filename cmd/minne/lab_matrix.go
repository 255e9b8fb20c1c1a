// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/kernel"
	"minne/internal/lab/device"
	"minne/internal/lab/machine"
	"minne/internal/lab/matrix"
	"minne/internal/lab/result"
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
}

func newLabMatrixCommand(a *app) *cobra.Command {
	var f matrixFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "matrix",
		Short: "Measure TCP and UDP transfers of all packet sizes over IPv4 and IPv6",
		Long: `Measure what two hosts transfer through a device with iperf3: TCP and UDP, over
IPv4 and IPv6, with IP packets of 64, 128, 256, 512, 1024 and 1500 bytes; then
the round trips of small packets while TCP fills the device in both directions.
Hosts and device are namespaces of this machine; the device routes, bridges, or
both are measured one after the other. UDP is sent at the rate, found by trying,
at which most datagrams arrive.

A platform with a single port is measured as an end of the transfers: run
"minne lab matrix --server" on one machine and "minne lab matrix --client
ADDRESS" on the other. Ctrl-C keeps the cells that are done. Needs iperf3 and,
but for --server and --client, root.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return usageError{err}
			}
			if f.server {
				fmt.Fprintln(a.err, "Serving transfers on TCP and UDP port 5201 and echoes on UDP port 5202 until Ctrl-C.")
				return matrix.Serve(c.Context())
			}
			r := result.Result{Schema: result.Schema, Title: "TCP and UDP matrix", Started: time.Now(), Machine: machine.Read()}
			watch := machine.StartWatch()
			err := f.measure(c.Context(), a.err, &r)
			r.Ended, r.Machine.Steal, r.Notes = time.Now(), watch.Steal(), watch.Notes()
			if errors.Is(err, context.Canceled) {
				r.Partial, err = "interrupted by the user", errors.New("interrupted; the cells that were done are kept")
			}
			if len(r.Matrix) == 0 {
				return err
			}
			if asJSON {
				return errors.Join(a.printJSON(r), err)
			}
			return errors.Join(printMatrix(a.out, &r), err)
		},
	}
	c.Flags().StringVar(&f.path, "path", "routed", "`what` the device does: routed, bridged or both")
	c.Flags().StringVar(&f.device, "device", "kernel", "`device` that routes: "+device.Grammar)
	c.Flags().BoolVar(&f.server, "server", false, "be the receiving end for another machine's --client, until Ctrl-C")
	c.Flags().StringVar(&f.client, "client", "", "measure transfers from this machine to the --server at this `address`")
	c.Flags().IntVar(&f.seconds, "seconds", fullCell, "`seconds` of each transfer")
	c.Flags().BoolVar(&f.quick, "quick", false, "1 second for each transfer, and fewer tries of UDP rates")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
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

// measure adds what it measures to the result, also when it fails halfway.
func (f *matrixFlags) measure(ctx context.Context, progress io.Writer, r *result.Result) error {
	say := func(text string, left time.Duration) {
		fmt.Fprintf(progress, "%s (about %s left)\n", text, left.Round(time.Second))
	}
	if f.client != "" {
		n, err := matrix.Remote(ctx, f.client)
		if err != nil {
			return err
		}
		return f.transfers(ctx, n, say, r)
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
		if err := f.transfers(ctx, n, say, r); err != nil {
			return err
		}
	}
	return nil
}

// transfers measures one network and closes it.
func (f *matrixFlags) transfers(ctx context.Context, n *matrix.Network, say func(string, time.Duration), r *result.Result) (err error) {
	defer func() { err = errors.Join(err, n.Close()) }()
	facts, err := n.Facts(ctx)
	if err != nil {
		return err
	}
	r.Devices = append(r.Devices, facts)
	o := matrix.Options{Seconds: f.seconds, Quick: f.quick, Progress: say}
	m, err := n.Matrix(ctx, o)
	if len(m.Cells) > 0 {
		r.Matrix = append(r.Matrix, m)
	}
	if err != nil {
		return err
	}
	answer, err := n.Responsiveness(ctx, o)
	if err != nil {
		return err
	}
	r.Responsiveness = append(r.Responsiveness, answer)
	return nil
}

func printMatrix(out io.Writer, r *result.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, m := range r.Matrix {
		fmt.Fprintf(out, "%s, %s\n", m.Device, m.Path)
		fmt.Fprintln(w, "family\tprotocol\tbytes\tpayload\tMbit/s\tkpps\tloss\tretransmits\tCPU\t ")
		for _, c := range m.Cells {
			if c.Failed != "" {
				fmt.Fprintf(w, "%s\t%s\t%d\t\t–\t\t\t\t\t %s\n", c.Family, c.Protocol, c.Bytes, c.Failed)
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.1f\t%.1f\t%.2f %%\t%d\t%.0f %%\t %s\n", c.Family, c.Protocol, c.Bytes, c.Payload,
				c.BitRate/1e6, c.Packets/1e3, c.Loss*100, c.Retransmits, c.CPUPercent, c.Note)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	for _, p := range r.Responsiveness {
		fmt.Fprintf(out, "%s: round trips of small packets, median %.0f µs idle; while TCP moves %.0f Mbit/s both ways median %.0f µs, 99 %% within %.0f µs, %.1f %% lost: %.0f round trips a minute\n",
			p.Device, us(p.Idle.P50), p.BitRate/1e6, us(p.Loaded.P50), us(p.Loaded.P99), p.Loaded.Loss*100, p.RPM)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(out, note)
	}
	if r.Partial != "" {
		fmt.Fprintf(out, "Not complete: %s.\n", r.Partial)
	}
	return nil
}

// us is a time in microseconds.
func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
