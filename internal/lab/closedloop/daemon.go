// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/statistics"
	"minne/internal/lab/traffic"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath"
)

// DaemonRow is one figure about the daemon.
type DaemonRow struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Bar    float64 `json:"bar"`
	AtMost bool    `json:"at_most"` // the bar is a ceiling, else a floor
	Met    bool    `json:"met"`
	Detail string  `json:"detail,omitempty"`
}

// DaemonResult is what `minne bench daemon` found.
type DaemonResult struct {
	Rows []DaemonRow `json:"rows"`
}

func (r *DaemonResult) add(row DaemonRow) {
	row.Met = row.Value >= row.Bar
	if row.AtMost {
		row.Met = row.Value <= row.Bar
	}
	r.Rows = append(r.Rows, row)
}

// DaemonOptions say what to measure with.
type DaemonOptions struct {
	Binary   string // the minne command
	Table    []netip.Prefix
	Load     device.Loader
	Progress io.Writer
}

const (
	fewRoutes   = 10
	changes     = 200_000 // routes changed at once
	oneByOne    = 60      // single changes whose latency is measured
	latencyRate = 200_000 // packets per second that look for a change: 5 µs apart
	idleTime    = 20 * time.Second
	restartRate = 100_000
)

// Daemon measures what the daemon costs and how fast it keeps the fast path's
// tables equal to the kernel's, as packets and the kernel's accounting see it.
func Daemon(ctx context.Context, o DaemonOptions) (*DaemonResult, error) {
	rig, err := NewRig(ctx, device.Means{Binary: o.Binary, Load: o.Load}, Place{Name: routerPlace, Device: device.Spec{Kind: device.Minne}})
	if err != nil {
		return nil, err
	}
	defer rig.Close()
	d := rig.Device(routerPlace)
	r := &routed{Rig: rig, device: d, minne: d.Router(), fast: rig.Path(routerPlace), put: o.Load}
	result := &DaemonResult{}
	for _, step := range []struct {
		what string
		do   func(context.Context, DaemonOptions, *DaemonResult) error
	}{
		{"memory with few routes", r.measureSmall},
		{"full table into the fast path", r.measureFirstTable},
		{"many route changes", r.measureChanges},
		{"single route changes", r.measureLatency},
		{"idle with the full table", r.measureIdle},
		{"killed and restarted under traffic", r.measureRestart},
	} {
		fmt.Fprintln(o.Progress, step.what)
		if err := step.do(ctx, o, result); err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return result, nil
}

// routed is a rig with a Minne router in it.
type routed struct {
	*Rig
	device *device.Device
	minne  *lab.Minne
	fast   *Path
	many   [2]*Load // to destinations all over the table, IPv4 and IPv6
	put    device.Loader
}

const (
	routerPlace = "router"
	outPort     = 1 // of the device's ports, the one to the sink
)

func (r *routed) measureSmall(ctx context.Context, o DaemonOptions, result *DaemonResult) error {
	if err := r.device.Install(ctx, outPort, o.Table[:fewRoutes]); err != nil {
		return err
	}
	if err := lab.Pause(ctx, 5*time.Second); err != nil {
		return err
	}
	rss, peak, err := memory(r.minne.Pid())
	result.add(DaemonRow{Name: "rss-10-routes", Value: rss, Unit: "MB", Bar: 40, AtMost: true, Detail: fmt.Sprintf("peak %.0f MB", peak)})
	return err
}

// measureFirstTable has a fresh daemon find the full table in the kernel.
func (r *routed) measureFirstTable(ctx context.Context, o DaemonOptions, result *DaemonResult) error {
	r.minne.KillDaemon()
	if _, err := r.minne.Command(ctx, "fast-path", "off"); err != nil {
		return err
	}
	if err := r.device.Install(ctx, outPort, o.Table[fewRoutes:]); err != nil {
		return err
	}
	begun := time.Now()
	if err := r.minne.StartDaemon(ctx); err != nil {
		return err
	}
	var fast fastpath.Observed
	err := lab.Until(ctx, time.Minute, "the table in the fast path", func() error {
		if err := r.minne.JSON(ctx, &fast, "show", "fast-path"); err != nil {
			return err
		}
		n := 0
		for _, t := range fast.Tables {
			n += t.Prefixes
		}
		if !fast.Ready || n < len(o.Table) {
			return fmt.Errorf("%d of %d prefixes", n, len(o.Table))
		}
		return nil
	})
	took := time.Since(begun)
	if err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, r.minne.Log(10))
	}
	// What it says must be so for packets.
	for i, ipv6 := range []bool{false, true} {
		if _, r.many[i], err = r.tableLoads(ctx, o.Table, ipv6); err != nil {
			return err
		}
	}
	result.add(DaemonRow{Name: "first-full-table", Value: took.Seconds(), Unit: "s", Bar: 6, AtMost: true,
		Detail: fmt.Sprintf("from the daemon's start; reading and compiling %.2f s, of that compiling %.2f s", fast.Updates.Sync.Seconds(), fast.Updates.Fill.Seconds())})
	rss, peak, err := memory(r.minne.Pid())
	result.add(DaemonRow{Name: "rss-full-table", Value: rss, Unit: "MB", Bar: 500, AtMost: true, Detail: fmt.Sprintf("peak %.0f MB", peak)})
	return err
}

