// SPDX-License-Identifier: Apache-2.0

// Package campus_test runs the lab's campus end to end, with the real daemon,
// FRR, BIRD and the fast path, and a part of the Internet's table so that it
// takes about a minute: a router from one file, real traffic, commits and their
// previews, an ISP that fails, a daemon that is killed.
package campus_test

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/lab/campus"
	"minne/internal/lab/fulltable"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

const prefixes = 20_000

// part returns some prefixes of the full table, the same every time.
func part(t *testing.T, n int) []netip.Prefix {
	t.Helper()
	v4, v6, err := fulltable.Load()
	if err != nil {
		t.Fatal(err)
	}
	all := append(v4, v6...)
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

// scenario is the campus with the report of its steps.
type scenario struct {
	*campus.Campus
	report *campus.Report
	trial  time.Duration // of a commit that nobody confirms
}

// step runs a part of the scenario and fails the test for every check in it that failed.
func (s *scenario) step(t *testing.T, do campus.Step) {
	t.Helper()
	before := len(s.report.Rows)
	if err := do(t.Context()); err != nil {
		sessions, _ := s.Border.Command(context.Background(), "show", "bgp", "summary") // what can be said of the failure
		drops, _ := s.Border.Command(context.Background(), "show", "drops")
		t.Fatalf("%v\n%s\n%s\n%s", err, s.Border.Log(20), sessions, drops)
	}
	if len(s.report.Rows) == before {
		t.Error("the step reported nothing")
	}
	for _, row := range s.report.Rows[before:] {
		if row.Failed != "" {
			t.Errorf("%s: %s: %s", row.Topic, row.What, row.Failed)
		}
	}
}

func (s *scenario) run(t *testing.T, name string, do func(*testing.T)) {
	t.Helper()
	if !t.Run(name, do) {
		t.FailNow() // what follows builds on it
	}
}

func TestCampus(t *testing.T) {
	report := campus.NewReport(t.Output())
	c, err := campus.Build(t.Context(), campus.Options{Binary: testbuild.Minne(t, t.TempDir()), Table: part(t, prefixes)}, report)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{c, report, 2 * time.Second}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	s.run(t, "one file makes the router", func(t *testing.T) {
		s.step(t, c.Apply)
		s.step(t, c.AwaitSessions)
		s.step(t, c.AwaitTable)
		s.step(t, c.AwaitFastPath)
	})
	s.run(t, "hosts reach each other", func(t *testing.T) { s.step(t, c.Reach) })
	s.run(t, "bytes arrive", func(t *testing.T) {
		s.step(t, func(ctx context.Context) error { return c.Transfer(ctx, 1) })
	})
	s.run(t, "applying the same file again does nothing", s.applyUnchanged)
	s.run(t, "a preview changes nothing", s.preview)
	s.run(t, "a wrong file is refused whole", s.applyWrong)
	s.run(t, "an unconfirmed commit reverts", s.unconfirmed)
	s.run(t, "an ISP fails", func(t *testing.T) { s.step(t, c.FailISP) })
	s.run(t, "the daemon is killed and starts again", func(t *testing.T) { s.step(t, c.RestartDaemon) })
}

// result is what minne apply --json prints.
type result struct {
	Outcome  string `json:"outcome"`
	Revision int    `json:"revision"`
	Changes  []struct {
		Object string `json:"object"`
		Effect string `json:"effect"`
	} `json:"changes"`
}

func (s *scenario) applyUnchanged(t *testing.T) {
	// The kernel itself tells every write to links, addresses, routes and rules.
	heard := listen(t, s.Lab.Node("border"))
	since := s.sessionsSince(t)
	// It must hear: a change that the test itself makes, in a table that no router uses.
	for _, verb := range []string{"add", "del"} {
		if _, err := s.Lab.Node("border").Run(t.Context(), "ip", "route", verb, "blackhole", "192.0.2.0/24", "table", "4711"); err != nil {
			t.Fatal(err)
		}
	}
	if got := heard(); len(got) < 2 {
		t.Fatalf("heard %v of a route added and removed", got)
	}
	var r result
	if err := s.Border.JSON(t.Context(), &r, "apply", s.Border.Config); err != nil {
		t.Fatal(err)
	}
	if r.Outcome != "unchanged" || len(r.Changes) != 0 || r.Revision != 1 {
		t.Errorf("apply of the same file: %+v, expected unchanged revision 1", r)
	}
	time.Sleep(500 * time.Millisecond)
	if got := heard(); len(got) > 0 {
		t.Errorf("the kernel was written to: %v", got)
	}
	if now := s.sessionsSince(t); !now.equal(since) {
		t.Errorf("sessions were reset:\nbefore %v\nafter %v", since, now)
	}
}

// listen returns a function that tells the kinds of changes (RTM_ values) in a
// node's kernel since it was called last.
func listen(t *testing.T, node *lab.Running) func() []uint16 {
	t.Helper()
	var socket int
	err := node.Do(func() (err error) {
		socket, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		err = unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		for _, group := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
			unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEXTHOP} {
			err = errors.Join(err, unix.SetsockoptInt(socket, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	return func() (kinds []uint16) {
		buffer := make([]byte, 64<<10)
		for {
			n, _, err := unix.Recvfrom(socket, buffer, 0)
			if err == unix.EAGAIN {
				return kinds
			}
			if err != nil {
				t.Fatal(err)
			}
			for b := buffer[:n]; len(b) >= unix.SizeofNlMsghdr; {
				kinds = append(kinds, binary.NativeEndian.Uint16(b[4:]))
				b = b[min(len(b), int(binary.NativeEndian.Uint32(b)+3)&^3):]
			}
		}
	}
}

// times are moments of the day by what they are of.
type times map[string]time.Time

// equal allows for what BIRD works a moment out from: the clock of the day, which is set right by and by.
func (t times) equal(other times) bool {
	return maps.EqualFunc(t, other, func(a, b time.Time) bool { return a.Sub(b).Abs() < 100*time.Millisecond })
}

// sessionsSince returns since when the neighbours have their BGP and OSPF sessions.
func (s *scenario) sessionsSince(t *testing.T) times {
	t.Helper()
	since := times{}
	for _, node := range []string{"isp-a", "isp-b", "core"} {
		text, err := s.Lab.Node(node).BIRD(t.Context(), "show", "protocols")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			// The ISPs' sessions with the rest of the world are not the router's.
			if f := strings.Fields(line); len(f) > 4 && (f[1] == "BGP" || f[1] == "OSPF") && !strings.HasPrefix(f[0], "world") {
				at, err := time.Parse("15:04:05.000", f[4])
				if err != nil {
					t.Fatalf("%s: %s: %v", node, line, err)
				}
				since[node+" "+f[0]] = at
			}
		}
	}
	if len(since) != 6 {
		t.Fatalf("sessions %v, expected 6", since)
	}
	return since
}

// write puts a configuration where the border's commands read it.
func (s *scenario) write(t *testing.T, name, text string) string {
	t.Helper()
	file, err := s.Border.Write(t.Context(), name, text)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// variant writes the border's file with another description of ISP B's port and returns its path.
func (s *scenario) variant(t *testing.T, description string) string {
	t.Helper()
	return s.write(t, "variant.yaml", s.BorderConfig(description))
}

func (s *scenario) running(t *testing.T) string {
	t.Helper()
	text, err := s.Border.Command(t.Context(), "show", "config")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s *scenario) preview(t *testing.T) {
	before := s.running(t)
	var r result
	if err := s.Border.JSON(t.Context(), &r, "apply", "--dry-run", s.variant(t, "another name")); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range r.Changes {
		found = found || strings.Contains(c.Object, "isp-b")
		if strings.Contains(c.Effect, "reset") {
			t.Errorf("a description resets something: %+v", c)
		}
	}
	if r.Outcome != "planned" || !found {
		t.Errorf("preview %+v, expected a planned change on isp-b", r)
	}
	if s.running(t) != before {
		t.Error("the preview changed the running configuration")
	}
}

func (s *scenario) applyWrong(t *testing.T) {
	before := s.running(t)
	file := s.write(t, "wrong.yaml", strings.Replace(s.BorderConfig(""), "addresses: [203.0.113.1/30", "adresses: [203.0.113.1/30", 1))
	_, err := s.Border.Command(t.Context(), "apply", file)
	var exit *lab.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 {
		t.Fatalf("apply of a wrong file: %v, expected exit code 3", err)
	}
	for _, want := range []string{"wrong.yaml:", "adresses", "^", "addresses"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message has no %q:\n%v", want, err)
		}
	}
	if s.running(t) != before {
		t.Error("the wrong file changed the running configuration")
	}
}

func (s *scenario) unconfirmed(t *testing.T) {
	before, since := s.running(t), s.sessionsSince(t)
	var r result
	if err := s.Border.JSON(t.Context(), &r, "apply", "--confirm", s.trial.String(), s.variant(t, "on trial")); err != nil {
		t.Fatal(err)
	}
	if r.Outcome != "awaiting" {
		t.Fatalf("%+v, expected that it awaits its confirmation", r)
	}
	alias := func() string {
		text, err := s.Lab.Node("border").Run(t.Context(), "ip", "link", "show", "isp-b")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if !strings.Contains(alias(), "on trial") {
		t.Errorf("the kernel does not have the description that is on trial:\n%s", alias())
	}
	err := lab.Until(t.Context(), time.Minute+5*s.trial, "the commit to revert", func() error {
		if s.running(t) != before || strings.Contains(alias(), "on trial") {
			return errors.New("it is still there")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if now := s.sessionsSince(t); !now.equal(since) {
		t.Errorf("sessions were reset:\nbefore %v\nafter %v", since, now)
	}
}
