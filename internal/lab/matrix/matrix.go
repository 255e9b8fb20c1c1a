// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/iperf"
	"minne/internal/lab/result"
)

// Options say how long to measure.
type Options struct {
	Cells   []Cell // empty is the paper's matrix
	Seconds int    // of each cell
	// Quick spends fewer tries on finding the UDP rate.
	Quick    bool
	Progress func(text string, left time.Duration) // may be nil
	Done     func(result.Matrix)                   // gets all cells so far after each; may be nil
}

// Overheads for the first guess of the remaining time, before there is experience.
const (
	startTime = 300 * time.Millisecond // iperf3 and its handshake
	tryTime   = 1                      // seconds of one try of a UDP rate
)

// Matrix measures all cells. A cell that fails keeps the reason and does not stop
// the rest. When ctx ends, the cells that are done are returned with its error.
func (n *Network) Matrix(ctx context.Context, o Options) (result.Matrix, error) {
	m := result.Matrix{Device: n.name, Path: n.Path}
	cells := o.Cells
	if len(cells) == 0 {
		cells = Cells()
	}
	for i, c := range cells {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("%s, %s: cell %d of %d", n.Path, c, i+1, len(cells)), remaining(cells[i:], o))
		}
		cell, err := n.attempt(ctx, c, o)
		if ctx.Err() != nil {
			return m, ctx.Err()
		}
		if err != nil {
			cell.Failed = err.Error()
		}
		m.Cells = append(m.Cells, cell)
		if o.Done != nil {
			o.Done(m)
		}
	}
	return m, nil
}

// remaining is about how long the cells will take.
func remaining(cells []Cell, o Options) (left time.Duration) {
	for _, c := range cells {
		left += time.Duration(o.Seconds)*time.Second + startTime
		if c.Protocol == UDP {
			left += time.Duration(o.tries()) * (tryTime*time.Second + startTime)
		}
	}
	return left
}

// tries is how often a UDP rate is tried at most.
func (o Options) tries() int {
	if o.Quick {
		return 3
	}
	return 5
}

// attempt measures a cell, a second time when the transfer broke off: on a busy
// machine iperf3 sometimes loses its control connection.
func (n *Network) attempt(ctx context.Context, c Cell, o Options) (result.MatrixCell, error) {
	cell, err := n.cell(ctx, c, o)
	if _, has := n.server[c.Family]; err == nil || ctx.Err() != nil || !has {
		return cell, err
	}
	// After a client that vanished the server may believe itself busy.
	if n.lab != nil {
		if err := n.serve(); err != nil {
			return cell, err
		}
	}
	return n.cell(ctx, c, o)
}

func (n *Network) cell(ctx context.Context, c Cell, o Options) (result.MatrixCell, error) {
	given, payload, packet, note := segment(c, timestamps())
	out := result.MatrixCell{Family: c.Family, Protocol: c.Protocol, Bytes: c.Bytes, Packet: packet, Payload: payload, Note: note}
	args := []string{"-M", fmt.Sprint(given)}
	if c.Protocol == UDP {
		rate, err := n.udpRate(ctx, c, given, o.tries())
		if err != nil {
			return out, err
		}
		args = n.udpArguments(given, rate)
	}
	forwarded, err := n.kernelForwarded(c.Family)
	if err != nil {
		return out, err
	}
	before, err := machine.CPUTimes(os.DirFS("/"))
	if err != nil {
		return out, err
	}
	t, err := n.iperf(ctx, c.Family, o.Seconds, args...)
	if err != nil {
		return out, err
	}
	after, err := machine.CPUTimes(os.DirFS("/"))
	if err != nil {
		return out, err
	}
	busy, _ := after.Since(before)
	out.BitRate, out.Loss, out.Retransmits, out.CPUPercent = t.BitRate, t.Loss, t.Retransmits, busy*100
	out.Packets = t.BitRate / 8 / float64(payload) // of TCP full segments, as a transfer that saturates sends
	return out, n.checkForwarder(c.Family, forwarded, out.Packets*float64(o.Seconds))
}

// udpArguments make iperf3 send datagrams of a length at a rate of payload bits per second; 0 is as fast as it can.
func (n *Network) udpArguments(length int, rate float64) []string {
	args := []string{"-u", "-l", fmt.Sprint(length), "-b", fmt.Sprintf("%.0f", rate)}
	if n.buffer > 0 {
		args = append(args, "-w", fmt.Sprint(n.buffer))
	}
	return args
}

// wideBuffer is room for some 5,000 small datagrams, which the receiver needs
// while its CPU is another's: the default's 250 last 2 ms at 100 kpps.
const wideBuffer = 4 << 20

// socketBuffer returns the bytes that sockets may buffer in a lab, as far as the machine allows wideBuffer.
func socketBuffer() int {
	buffer := wideBuffer
	for _, name := range []string{"rmem_max", "wmem_max"} {
		text, err := os.ReadFile("/proc/sys/net/core/" + name)
		if err != nil {
			return 0
		}
		most, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0
		}
		buffer = min(buffer, most)
	}
	return buffer
}

// udpRate finds the rate at which most datagrams arrive. Sent as fast as possible,
// UDP keeps the CPU busy with datagrams that are lost, and on most platforms fewer
// arrive than of a slower stream; the paper remarks the same.
func (n *Network) udpRate(ctx context.Context, c Cell, length, tries int) (float64, error) {
	return search(tries, func(rate float64) (iperf.Transfer, error) {
		return n.iperf(ctx, c.Family, tryTime, n.udpArguments(length, rate)...)
	})
}

const (
	lossless = 0.005 // share of lost datagrams from which on a rate is too much
	asGood   = 0.97  // of the most that arrived: as much, with noise
)

// search returns the rate of sending (bits per second, 0 for no limit) at which
// most arrived of those tried; of rates that are as good, the one that lost least.
func search(tries int, try func(rate float64) (iperf.Transfer, error)) (float64, error) {
	full, err := try(0)
	if err != nil {
		return 0, err
	}
	if full.Loss <= lossless {
		return 0, nil // the sender is slower than all the rest
	}
	done := map[float64]iperf.Transfer{0: full}
	// The capacity is between a rate that loses nothing and one that does.
	low, high := full.BitRate/2, full.BitRate/(1-full.Loss)
	rate, most := full.BitRate, full.BitRate
	for range tries - 1 {
		t, err := try(rate)
		if err != nil {
			return 0, err
		}
		done[rate], most = t, max(most, t.BitRate)
		if t.Loss > lossless {
			high = rate
		} else {
			low = rate
		}
		rate = math.Sqrt(low * high)
	}
	best, least := 0.0, math.Inf(1)
	for rate, t := range done {
		if t.BitRate >= asGood*most && t.Loss < least {
			best, least = rate, t.Loss
		}
	}
	return best, nil
}
