// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/base/pcap"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
)

// captureOptions are the flags of "minne capture".
type captureOptions struct {
	hosts  []string
	nets   []string
	count  int
	time   time.Duration
	file   string
	filter fastpath.CaptureFilter
}

func newCaptureCommand(a *app) *cobra.Command {
	var o captureOptions
	c := &cobra.Command{
		Use:   "capture",
		Short: "Capture packets of the fast path, with their verdicts",
		Long: `Capture packets in the fast path with their verdicts: one line each, or a pcapng file
(-w) in which every packet has its verdict and reason as a comment. tcpdump on the
router does not see these packets, because they never reach the kernel's network stack.
"-w -" writes to the standard output:

  minne capture -w - | tcpdump -n -r -

A packet is shown as it arrived, with its ingress port; with --sent, a forwarded packet
also as it left. Filters are combined: all must match. A capture slows captured packets
down; without one there is no cost. Packets that did not fit into the buffer are counted
and reported. Ctrl-C ends the capture. Only one can run at a time, and only root may
run it: it shows what users send.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.parse(); err != nil {
				return usageError{err}
			}
			return a.capture(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.filter.Interface, "in", "", "only packets that arrived on this `interface`, a port or a VLAN")
	f.StringArrayVar(&o.hosts, "host", nil, "only packets from or to this `address`; twice for packets between two")
	f.StringArrayVar(&o.nets, "net", nil, "only packets from or to this `prefix`; twice for packets between two")
	f.Uint16Var(&o.filter.Port, "port", 0, "only TCP and UDP from or to this `port`")
	f.StringVar(&o.filter.Verdict, "verdict", "", "only packets with this `verdict`: forwarded, dropped or punted (passed to the kernel)")
	f.StringVar(&o.filter.Reason, "reason", "", "only packets dropped or punted for this `reason`, named as in minne show drops")
	f.StringVar(&o.filter.Rule, "rule", "", "only packets that matched this `rule` in the fast path: its number or name in minne show firewall, or default")
	f.IntVar(&o.count, "count", 0, "stop after this `number` of packets")
	f.DurationVar(&o.time, "time", 0, "stop after this `time`, such as 30s")
	f.IntVar(&o.filter.Every, "sample", 1, "capture only every `N`-th matching packet")
	f.IntVar(&o.filter.Snaplen, "snaplen", fastpath.MaxSnaplen, "copy only this many `bytes` of each packet")
	f.BoolVar(&o.filter.Sent, "sent", false, "show forwarded packets also as they left")
	f.StringVarP(&o.file, "write", "w", "", "write pcapng to this `file`, or to the standard output with -")
	return c
}

func (o *captureOptions) parse() error {
	for _, text := range o.hosts {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return fmt.Errorf("--host %q: expected an address", text)
		}
		o.filter.Prefixes = append(o.filter.Prefixes, netip.PrefixFrom(addr, addr.BitLen()))
	}
	for _, text := range o.nets {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--net %q: expected a prefix as 192.0.2.0/24", text)
		}
		o.filter.Prefixes = append(o.filter.Prefixes, prefix)
	}
	switch {
	case o.count < 0:
		return fmt.Errorf("--count %d: expected a number from 1", o.count)
	case o.time < 0:
		return fmt.Errorf("--time %v: expected a time such as 30s", o.time)
	case o.filter.Every < 1:
		return fmt.Errorf("--sample %d: expected a number from 1", o.filter.Every)
	case o.filter.Reason != "" && o.filter.Verdict == fastpath.VerdictForwarded:
		return errors.New("--reason: forwarded packets have none")
	}
	return o.filter.Check()
}

// capture runs until the context ends, or enough packets are there.
func (a *app) capture(ctx context.Context, o captureOptions) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	ctx, over := context.WithCancel(ctx)
	defer over()
	hearing, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	defer context.AfterFunc(ctx, func() { endCapture(client, hangUp) })()
	t := &taking{app: a, options: o, over: over}
	err = router.Capture.Follow(hearing, client, o.filter, func(e router.CaptureEvent) error { return t.event(client, hangUp, e) })
	return errors.Join(err, t.finish())
}

// endCapture asks the daemon for the rest, and hangs up on one that does not answer.
func endCapture(client *api.Client, hangUp func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := router.EndCapture.Ask(ctx, client, api.Empty{}); err != nil {
		hangUp()
	}
}

// taking is a capture as it comes.
type taking struct {
	app     *app
	options captureOptions
	over    func() // ends the capture
	sink    *captureSink
	written int  // packets, without those as they left
	full    bool // enough of them are there
	end     *router.CaptureEnd
}

func (t *taking) event(client *api.Client, hangUp func(), e router.CaptureEvent) (err error) {
	switch {
	case e.Started:
		t.sink, err = t.app.openSink(t.options)
		if t.options.time > 0 { // counted from here: to load the program takes a while on a busy machine
			time.AfterFunc(t.options.time, t.over)
		}
		fmt.Fprintln(t.app.err, "capturing; Ctrl-C ends it")
	case e.Packet != nil && !t.full:
		err = t.packet(*e.Packet)
		if t.full {
			go endCapture(client, hangUp)
		}
	case e.End != nil:
		t.end = e.End
	}
	return err
}

func (t *taking) packet(p fastpath.CapturedPacket) error {
	if count := t.options.count; count > 0 {
		if t.written == count && !p.Sent {
			return nil // the last one as it left is still to come
		}
		defer func() {
			t.full = t.written == count && (p.Sent || !t.options.filter.Sent || p.Verdict != fastpath.VerdictForwarded)
		}()
	}
	if !p.Sent {
		t.written++
	}
	return t.sink.packet(p)
}

// finish completes what was written, and says how it went.
func (t *taking) finish() error {
	if t.sink == nil {
		return nil
	}
	if t.end == nil {
		t.end = &router.CaptureEnd{Why: "the daemon is gone"}
	}
	if err := t.sink.finish(t.end.CaptureCounts); err != nil {
		return err
	}
	fmt.Fprintf(t.app.err, "%d packets captured, %d matched, %d lost (buffer full)\n", t.written, t.end.Matched, t.end.Lost)
	if t.end.Why != "" {
		return fmt.Errorf("the capture ended early: %s", t.end.Why)
	}
	return nil
}

// captureSink is where packets go: lines of text, or a file.
type captureSink struct {
	file   *os.File // to close; nil for the standard output
	buffer *bufio.Writer
	pcap   *pcap.Writer // nil for lines
}

func (a *app) openSink(o captureOptions) (*captureSink, error) {
	s := &captureSink{}
	var out io.Writer = a.out
	switch o.file {
	case "", "-":
	default:
		var err error
		if s.file, err = os.OpenFile(o.file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
			return nil, err
		}
		out = s.file
	}
	s.buffer = bufio.NewWriterSize(out, 1<<16)
	if o.file == "" {
		return s, nil
	}
	var err error
	if s.pcap, err = pcap.NewWriter(s.buffer, "minne "+version(), o.filter.Snaplen); err != nil {
		return nil, err
	}
	return s, s.flush()
}

// flush hands on what is complete, if it goes to somebody who waits for it.
func (s *captureSink) flush() error {
	if s.file != nil {
		return nil
	}
	return s.buffer.Flush()
}

func (s *captureSink) packet(p fastpath.CapturedPacket) error {
	comment := captureComment(p)
	if s.pcap == nil {
		mark := ""
		if p.Sent {
			mark = "as it left: "
		}
		fmt.Fprintf(s.buffer, "%s %s%s, %s\n", p.Time.Format("15:04:05.000000"), mark, packet.Summarize(p.Frame), comment)
		return s.flush()
	}
	k := pcap.Packet{Interface: p.Port, Time: p.Time, Direction: pcap.Inbound, Frame: p.Frame, Wire: p.Length, Comment: comment}
	if p.Sent {
		k.Direction = pcap.Outbound
		if p.Egress != "" {
			k.Interface = p.Egress
		}
	}
	if err := s.pcap.Write(k); err != nil {
		return err
	}
	return s.flush()
}

// captureComment says what became of a packet.
func captureComment(p fastpath.CapturedPacket) string {
	text := fmt.Sprintf("in %s: %s", p.Port, p.Verdict)
	switch {
	case p.Verdict != fastpath.VerdictForwarded:
		text += fmt.Sprintf(" (%s: %s)", p.Reason, p.Text)
	case p.Egress != "":
		text += " by " + p.Egress
	}
	if p.Rule != "" {
		text += ", " + p.Rule
	}
	return text
}

// finish completes what was written.
func (s *captureSink) finish(c fastpath.CaptureCounts) error {
	var failed error
	if s.pcap != nil {
		failed = s.pcap.Finish(time.Now(), c.Matched, c.Lost)
	}
	failed = errors.Join(failed, s.buffer.Flush())
	if s.file != nil {
		failed = errors.Join(failed, s.file.Close())
	}
	return failed
}
