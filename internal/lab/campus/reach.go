// SPDX-License-Identifier: Apache-2.0

package campus

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"minne/internal/lab/iperf"
)

// Reach checks that hosts reach each other through the border: ping, traceroute.
func (c *Campus) Reach(ctx context.Context) error {
	c.report.Step("ping and traceroute from the campus")
	desk := c.Lab.Node("desk")
	targets := []struct {
		name   string
		v4, v6 netip.Addr
	}{
		{"a customer of ISP A", c.tables.hostA.host4.Addr(), c.tables.hostA.host6.Addr()},
		{"a customer of ISP B", c.tables.hostB.host4.Addr(), c.tables.hostB.host6.Addr()},
	}
	for _, t := range targets {
		for _, to := range []netip.Addr{t.v4, t.v6} {
			row := Row{Topic: "reachability", What: "ping " + t.name + ", " + familyName(familyOf(to)), Unit: "ok"}
			if out, err := desk.Run(ctx, "ping", "-n", "-c", "3", "-i", "0.2", "-W", c.seconds(2), to.String()); err != nil {
				row.Failed = to.String() + " does not answer"
			} else {
				row.Detail = pingTime(out)
			}
			c.report.Add(row)
		}
	}
	everywhere := c.destinations(20)
	row := Row{Topic: "reachability", What: fmt.Sprintf("addresses all over the Internet that answer, of %d", len(everywhere))}
	for _, to := range everywhere {
		if _, err := desk.Run(ctx, "ping", "-n", "-c", "2", "-i", "0.2", "-W", c.seconds(1), to.String()); err != nil {
			row.Failed += " " + to.String()
		} else {
			row.Value++
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if row.Failed != "" {
		row.Failed = "no answer from" + row.Failed
	}
	c.report.Add(row)
	c.traceroute(ctx, everywhere[0], []string{"203.0.113.129", "203.0.113.1", "198.51.100.1", everywhere[0].String()})
	v6 := everywhere[len(everywhere)-1]
	// The kernel sends ICMPv6 errors from an address that is on an interface.
	c.traceroute(ctx, v6, []string{"2001:db8:113:2::129", "2001:db8:113:1::1", "2001:db8:a::1", "2001:db8:a1::2"})
	return ctx.Err()
}

// seconds is how long a program waits for an answer that usually takes much less than n seconds.
func (c *Campus) seconds(n int) string {
	return fmt.Sprint(int(c.pace.wait(time.Duration(n) * time.Second).Seconds()))
}

// traceroute checks that the way to an address has exactly these hops: each decremented the TTL once.
func (c *Campus) traceroute(ctx context.Context, to netip.Addr, want []string) {
	row := Row{Topic: "reachability", What: "traceroute " + familyName(familyOf(to)) + " through core, border and ISP A", Unit: "ok"}
	out, err := c.Lab.Node("desk").Run(ctx, "traceroute", "-n", "-q", "1", "-w", c.seconds(2), "-m", "8", to.String())
	var hops []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] != "traceroute" {
			hops = append(hops, f[1])
		}
	}
	if err != nil {
		row.Failed = err.Error()
	} else if strings.Join(hops, " ") != strings.Join(want, " ") {
		row.Failed = fmt.Sprintf("hops %s, expected %s", strings.Join(hops, " "), strings.Join(want, " "))
	} else {
		row.Detail = fmt.Sprintf("%d hops", len(hops))
	}
	c.report.Add(row)
}

// pingTime returns the mean round trip that ping prints.
func pingTime(out string) string {
	if _, times, ok := strings.Cut(out, "min/avg/max/mdev = "); ok {
		if parts := strings.Split(times, "/"); len(parts) > 1 {
			return parts[1] + " ms"
		}
	}
	return ""
}

// Transfer moves bytes over TCP through the border for some seconds per family and direction.
func (c *Campus) Transfer(ctx context.Context, seconds int) error {
	c.report.Step("TCP through the router (iperf3)")
	a := c.tables.hostA
	for _, to := range []netip.Addr{a.host4.Addr(), a.host6.Addr()} {
		client := iperf.Client{From: c.Lab.Node("desk"), Server: to, Seconds: seconds, Grace: c.pace.wait(15 * time.Second)}
		for _, direction := range []string{"upload", "download"} {
			var args []string
			if direction == "download" {
				args = []string{"-R"}
			}
			row := Row{Topic: "transfer", What: "TCP " + direction + ", " + familyName(familyOf(to)), Unit: "Mbit/s"}
			done, err := client.Run(ctx, args...)
			row.Value = float64(int(done.BitRate / 1e6))
			switch {
			case err != nil:
				row.Failed = err.Error()
			case row.Value < 1:
				row.Failed = "nothing arrived"
			}
			c.report.Add(row)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
