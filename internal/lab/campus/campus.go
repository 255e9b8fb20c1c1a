// SPDX-License-Identifier: Apache-2.0

package campus

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/lab/traffic"
	"minne/internal/subsystem/fastpath"
)

// Campus is the network once it is built.
type Campus struct {
	Lab    *lab.Lab
	Border *lab.Minne

	pace    pace
	tables  tables
	report  *Report
	sink    *traffic.Sink // on both ISPs' ports to the border
	applied time.Time     // when the border got its configuration
	told    time.Time     // last progress of loading
}

// Options say what the campus is made of.
type Options struct {
	Binary string         // the minne command
	Table  []netip.Prefix // split between the ISPs
	Image  string         // file of the router's disk image, which the border router boots in QEMU; "" for a namespace of this host
}

// Build makes the network, starts the other routers, and the border router's
// daemon without any configuration yet. The caller closes the campus.
func Build(ctx context.Context, o Options, report *Report) (*Campus, error) {
	t, err := share(o.Table)
	if err != nil {
		return nil, err
	}
	c := &Campus{pace: native, tables: t, report: report}
	if o.Image == "" {
		report.Step("building 8 namespaces")
	} else {
		c.pace = emulated
		report.Step("building 8 namespaces; the border router boots its image in QEMU")
	}
	if c.Lab, err = lab.Start(ctx, topology(t, o.Image)); err != nil {
		return nil, err
	}
	if err := c.start(ctx, o.Binary); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Campus) start(ctx context.Context, binary string) error {
	if err := c.acceptRedirects(); err != nil {
		return err
	}
	c.report.Step("starting BIRD in isp-a (%s prefixes), isp-b (%s), world and core", number(float64(len(c.tables.a))), number(float64(len(c.tables.b))))
	var started sync.WaitGroup
	failures := make(chan error, 8)
	for node, bird := range birds(c.tables, c.pace) {
		started.Go(func() {
			_, err := c.Lab.Node(node).StartBIRD(ctx, bird)
			failures <- err
		})
	}
	started.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	for _, node := range []string{"world", "host-a", "host-b"} {
		if _, err := c.Lab.Node(node).Start("iperf3", "iperf3", "-s"); err != nil {
			return err
		}
	}
	var err error
	c.Border, err = c.Lab.Node("border").Minne(binary, c.BorderConfig(""), borderSecrets)
	if err != nil {
		return err
	}
	c.report.Step("starting the daemon of the border router")
	return c.Border.StartDaemon(ctx)
}

// acceptRedirects puts a program on every port at the other end of a cable from the border: see lab.AcceptRedirects.
func (c *Campus) acceptRedirects() (err error) {
	if c.sink, err = traffic.NewSink(); err != nil {
		return err
	}
	for _, isp := range []string{"isp-a", "isp-b"} {
		node := c.Lab.Node(isp)
		index, _, err := node.Port("border")
		if err != nil {
			return err
		}
		if err := node.Do(func() error { return c.sink.Attach(index) }); err != nil {
			return err
		}
	}
	if err := c.Lab.Node("core").AcceptRedirects("border"); err != nil {
		return err
	}
	// The generator redirects into this one also while the fast path has no program there.
	return c.Lab.Node("border").Do(exec.Command("ethtool", "-K", "core", "gro", "on").Run)
}

// Close removes the campus.
func (c *Campus) Close() error {
	if c.sink != nil {
		c.sink.Close()
	}
	return c.Lab.Close()
}

// Apply gives the border router its configuration.
func (c *Campus) Apply(ctx context.Context) error {
	c.report.Step("minne apply campus.yaml")
	c.applied = time.Now()
	_, err := c.Border.Command(ctx, "apply", c.Border.Config)
	if err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, c.Border.Log(10))
	}
	c.report.Add(Row{Topic: "router", What: "configuration applied", Value: time.Since(c.applied).Seconds(), Unit: "s"})
	return nil
}

