// SPDX-License-Identifier: Apache-2.0

// Package flood_test floods a router from both sides with all that its kernel would have to
// look at, as fast as generators can, and holds it to its word: BGP with a hold time of
// three seconds, OSPF that gives up after four, and a TCP connection to the router itself go on
// as if nothing were.
package flood

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/lab/traffic"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

const (
	shortly = 20 * time.Second
	long    = 2 * time.Minute
	// longTest asks for the long flood.
	longTest = "MINNE_TEST_LONG"
	// withoutGuard runs the test with the guard off, to see what it is good for.
	withoutGuard = "MINNE_TEST_NO_GUARD"
)

func TestSessionsLiveThroughAFlood(t *testing.T) {
	guard, lasting := "on", shortly
	if os.Getenv(longTest) != "" {
		lasting = long
	}
	if os.Getenv(withoutGuard) != "" {
		guard = "off"
	}
	w := build(t, guard)
	before := map[string]sessions{}
	for _, n := range neighbours {
		s, err := w.sessions(t.Context(), n)
		w.must(err)
		before[n.name] = s
	}
	talk := w.talk(neighbours[0])
	sent := w.flood(t.Context(), lasting)
	answers := talk()
	for _, n := range neighbours {
		s, err := w.sessions(t.Context(), n)
		w.must(err)
		if s != before[n.name] {
			t.Errorf("%s: sessions %+v, before the flood %+v", n.name, s, before[n.name])
		}
	}
	t.Logf("%d frames in %v (%.2f million a second); TCP to the router: %s", sent, lasting, float64(sent)/lasting.Seconds()/1e6, answers)
	w.tell(guard == "on")
	if text, err := w.router.Command(t.Context(), "show", "drops"); err == nil {
		t.Logf("%s", text)
	}
}

// flood sends from both neighbours at once and returns how many frames they sent.
func (w *network) flood(ctx context.Context, lasting time.Duration) (frames uint64) {
	w.Helper()
	var sending sync.WaitGroup
	results := make([]error, len(neighbours))
	sent := make([]traffic.Sent, len(neighbours))
	for i, n := range neighbours {
		sending.Go(func() { sent[i], results[i] = w.floodFrom(ctx, n, neighbours[1-i], lasting) })
	}
	sending.Wait()
	w.must(results...)
	for i, n := range neighbours {
		w.Logf("%s sent %d frames", n.name, sent[i].Frames)
		if sent[i].Frames < 10_000 {
			w.Errorf("%s sent %d frames, which is no flood", n.name, sent[i].Frames)
		}
		frames += sent[i].Frames
	}
	return frames
}

func (w *network) floodFrom(ctx context.Context, n, other neighbour, lasting time.Duration) (sent traffic.Sent, err error) {
	g, err := traffic.NewGenerator()
	if err != nil {
		return sent, err
	}
	defer g.Close()
	f := flood{rand.New(rand.NewPCG(uint64(n.asn), 1)), n, netip.PrefixFrom(other.router, 24).Masked()}
	if err := g.SetReplay(f.frames(), 0); err != nil {
		return sent, err
	}
	var router net.HardwareAddr
	err = w.lab.Node("router").Do(func() error {
		link, err := netlink.LinkByName(n.port)
		if err == nil {
			router = link.Attrs().HardwareAddr
		}
		return err
	})
	if err != nil {
		return sent, err
	}
	err = w.lab.Node(n.name).Do(func() error {
		link, err := netlink.LinkByName(far)
		if err != nil {
			return err
		}
		own := link.Attrs().HardwareAddr
		everybody := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		sent, err = g.Run(ctx, traffic.Order{Duration: lasting, Routes: map[uint8]traffic.Route{
			toRouter: {Port: link.Attrs().Index, From: own, To: router},
			toAll:    {Port: link.Attrs().Index, From: own, To: everybody},
		}})
		return err
	})
	return sent, err
}

// talk holds a connection to the router, as an operator's shell would be one, and says something ten times a
// second. What it returns ends it and tells how long the answers took.
func (w *network) talk(n neighbour) func() string {
	w.Helper()
	address := netip.AddrPortFrom(n.router, 22).String()
	var client net.Conn
	w.must(w.lab.Node("router").Do(func() error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		w.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c) }()
			}
		}()
		return nil
	}), w.lab.Node(n.name).Do(func() (err error) {
		client, err = net.DialTimeout("tcp", address, 5*time.Second)
		return err
	}))
	stop, done := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var took []time.Duration
		defer func() { client.Close(); done <- took }()
		word := []byte("x")
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			asked := time.Now()
			_ = client.SetDeadline(asked.Add(10 * time.Second))
			_, err := client.Write(word)
			if err == nil {
				_, err = io.ReadFull(client, word)
			}
			if err != nil {
				w.Errorf("the connection to the router broke: %v", err)
				return
			}
			took = append(took, time.Since(asked))
		}
	}()
	return func() string {
		close(stop)
		took := <-done
		if len(took) == 0 {
			return "no answer"
		}
		slices.Sort(took)
		return fmt.Sprintf("%d answers, median %v, longest %v", len(took), took[len(took)/2].Round(time.Microsecond), took[len(took)-1].Round(time.Microsecond))
	}
}

// tell logs what the guard did, and wants it to have done what the flood is for.
func (w *network) tell(on bool) {
	w.Helper()
	var o struct {
		Guard []struct {
			Class   string `json:"class"`
			Passed  uint64 `json:"passed"`
			Dropped uint64 `json:"dropped"`
		} `json:"guard"`
	}
	w.must(w.router.JSON(w.Context(), &o, "show", "fast-path"))
	dropped := map[string]uint64{}
	for _, c := range o.Guard {
		if c.Passed+c.Dropped > 0 {
			w.Logf("%-18s passed %9d, dropped %9d", c.Class, c.Passed, c.Dropped)
		}
		dropped[c.Class] = c.Dropped
	}
	if !on {
		return
	}
	for _, class := range []string{"tcp", "udp-closed", "icmp", "arp", "arp-others", "fragments", "ttl", "no-neighbour"} {
		if dropped[class] == 0 {
			w.Errorf("of class %s nothing was dropped: no flood of it", class)
		}
	}
	for _, class := range []string{"sessions", "bgp-peers", "routing-protocols", "neighbours"} {
		if dropped[class] != 0 {
			w.Errorf("of class %s, %d packets were dropped", class, dropped[class])
		}
	}
}

// readOSPF takes in what ospfd says of the router.
func (s *sessions) readOSPF(answer map[string]json.RawMessage) error {
	type neighbor struct {
		State   string `json:"nbrState"`
		Changes int    `json:"stateChangeCounter"`
	}
	if all, ok := answer["neighbors"]; ok {
		answer = nil
		if err := json.Unmarshal(all, &answer); err != nil {
			return err
		}
	}
	for _, raw := range answer {
		var found []neighbor
		if err := json.Unmarshal(raw, &found); err != nil || len(found) == 0 {
			continue // not a neighbour
		}
		s.OSPF, s.Changes = found[0].State, found[0].Changes
	}
	return nil
}