// measureChanges moves many routes to other next hops at once. The figure
// contains the kernel's own work.
func (r *routed) measureChanges(ctx context.Context, o DaemonOptions, result *DaemonResult) error {
	leaves := withoutLonger(o.Table, changes)
	routes, err := r.device.Table(outPort, leaves)
	if err != nil {
		return err
	}
	// The last one changed is the first destination; afterwards all are looked at.
	destinations := make([]netip.Addr, len(leaves))
	for i, p := range leaves {
		destinations[len(leaves)-1-i] = p.Addr().Next()
	}
	all, err := r.LoadTo(destinations)
	if err != nil {
		return err
	}
	const rounds = 5
	var rates, kernel []float64
	for hop := range rounds {
		for i := range routes {
			routes[i].Hops = []rib.Hop{{Gateway: NextHop(hop, false), Interface: routes[i].Hops[0].Interface, Weight: 1}}
		}
		begun := time.Now()
		if err := r.device.Change(ctx, routes); err != nil {
			return err
		}
		kernel = append(kernel, float64(len(routes))/time.Since(begun).Seconds())
		if err := r.awaitVia(ctx, all, hop, 1); err != nil {
			return err
		}
		rates = append(rates, float64(len(routes))/time.Since(begun).Seconds())
		if err := r.awaitVia(ctx, all, hop, len(destinations)); err != nil {
			return err
		}
	}
	result.add(DaemonRow{Name: "route-changes", Value: statistics.Median(rates), Unit: "1/s", Bar: 200_000,
		Detail: fmt.Sprintf("%d at once, from the first in the kernel to the last visible to packets; the kernel alone takes %.0f/s", len(routes), statistics.Median(kernel))})
	return nil
}

// awaitVia waits until the first packets of a load leave through a next hop.
func (r *routed) awaitVia(ctx context.Context, load *Load, hop, frames int) error {
	return lab.Until(ctx, time.Minute, "the change to reach packets", func() error {
		wrong, err := r.fast.TryVia(ctx, load, hop, frames)
		if err == nil && wrong > 0 {
			return fmt.Errorf("%d of %d packets take the old path", wrong, frames)
		}
		return err
	})
}

// measureLatency changes one route at a time under a stream of packets to it. The packets
// that still went the old way after the kernel had been asked for the change tell
// for how long it was not visible, the kernel's own time included.
func (r *routed) measureLatency(ctx context.Context, o DaemonOptions, result *DaemonResult) error {
	leaf := withoutLonger(o.Table, 1)
	load, err := r.LoadTo([]netip.Addr{leaf[0].Addr().Next()})
	if err != nil {
		return err
	}
	routes, err := r.device.Table(outPort, leaf)
	if err != nil {
		return err
	}
	var late []float64
	for i := range oneByOne {
		hop := 20 + i%2
		routes[0].Hops[0].Gateway = NextHop(hop, false)
		ms, err := r.changeUnderTraffic(ctx, load, routes, hop)
		if err != nil {
			return err
		}
		late = append(late, ms)
	}
	slices.Sort(late)
	result.add(DaemonRow{Name: "one-change-visible", Value: statistics.Median(late), Unit: "ms", Bar: 5, AtMost: true,
		Detail: fmt.Sprintf("from the request to the kernel; median of %d, 95 %% within %.2f ms, longest %.2f ms", len(late), late[len(late)*95/100], late[len(late)-1])})
	return nil
}