// session is a neighbourhood as the other side sees it.
type session struct{ node, protocol, up string }

var sessions = []session{
	{"isp-a", "border4", "Established"}, {"isp-a", "border6", "Established"},
	{"isp-b", "border4", "Established"}, {"isp-b", "border6", "Established"},
	{"core", "ospf4", "Running"}, {"core", "ospf6", "Running"},
}

// AwaitSessions waits until BGP and OSPF are up, as BIRD at the other end says.
func (c *Campus) AwaitSessions(ctx context.Context) error {
	c.report.Step("waiting for BGP and OSPF")
	for _, s := range sessions {
		node := c.Lab.Node(s.node)
		err := lab.Until(ctx, c.pace.wait(60*time.Second), s.protocol+" of "+s.node, func() error {
			state, err := node.BIRDState(ctx, s.protocol)
			if err == nil && state != s.up {
				err = fmt.Errorf("state %s, expected %s", state, s.up)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%w\ndaemon: %s", err, c.Border.Log(10))
		}
	}
	c.report.Add(Row{Topic: "routing", What: "BGP sessions established", Value: 4, Detail: "ISP A and B, IPv4 and IPv6, MD5, " + c.pace.detection()})
	if err := c.awaitAnnouncements(ctx); err != nil {
		return err
	}
	c.report.Add(Row{Topic: "routing", What: "OSPF adjacencies with a default route", Value: 2, Detail: "OSPFv2 with MD5, OSPFv3"})
	return nil
}

// announcements are routes that nodes must have heard of: from the border a
// default route by OSPF while BGP gives it one, and the campus's prefixes by BGP,
// through the ISPs also in world; from core, in the border, the campus's networks.
var announcements = []struct{ node, protocol, prefix4, prefix6 string }{
	{"core", "bird", "default", "default"},
	{"isp-a", "bird", "203.0.113.0/24", "2001:db8:113::/48"},
	{"isp-b", "bird", "203.0.113.0/24", "2001:db8:113::/48"},
	{"world", "bird", "203.0.113.0/24", "2001:db8:113::/48"},
	{"border", "ospf", "203.0.113.128/25", "2001:db8:113:2::/64"},
}

func (c *Campus) awaitAnnouncements(ctx context.Context) error {
	for _, a := range announcements {
		for family, prefix := range map[string]string{"-4": a.prefix4, "-6": a.prefix6} {
			err := lab.Until(ctx, c.pace.wait(60*time.Second), "the route to "+prefix+" in "+a.node, func() error {
				out, err := c.Lab.Node(a.node).Run(ctx, "ip", family, "route", "show", "exact", prefix, "proto", a.protocol)
				if err == nil && strings.TrimSpace(out) == "" {
					err = errors.New("its kernel does not have it")
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%w\ndaemon: %s", err, c.Border.Log(10))
			}
		}
	}
	return nil
}

// AwaitTable waits until the whole table is in the border's kernel.
func (c *Campus) AwaitTable(ctx context.Context) error {
	c.report.Step("loading the table")
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		if err := c.awaitRoutes(ctx, family); err != nil {
			return err
		}
		c.report.Add(Row{Topic: "routing", What: familyName(family) + " routes by BGP in the kernel", Value: float64(c.expected(family))})
	}
	c.report.Add(Row{Topic: "routing", What: "full table in the kernel after apply", Value: time.Since(c.applied).Seconds(), Unit: "s"})
	return nil
}

// expected returns how many routes of a family the border learns by BGP.
func (c *Campus) expected(family int) int {
	n := 1 // the default route
	for _, p := range c.tables.a {
		if familyOf(p.Addr()) == family {
			n++
		}
	}
	for _, p := range c.tables.b {
		if familyOf(p.Addr()) == family && !c.tables.hasA[p] {
			n++
		}
	}
	return n
}

// patience is how long the number of routes may stand still before loading counts as stuck.
const patience = 90 * time.Second

func (c *Campus) awaitRoutes(ctx context.Context, family int) error {
	want, last := c.expected(family), -1
	grown := time.Now()
	for {
		begun := time.Now()
		have, err := c.Lab.Node("border").CountRoutes(family)
		if err != nil {
			return err
		}
		n := have[unix.RTPROT_BGP]
		if n == want {
			return nil
		}
		if n != last {
			grown, last = begun, n
		} else if time.Since(grown) > patience {
			return fmt.Errorf("%d of %d %s routes in the border's kernel, and no more for %s\ndaemon: %s", n, want, familyName(family), patience, c.Border.Log(10))
		}
		// Counting costs the core that loads them: no more than a tenth of the time.
		sleep(ctx, max(200*time.Millisecond, 10*time.Since(begun)))
		if err := ctx.Err(); err != nil {
			return err
		}
		if n > 0 && time.Since(c.told) > 5*time.Second {
			c.told = time.Now()
			c.report.Step("  %s of %s %s routes", number(float64(n)), number(float64(want)), familyName(family))
		}
	}
}

// AwaitFastPath waits until the fast path has what the kernel has.
func (c *Campus) AwaitFastPath(ctx context.Context) error {
	c.report.Step("waiting for the fast path")
	var fast fastpath.Observed
	err := lab.Until(ctx, c.pace.wait(time.Minute), "the fast path", func() error {
		if err := c.Border.JSON(ctx, &fast, "show", "fast-path"); err != nil {
			return err
		}
		if !fast.Ready || len(fast.Tables) != 2 {
			return errors.New("its tables are not complete")
		}
		for _, t := range fast.Tables {
			family := map[string]int{"ipv4": unix.AF_INET, "ipv6": unix.AF_INET6}[t.Family]
			if t.Prefixes < c.expected(family) {
				return fmt.Errorf("%d of %d prefixes of %s", t.Prefixes, c.expected(family), t.Family)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, c.Border.Log(10))
	}
	c.report.Add(Row{Topic: "fast path", What: "full table in the fast path after apply", Value: time.Since(c.applied).Seconds(), Unit: "s"})
	for _, t := range fast.Tables {
		row := Row{Topic: "fast path", What: t.Family + " table", Value: float64(t.UsedBytes) / 1e6, Unit: "MB", Detail: t.Structure + ", " + number(float64(t.Prefixes)) + " prefixes"}
		if t.Kernel != "" {
			row.Failed = "left to the kernel: " + t.Kernel
		}
		c.report.Add(row)
	}
	for _, p := range fast.Ports {
		row := Row{Topic: "fast path", What: "port " + p.Name, Unit: "ok", Detail: p.Mode}
		if p.Mode != "native" {
			row.Failed = fmt.Sprintf("mode %s, expected native: %s", p.Mode, p.Why)
		}
		c.report.Add(row)
	}
	return nil
}

func familyOf(a netip.Addr) int {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func familyName(family int) string {
	if family == unix.AF_INET6 {
		return "IPv6"
	}
	return "IPv4"
}

// destinations returns n addresses in world, of both families, spread over the prefixes that both ISPs announce.
func (c *Campus) destinations(n int) []netip.Addr {
	byFamily := map[int][]netip.Addr{}
	for _, p := range c.tables.common {
		a := p.Addr().Next()
		if !c.tables.hostA.holds(a) && !c.tables.hostB.holds(a) {
			byFamily[familyOf(a)] = append(byFamily[familyOf(a)], a)
		}
	}
	var out []netip.Addr
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all := byFamily[family]
		for i := range n / 2 {
			out = append(out, all[i*(len(all)-1)/max(1, n/2-1)])
		}
	}
	return out
}

func ipv4Only(all []netip.Addr) (v4 []netip.Addr) {
	for _, a := range all {
		if familyOf(a) == unix.AF_INET {
			v4 = append(v4, a)
		}
	}
	return v4
}
