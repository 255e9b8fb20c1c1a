// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"net"
	"time"

	"minne/internal/lab/histogram"
)

// Expect is how a stream's packets must look where they arrive.
type Expect struct {
	TTL        uint8            // as sent, less one per router
	FrameBytes int              // without FCS; 0 is any
	MAC        net.HardwareAddr // destination; its first MACBytes must agree
	MACBytes   int
	Timed      bool // measure latency and silence
	Filled     bool // check the transport checksum over the whole packet, and with it the payload
}

// Bits of checks in struct expectation (bpf/lab_sink.h).
const (
	checkTime  = 1
	checkUpper = 2
)

// expectation is what the program is told. latency is the slot for latencies.
func (e Expect) expectation(slot, latency int) labExpectation {
	x := labExpectation{Slot: uint16(slot + 1), Latency: uint16(latency), Bytes: uint16(e.FrameBytes), Ttl: e.TTL}
	copy(x.Mac[:], e.MAC)
	for i := range min(e.MACBytes, len(x.MacMask)) {
		x.MacMask[i] = 0xff
	}
	if e.Timed {
		x.Checks |= checkTime
	}
	if e.Filled {
		x.Checks |= checkUpper
	}
	return x
}

// Arrived is what a sink saw of a stream.
type Arrived struct {
	Received   uint64 `json:"received"` // each frame once
	Bytes      uint64 `json:"bytes"`    // of those, without FCS
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"` // after one with a higher sequence number (RFC 4737)
	// Counted for duplicates too:
	Corrupted uint64              `json:"corrupted"` // transport checksum wrong or missing
	BadTTL    uint64              `json:"bad_ttl"`
	BadHeader uint64              `json:"bad_header"` // IP version, header checksum, lengths
	BadMAC    uint64              `json:"bad_mac"`
	BadLength uint64              `json:"bad_length"` // another frame length than expected
	Latency   histogram.Histogram `json:"latency"`    // of timed streams
	// Of timed streams: the longest time between two arrivals, whichever CPUs they came to; exact to 1 µs.
	LongestSilence time.Duration `json:"longest_silence_ns"`
}

// Lost returns how many of the sent frames never came.
func (a Arrived) Lost(sent uint64) uint64 { return sent - min(sent, a.Received) }

// Wrong says what the router did to packets that it must not do, or "".
func (a Arrived) Wrong() string {
	if a.BadTTL+a.BadHeader+a.BadMAC+a.BadLength+a.Corrupted == 0 {
		return ""
	}
	return fmt.Sprintf("of %d packets %d had a wrong TTL, %d a wrong header checksum or length field, %d a wrong MAC, %d a wrong length, %d a damaged payload",
		a.Received, a.BadTTL, a.BadHeader, a.BadMAC, a.BadLength, a.Corrupted)
}

// add enters what one CPU saw.
func (a *Arrived) add(c *labArrival) {
	if c.Received == 0 {
		return
	}
	a.LongestSilence = max(a.LongestSilence, time.Duration(c.LongestSilence))
	a.Received += c.Received - c.Sequence.Duplicated
	a.Bytes += c.Bytes
	a.Duplicated += c.Sequence.Duplicated
	a.Reordered += c.Sequence.Reordered
	a.Corrupted += c.Corrupted
	a.BadTTL += c.BadTtl
	a.BadHeader += c.BadHeader
	a.BadMAC += c.BadMac
	a.BadLength += c.BadLength
}
