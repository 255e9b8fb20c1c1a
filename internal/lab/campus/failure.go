// SPDX-License-Identifier: Apache-2.0

package campus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"minne/internal/lab"
	"minne/internal/lab/traffic"
)

const (
	probeDestinations = 20
	restartStream     = 1
	steady            = time.Second // how long traffic must flow without a loss to count as flowing
)

// FailISP makes ISP A fail in the nastiest way, silently: its ports stay up but
// it drops everything. Measured is what is lost from the campus to the world
// until everything flows through ISP B.
func (c *Campus) FailISP(ctx context.Context) error {
	c.report.Step("ISP A fails silently (link up, all packets dropped) under %d packets/s", c.pace.probeRate)
	probe, err := lab.StartProbe(c.Lab.Node("desk"), c.Lab.Node("world"), c.destinations(probeDestinations), c.pace.probeRate, c.pace.underway)
	if err != nil {
		return err
	}
	flowing := func(what string, most time.Duration) error {
		return lab.Until(ctx, c.pace.wait(most), what, func() error { return probe.Flowing(steady) })
	}
	if err := flowing("traffic to flow through ISP A", 20*time.Second); err != nil {
		probe.Stop()
		return err
	}
	if _, err := c.Lab.Node("isp-a").Run(ctx, "nft", "table inet failure { chain in { type filter hook prerouting priority raw; drop; }; chain out { type filter hook output priority raw; drop; }; }"); err != nil {
		probe.Stop()
		return err
	}
	sleep(ctx, steady+c.pace.underway+400*time.Millisecond) // from now on the last second is one of the failure
	err = flowing("traffic to flow through ISP B", 90*time.Second)
	outage := probe.Stop()
	row := Row{Topic: "ISP A fails", What: fmt.Sprintf("packets lost at %d packets/s until all flowed through ISP B", c.pace.probeRate), Value: float64(outage.Lost),
		Detail: fmt.Sprintf("of %d, %d of %d destinations", outage.Sent, outage.Hit, outage.Destinations)}
	if ctx.Err() == nil && err != nil {
		row.Failed = err.Error()
	}
	c.report.Add(row)
	c.report.Add(Row{Topic: "ISP A fails", What: "outage of a destination, median", Value: outage.Median, Unit: "s"})
	c.report.Add(Row{Topic: "ISP A fails", What: "outage of a destination, longest", Value: outage.Longest, Unit: "s"})
	return ctx.Err()
}

// RestartDaemon kills the border's daemon under traffic and starts it again.
// No packet may be lost.
func (c *Campus) RestartDaemon(ctx context.Context) error {
	c.report.Step("the daemon is killed (SIGKILL) under %s packets/s and started again", number(c.pace.restartRate))
	stop, err := c.startStream(ctx)
	if err != nil {
		return err
	}
	before, err := c.Lab.Node("border").KernelForwarded(false)
	if err != nil {
		return errors.Join(err, discard(stop()))
	}
	sleep(ctx, 1500*time.Millisecond)
	was := c.Border.Pid()
	c.Border.KillDaemon()
	sleep(ctx, 1500*time.Millisecond)
	begun := time.Now()
	startErr := c.Border.StartDaemon(ctx)
	answers := time.Since(begun)
	sleep(ctx, 5*time.Second)
	sent, err := stop()
	if err = errors.Join(err, startErr); err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, c.Border.Log(10))
	}
	arrived, err := c.sink.Arrived(restartStream)
	if err != nil {
		return err
	}
	row := Row{Topic: "restart", What: "packets lost while the daemon was killed and restarted", Value: float64(arrived.Lost(sent.Frames)),
		Detail: fmt.Sprintf("of %s at %s/s; daemon %d answered again %.2f s after its start", number(float64(sent.Frames)),
			number(float64(sent.Frames)/sent.Elapsed.Seconds()), was, answers.Seconds())}
	switch is := c.Border.Pid(); {
	case row.Value != 0:
		row.Failed = "expected 0"
	case is == 0 || is == was:
		row.Failed = fmt.Sprintf("the daemon was process %d before and is %d now: it was not killed", was, is)
	}
	c.report.Add(row)
	c.report.Add(Row{Topic: "restart", What: "packets forwarded with right TTL and checksum", Value: float64(arrived.Received), Failed: arrived.Wrong()})
	after, err := c.Lab.Node("border").KernelForwarded(false)
	if err != nil {
		return err
	}
	row = Row{Topic: "restart", What: "of these forwarded by the kernel", Value: float64(after - before)}
	if after-before > arrived.Received/100 {
		row.Failed = "expected that the fast path forwards all along"
	}
	c.report.Add(row)
	return ctx.Err()
}

// discard drops what a stream sent.
func discard(_ traffic.Sent, err error) error { return err }

// startStream sends the restart's stream from core through the border; stop ends it.
func (c *Campus) startStream(ctx context.Context) (stop func() (traffic.Sent, error), err error) {
	generator, err := traffic.NewGenerator()
	if err != nil {
		return nil, err
	}
	if err := generator.SetDestinations(ipv4Only(c.destinations(2000))); err != nil {
		return nil, err
	}
	core := c.Lab.Node("core")
	out, from, err := core.Port("border")
	if err != nil {
		return nil, err
	}
	_, to, err := c.Lab.Node("border").Port("core")
	if err != nil {
		return nil, err
	}
	if err := c.sink.Expect(restartStream, traffic.Expect{TTL: 62}); err != nil {
		return nil, err
	}
	s := traffic.Stream{ID: restartStream, Port: out, From: from, To: to, Source: desk4, TTL: 63, Frames: 1 << 40, Rate: c.pace.restartRate}
	sending, cancel := context.WithTimeout(ctx, c.pace.wait(time.Minute))
	var sent traffic.Sent
	done := make(chan error, 1)
	go func() {
		done <- core.Do(func() (err error) { sent, err = generator.Send(sending, s); return err })
	}()
	return func() (traffic.Sent, error) {
		cancel()
		err := <-done
		time.Sleep(c.pace.underway)
		return sent, errors.Join(err, generator.Close())
	}, nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
