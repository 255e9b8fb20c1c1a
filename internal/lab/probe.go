// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Probe is a thin stream of numbered UDP packets from one node to many
// destinations that all end in another. It tells for how long which of them
// could not be reached.
type Probe struct {
	interval     time.Duration // between two packets to one destination
	underway     time.Duration // that a packet may take
	destinations []netip.Addr
	send4, send6 *net.UDPConn
	receive      *net.UDPConn

	mu     sync.Mutex
	sent   []uint32
	seen   [][]bool // per destination, by sequence number
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// Outage is what a probe saw.
type Outage struct {
	Destinations int     `json:"destinations"`
	Sent         int     `json:"sent"`
	Lost         int     `json:"lost"`
	Hit          int     `json:"destinations_hit"` // that lost any
	Median       float64 `json:"median_seconds"`   // longest silence of a destination: the median one
	Longest      float64 `json:"longest_seconds"`  // and the longest
}

const probePort = 7007

// StartProbe sends rate packets per second in turn to the destinations until Stop. What is
// longer on its way than underway counts as lost.
func StartProbe(from, to *Running, destinations []netip.Addr, rate int, underway time.Duration) (*Probe, error) {
	p := &Probe{
		underway:     underway,
		interval:     time.Duration(len(destinations)) * time.Second / time.Duration(rate),
		destinations: destinations,
		sent:         make([]uint32, len(destinations)),
		seen:         make([][]bool, len(destinations)),
	}
	var err error
	open := func(n *Running, network string, at *net.UDPAddr) (c *net.UDPConn) {
		if err == nil {
			err = n.Do(func() (err error) { c, err = net.ListenUDP(network, at); return err })
		}
		return c
	}
	p.receive = open(to, "udp", &net.UDPAddr{Port: probePort})
	p.send4 = open(from, "udp4", nil)
	p.send6 = open(from, "udp6", nil)
	if err != nil {
		p.closeSockets()
		return nil, fmt.Errorf("probe from %s to %s: %w", from.Name, to.Name, err)
	}
	p.receive.SetReadBuffer(4 << 20) //nolint:errcheck // the default is enough on a quiet machine
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.ended.Go(func() { p.sendLoop(ctx, time.Second/time.Duration(rate)) })
	p.ended.Go(p.receiveLoop)
	return p, nil
}

func (p *Probe) sendLoop(ctx context.Context, gap time.Duration) {
	start := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for ; n < int(time.Since(start)/gap); n++ {
			p.sendOne(n % len(p.destinations))
		}
	}
}

func (p *Probe) sendOne(i int) {
	p.mu.Lock()
	seq := p.sent[i]
	p.sent[i]++
	p.seen[i] = append(p.seen[i], false)
	p.mu.Unlock()
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], uint32(i))
	binary.BigEndian.PutUint32(b[4:], seq)
	c := p.send4
	if p.destinations[i].Is6() {
		c = p.send6
	}
	// An error (an ICMP answer to an earlier packet, say) is a lost packet.
	c.WriteToUDPAddrPort(b[:], netip.AddrPortFrom(p.destinations[i], probePort)) //nolint:errcheck
}

func (p *Probe) receiveLoop() {
	var b [64]byte
	for {
		n, _, err := p.receive.ReadFromUDPAddrPort(b[:])
		if err != nil {
			return // closed
		}
		if n != 8 {
			continue
		}
		i, seq := binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
		p.mu.Lock()
		if int(i) < len(p.seen) && int(seq) < len(p.seen[i]) {
			p.seen[i][seq] = true
		}
		p.mu.Unlock()
	}
}

// Flowing returns nil when of the last packets to every destination, those of the
// given time, but for those that may be under way, all have arrived; else it says which have not.
func (p *Probe) Flowing(last time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	underway := int(p.underway/p.interval) + 1
	n := int(last/p.interval) + 1
	var failed []string
	for i, seen := range p.seen {
		end := len(seen) - underway
		if end < n {
			return errors.New("not enough packets were sent yet")
		}
		lost := 0
		for _, ok := range seen[end-n : end] {
			if !ok {
				lost++
			}
		}
		if lost > 0 {
			failed = append(failed, fmt.Sprintf("%d of %d to %s", lost, n, p.destinations[i]))
		}
	}
	if failed != nil {
		return fmt.Errorf("packets are still lost: %s", strings.Join(failed, ", "))
	}
	return nil
}

// Stop ends the stream and returns what was lost.
func (p *Probe) Stop() Outage {
	p.cancel()
	time.Sleep(2 * p.underway)
	p.closeSockets()
	p.ended.Wait()
	o := Outage{Destinations: len(p.destinations)}
	var silences []float64
	for _, seen := range p.seen {
		lost, run, longest := 0, 0, 0
		for _, ok := range seen {
			if run++; ok {
				run = 0
			} else {
				lost++
			}
			longest = max(longest, run)
		}
		o.Sent += len(seen)
		if o.Lost += lost; lost > 0 {
			o.Hit++
		}
		silences = append(silences, (time.Duration(longest) * p.interval).Seconds())
	}
	slices.Sort(silences)
	o.Median, o.Longest = silences[len(silences)/2], silences[len(silences)-1]
	return o
}

func (p *Probe) closeSockets() {
	for _, c := range []*net.UDPConn{p.send4, p.send6, p.receive} {
		if c != nil {
			c.Close()
		}
	}
}
