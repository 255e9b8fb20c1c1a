// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"minne/internal/lab/iperf"
	"minne/internal/lab/result"
)

const (
	echoPort   = 5202                   // UDP
	echoRate   = 100                    // probes per second
	stragglers = 500 * time.Millisecond // waited for after the last probe
	loadRamp   = 2                      // seconds until TCP has filled the device
	loadFlows  = 4                      // TCP connections in each direction
	trimmed    = 0.95
	probeBytes = 16
)

// echo sends every datagram back to where it came from.
type echo struct {
	conn  *net.UDPConn
	ended sync.WaitGroup
}

func startEcho(h host) (*echo, error) {
	e := &echo{}
	err := h.Do(func() (err error) {
		e.conn, err = net.ListenUDP("udp", &net.UDPAddr{Port: echoPort})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("echo on UDP port %d: %w", echoPort, err)
	}
	e.ended.Go(func() {
		var b [probeBytes]byte
		for {
			n, from, err := e.conn.ReadFromUDPAddrPort(b[:])
			if err != nil {
				return // closed
			}
			if n == probeBytes {
				e.conn.WriteToUDPAddrPort(b[:], from) //nolint:errcheck // what can't be sent counts as lost
			}
		}
	})
	return e, nil
}

func (e *echo) Close() {
	e.conn.Close()
	e.ended.Wait()
}

// Responsiveness measures round trips of small UDP packets, 100 a second, between
// the two hosts: first on the idle device, then while TCP fills it in both
// directions. Round trips per minute is how the IETF's draft "Responsiveness under
// Working Conditions" counts: 60 s by the mean round trip, of which the slowest
// 5 % are left out. The draft's probes are HTTP requests on new and on loaded
// connections; these are datagrams of their own, so the figure is of the same
// spirit but not the same.
//
// Both hosts' processes have to be woken for every round trip. On a machine whose
// CPUs the TCP flows use up, that waiting is part of the figure.
func (n *Network) Responsiveness(ctx context.Context, o Options) (result.Responsiveness, error) {
	r := result.Responsiveness{Device: n.name}
	family := IPv4
	if _, ok := n.server[family]; !ok {
		family = IPv6
	}
	duration := time.Duration(o.Seconds) * time.Second
	say := func(text string, left time.Duration) {
		if o.Progress != nil {
			o.Progress(n.Path+", responsiveness: "+text, left)
		}
	}
	say("idle", 2*duration+(loadRamp+1)*time.Second+2*stragglers)
	var err error
	if r.Idle, _, err = n.probe(ctx, family, duration); err != nil {
		return r, err
	}
	say("TCP in both directions", duration+(loadRamp+1)*time.Second+2*stragglers)
	seconds := loadRamp + o.Seconds + 1
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		iperf.Transfer
		err error
	}
	loading := make(chan outcome, 1)
	go func() {
		t, err := n.iperf(ctx, family, seconds, "--bidir", "-P", fmt.Sprint(loadFlows))
		loading <- outcome{t, err}
	}()
	select {
	case <-time.After(loadRamp * time.Second):
	case early := <-loading:
		return r, fmt.Errorf("responsiveness: the TCP load: %w", early.err)
	}
	var mean time.Duration
	if r.Loaded, mean, err = n.probe(ctx, family, duration); err != nil {
		cancel()
		<-loading
		return r, err
	}
	load := <-loading
	if load.err != nil {
		return r, fmt.Errorf("responsiveness: the TCP load: %w", load.err)
	}
	r.BitRate = load.BitRate + load.Back
	r.RPM = time.Minute.Seconds() / mean.Seconds()
	return r, nil
}

// probe returns the round trips of a while, and their trimmed mean.
func (n *Network) probe(ctx context.Context, family string, duration time.Duration) (result.LatencyPoint, time.Duration, error) {
	var conn *net.UDPConn
	err := n.client.Do(func() (err error) {
		conn, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.server[family], echoPort)))
		return err
	})
	if err != nil {
		return result.LatencyPoint{}, 0, fmt.Errorf("probe: %w", err)
	}
	defer conn.Close()

	begin := time.Now()
	trips := make(chan []time.Duration, 1)
	go func() { trips <- receive(conn, begin) }()
	sent, err := send(ctx, conn, begin, duration)
	if err == nil {
		time.Sleep(stragglers)
	}
	conn.Close()
	all := <-trips
	if err != nil {
		return result.LatencyPoint{}, 0, err
	}
	return summarize(all, sent)
}

// send sends probes, each with its number and the time since begin.
func send(ctx context.Context, conn *net.UDPConn, begin time.Time, duration time.Duration) (sent int, err error) {
	for ; ; sent++ {
		due := time.Duration(sent) * time.Second / echoRate
		if due >= duration {
			return sent, nil
		}
		select {
		case <-ctx.Done():
			return sent, ctx.Err()
		case <-time.After(time.Until(begin.Add(due))):
		}
		var b [probeBytes]byte
		binary.BigEndian.PutUint64(b[:], uint64(sent))
		binary.BigEndian.PutUint64(b[8:], uint64(time.Since(begin)))
		// An error (an ICMP answer to an earlier probe, say) is a lost probe.
		conn.Write(b[:]) //nolint:errcheck
	}
}

// receive returns the round trips of the probes that come back, each once, until the socket is closed.
func receive(conn *net.UDPConn, begin time.Time) (trips []time.Duration) {
	seen := map[uint64]bool{}
	for {
		var b [probeBytes]byte
		n, err := conn.Read(b[:])
		now := time.Since(begin)
		if errors.Is(err, net.ErrClosed) {
			return trips
		}
		number := binary.BigEndian.Uint64(b[:])
		if err != nil || n != probeBytes || seen[number] {
			continue
		}
		seen[number] = true
		trips = append(trips, now-time.Duration(binary.BigEndian.Uint64(b[8:])))
	}
}

func summarize(trips []time.Duration, sent int) (result.LatencyPoint, time.Duration, error) {
	if len(trips) == 0 {
		return result.LatencyPoint{}, 0, fmt.Errorf("none of %d probes came back: does UDP port %d pass?", sent, echoPort)
	}
	slices.Sort(trips)
	p := result.LatencyPoint{Offered: echoRate, Loss: 1 - float64(len(trips))/float64(sent), Min: trips[0], Max: trips[len(trips)-1]}
	for _, t := range trips {
		p.Spectrum.Record(t)
	}
	at := func(q float64) time.Duration { return trips[min(int(q*float64(len(trips))), len(trips)-1)] }
	p.P50, p.P90, p.P99, p.P999 = at(0.5), at(0.9), at(0.99), at(0.999)
	return p, trimmedMean(trips), nil
}

// trimmedMean is the mean of sorted round trips without the slowest 5 %.
func trimmedMean(trips []time.Duration) time.Duration {
	kept := trips[:max(1, int(trimmed*float64(len(trips))))]
	var sum time.Duration
	for _, t := range kept {
		sum += t
	}
	return sum / time.Duration(len(kept))
}
