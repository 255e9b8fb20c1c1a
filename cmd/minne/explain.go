// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"minne/internal/base/pcap"
	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/model/packet"
)

// explainOptions are the flags of "minne explain".
type explainOptions struct {
	in, file string
	src, dst string
	probe    packet.Probe
	asJSON   bool
	verbose  bool
}

func newExplainCommand(a *app) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain",
		Short: "Show what happens to a packet, and why",
		Long: `Trace a packet that arrives on an interface, and print the decision of every stage: the
route, the source check, the next hop, the verdict. For packets that the fast path punts,
the command queries the kernel too. It runs the loaded program on the loaded tables, so the
answer is what happens to such a packet now. Nothing is sent and nothing is counted.

With --pcap it traces each packet of a capture, one line each (all stages with
--verbose). The frames must be as they arrive here: for this router's MAC address.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if o.file != "" {
				return a.explainCapture(c, client, o)
			}
			return a.explainPacket(c.Context(), client, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.in, "in", "", "`interface` that the packet arrives on: a port, or a VLAN on one")
	f.StringVar(&o.src, "src", "", "source `address`")
	f.StringVar(&o.dst, "dst", "", "destination `address`")
	f.StringVar(&o.probe.Protocol, "proto", "udp", "`protocol`: tcp, udp, icmp or a number")
	f.Uint16Var(&o.probe.SrcPort, "sport", 40000, "source `port` of TCP or UDP")
	f.Uint16Var(&o.probe.DstPort, "dport", 0, "destination `port` of TCP or UDP")
	f.Uint16Var(&o.probe.VLAN, "vlan", 0, "`id` of an 802.1Q tag in front, when --in is a port")
	f.Uint8Var(&o.probe.TTL, "ttl", 64, "TTL or hop `limit` on arrival")
	f.IntVar(&o.probe.Size, "size", 0, "size of the IP packet in `bytes` (default the smallest)")
	f.StringVar(&o.file, "pcap", "", "capture `file` (pcap or pcapng) with the packets, instead of the flags above")
	f.BoolVar(&o.verbose, "verbose", false, "with --pcap: all stages of each packet")
	f.BoolVar(&o.asJSON, "json", false, "print JSON: one object, or with --pcap one on each line")
	return c
}

func (a *app) explainPacket(ctx context.Context, client *api.Client, o explainOptions) error {
	if err := o.parse(); err != nil {
		return usageError{err}
	}
	answer, err := router.Explain.Ask(ctx, client, router.ExplainQuestion{Interface: o.in, Packet: &o.probe})
	if err != nil {
		return err
	}
	if len(answer.Packets) != 1 {
		return fmt.Errorf("the daemon explains %d packets, expected one", len(answer.Packets))
	}
	x := answer.Packets[0]
	if o.asJSON {
		return a.printJSON(x)
	}
	screen := a.screen()
	return errors.Join(show.Explain(screen, x), screen.Flush())
}

func (o *explainOptions) parse() (err error) {
	if o.in == "" || o.src == "" || o.dst == "" {
		return errors.New("expected --in, --src and --dst, or --in and --pcap")
	}
	if o.probe.Source, err = netip.ParseAddr(o.src); err != nil {
		return fmt.Errorf("--src %q: expected an address", o.src)
	}
	if o.probe.Destination, err = netip.ParseAddr(o.dst); err != nil {
		return fmt.Errorf("--dst %q: expected an address", o.dst)
	}
	_, err = o.probe.Frame(packet.MAC{}, nil) // says what is wrong before the daemon is asked
	return err
}

const (
	explainBatch      = 200  // frames in one question
	explainFrameLimit = 3400 // bytes: the kernel takes no larger frame in a test run
)

// explainCapture asks about each packet of a file, some at a time.
func (a *app) explainCapture(c *cobra.Command, client *api.Client, o explainOptions) error {
	for _, flag := range []string{"src", "dst", "proto", "sport", "dport", "vlan", "ttl", "size"} {
		if c.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--%s and --pcap: the packets are those of the file", flag)}
		}
	}
	if o.in == "" {
		return usageError{errors.New("--pcap: expected --in with the interface that the packets arrive by")}
	}
	file, err := os.Open(o.file)
	if err != nil {
		return err
	}
	defer file.Close()
	var batch [][]byte
	var numbers []int // in the file, of the frames in the batch
	read, cut, fates := 0, 0, map[string]int{}
	ask := func() error {
		if len(batch) == 0 {
			return nil
		}
		answer, err := router.Explain.Ask(c.Context(), client, router.ExplainQuestion{Interface: o.in, Frames: batch})
		if err != nil {
			return err
		}
		if len(answer.Packets) != len(batch) {
			return fmt.Errorf("the daemon explains %d packets, expected %d", len(answer.Packets), len(batch))
		}
		for i, x := range answer.Packets {
			fates[x.Verdict]++
			if err := a.printExplained(o, numbers[i], x); err != nil {
				return err
			}
		}
		batch, numbers = batch[:0], numbers[:0]
		return nil
	}
	err = pcap.Read(file, func(r pcap.Record) error {
		read++
		if r.Link != pcap.Ethernet || int(r.Wire) > len(r.Frame) || len(r.Frame) < packet.EthernetLen || len(r.Frame) > explainFrameLimit {
			cut++
			return nil
		}
		batch, numbers = append(batch, slices.Clone(r.Frame)), append(numbers, read)
		if len(batch) < explainBatch {
			return nil
		}
		return ask()
	})
	if err == nil {
		err = ask()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	if cut > 0 {
		fmt.Fprintf(a.err, "%d packets are left out: cut short by the capture, no Ethernet, or longer than %d bytes\n", cut, explainFrameLimit)
	}
	if !o.asJSON {
		fmt.Fprintf(a.out, "%d packets: %d forwarded, %d dropped, %d punted to the kernel\n", read-cut, fates["forwarded"], fates["dropped"], fates["punted"])
	}
	return nil
}

func (a *app) printExplained(o explainOptions, number int, x show.Explained) error {
	switch {
	case o.asJSON:
		return json.NewEncoder(a.out).Encode(x)
	case o.verbose:
		fmt.Fprintf(a.out, "%d  ", number)
		return show.Explain(a.out, x)
	}
	return show.ExplainLine(a.out, number, x)
}