func (r *routed) changeUnderTraffic(ctx context.Context, load *Load, routes []rib.Route, hop int) (ms float64, err error) {
	o := traffic.Order{Frames: 5 * latencyRate, Rate: latencyRate} // at most; it is ended when the change was seen
	if err := r.fast.expect(load, false, hopMAC(r.fast.sink, hop), 6); err != nil {
		return 0, err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var trial Trial
	done := make(chan error, 1)
	go func() {
		var err error
		trial, err = r.fast.send(sending, load, o)
		done <- err
	}()
	arrived := func() (a traffic.Arrived) {
		if err == nil {
			a, err = r.arrived(load)
		}
		return a
	}
	for begun := time.Now(); err == nil && arrived().Received < latencyRate/200 && time.Since(begun) < 5*time.Second; {
		time.Sleep(time.Millisecond)
	}
	var then traffic.Arrived // just before the kernel was asked for the change
	changed := r.device.Node().Do(func() error {
		then = arrived()
		return r.put(ctx, routes)
	})
	err = errors.Join(err, changed)
	for last := then; err == nil; {
		time.Sleep(5 * time.Millisecond)
		if now := arrived(); now.Received > last.Received && now.BadMAC == last.BadMAC || now.Received == o.Frames {
			break
		} else {
			last = now
		}
	}
	stop()
	if sendErr := <-done; err == nil && !errors.Is(sendErr, context.Canceled) {
		err = sendErr
	}
	if err == nil && trial.Arrived.Received-trial.Arrived.BadMAC == 0 {
		err = fmt.Errorf("a changed route was not visible within %d packets", trial.Arrived.Received-then.Received)
	}
	old := trial.Arrived.BadMAC - then.BadMAC
	return float64(old) * trial.Sent.Elapsed.Seconds() * 1e3 / float64(trial.Sent.Frames), err
}

func (r *routed) measureIdle(ctx context.Context, _ DaemonOptions, result *DaemonResult) error {
	if err := lab.Pause(ctx, 3*time.Second); err != nil {
		return err
	}
	cpu, switches, err := effort(r.minne.Pid())
	if err != nil {
		return err
	}
	if err := lab.Pause(ctx, idleTime); err != nil {
		return err
	}
	cpuAfter, switchesAfter, err := effort(r.minne.Pid())
	result.add(DaemonRow{Name: "idle-cpu", Value: 100 * (cpuAfter - cpu).Seconds() / idleTime.Seconds(), Unit: "% of a core", Bar: 0.1, AtMost: true,
		Detail: fmt.Sprintf("over %s, full table; %.1f wakeups/s of all threads", idleTime, float64(switchesAfter-switches)/idleTime.Seconds())})
	return err
}

func (r *routed) measureRestart(ctx context.Context, _ DaemonOptions, result *DaemonResult) error {
	o := traffic.Order{Frames: 10 * restartRate, Rate: restartRate}
	var trial Trial
	done := make(chan error, 1)
	go func() {
		var err error
		trial, err = r.fast.run(ctx, r.many[0], o, r.fast.sink, 5)
		done <- err
	}()
	time.Sleep(time.Second)
	r.minne.KillDaemon()
	time.Sleep(time.Second)
	startErr := r.minne.StartDaemon(ctx)
	if err := errors.Join(<-done, startErr); err != nil {
		return err
	}
	if wrong := trial.Arrived.Wrong(); wrong != "" {
		return errors.New(wrong)
	}
	result.add(DaemonRow{Name: "restart-loss", Value: float64(trial.Lost), Unit: "packets", Bar: 0, AtMost: true,
		Detail: fmt.Sprintf("of %d at %.0f/s, SIGKILL and restart with the full table", trial.Sent.Frames, float64(trial.Sent.Frames)/trial.Sent.Elapsed.Seconds())})
	return nil
}

// withoutLonger returns n IPv4 /24s of the table that have no longer prefix inside.
func withoutLonger(table []netip.Prefix, n int) (out []netip.Prefix) {
	divided := map[netip.Prefix]bool{}
	for _, p := range table {
		if p.Addr().Is4() && p.Bits() > 24 {
			around, _ := p.Addr().Prefix(24) // 24 is a length of IPv4
			divided[around] = true
		}
	}
	for _, p := range table {
		if p.Addr().Is4() && p.Bits() == 24 && !divided[p] && len(out) < n {
			out = append(out, p)
		}
	}
	return out
}

// memory returns the resident memory of a process and its peak, in MB.
func memory(pid int) (now, peak float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		for key, value := range map[string]*float64{"VmRSS:": &now, "VmHWM:": &peak} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				fmt.Sscan(rest, value) //nolint:errcheck // a missing figure shows as 0
				*value = *value * 1024 / 1e6
			}
		}
	}
	return now, peak, nil
}

// effort returns the CPU time of all threads of a process and how often they went to sleep.
func effort(pid int) (cpu time.Duration, sleeps uint64, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		return 0, 0, fmt.Errorf("process %d is gone", pid)
	}
	for _, task := range tasks {
		var ns, n uint64
		if text, err := os.ReadFile(task + "/schedstat"); err == nil { // a thread may have ended
			fmt.Sscan(string(text), &ns) //nolint:errcheck // of the kernel's own making
		}
		cpu += time.Duration(ns)
		text, _ := os.ReadFile(task + "/status")
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				fmt.Sscan(rest, &n) //nolint:errcheck
				sleeps += n
			}
		}
	}
	return cpu, sleeps, nil
}

// WriteTable prints the result for people.
func (r *DaemonResult) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.Rows {
		sign, mark := "≥", "✓"
		if row.AtMost {
			sign = "≤"
		}
		if !row.Met {
			mark = "✗"
		}
		fmt.Fprintf(t, "%s\t%.5g %s\t%s %g %s\t%s\n", row.Name, row.Value, row.Unit, sign, row.Bar, mark, row.Detail)
	}
	return t.Flush()
}
