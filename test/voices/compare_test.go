// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"minne/internal/model/packet"
	"minne/internal/testing/reference"
	"minne/internal/testing/testframes"
)

// answers is what the voices say about one frame.
type answers struct {
	sample    testframes.Sample
	reference []reference.Verdict
	program   reference.Verdict
	kernel    []output // of a router without fast path
	live      []output // of a router with it
}

// compare returns every disagreement about a frame.
func (a answers) compare() error {
	return errors.Join(a.referenceAgrees(), a.kernelAgrees(), a.liveAgrees(), a.properties())
}

// looksUnsummed is the reason for which the program hands a frame to the kernel whose checksum is by chance what a sender leaves
// to hardware. The reference knows of no such senders; the kernel's frame is compared all the same.
const looksUnsummed = "checksum-offload"

// referenceAgrees: the same verdict for the same reason, and the same bytes out of
// the same port. Of several next hops the program may choose any.
func (a answers) referenceAgrees() error {
	for _, v := range a.reference {
		if v.Action == reference.Forward && a.program.Action == reference.Punt && a.program.Reason == looksUnsummed {
			return nil
		}
		if v.Action != a.program.Action || v.Reason != a.program.Reason {
			continue
		}
		if v.Action != reference.Forward || v.Port == a.program.Port && bytes.Equal(v.Frame, a.program.Frame) {
			return nil
		}
	}
	v := a.reference[0]
	return fmt.Errorf("reference: %v, program: %v\n%x\n%x", v, a.program, head(v.Frame), head(a.program.Frame))
}

// kernelAgrees: what the program forwards the kernel forwards, what it drops the kernel does not.
func (a answers) kernelAgrees() error {
	switch a.program.Action {
	case reference.Drop:
		if len(a.kernel) > 0 {
			return fmt.Errorf("program: %v, kernel forwards to port %d", a.program, a.kernel[0].port)
		}
	case reference.Forward:
		if len(a.kernel) != 1 {
			return fmt.Errorf("program: %v, kernel sends %d frames", a.program, len(a.kernel))
		}
		out := a.kernel[0]
		if out.port != a.program.Port || !bytes.Equal(out.frame, a.program.Frame) {
			return fmt.Errorf("program: %v, kernel to port %d\n%x\n%x", a.program, out.port, head(a.program.Frame), head(out.frame))
		}
	}
	return nil
}

// liveAgrees: with or without fast path, the router sends the same frames. The
// kernel writes the time of day into some IPv4 options, so there only the number counts.
func (a answers) liveAgrees() error {
	same := func(x, y output) bool { return x.port == y.port && bytes.Equal(x.frame, y.frame) }
	if hasOptions(a.sample.Frame) {
		same = func(x, y output) bool { return x.port == y.port && len(x.frame) == len(y.frame) }
	}
	if !slices.EqualFunc(a.kernel, a.live, same) {
		return fmt.Errorf("%d frames without fast path, %d with it (program: %v)", len(a.kernel), len(a.live), a.program)
	}
	return nil
}

// hasOptions tells whether a frame holds an IPv4 header with options, behind whatever tags.
func hasOptions(frame []byte) bool {
	at, kind, ok := packet.NetworkOffset(frame)
	return ok && kind == packet.TypeIPv4 && len(frame) > at && frame[at]&0xf > packet.IPv4Len/4
}

// properties are what must hold of the program's answer whatever the other voices
// say: a punted frame is unchanged; a forwarded one has one hop less to live, a
// right header checksum, and all else as it was.
func (a answers) properties() error {
	in, out := a.sample.Frame, a.program.Frame
	if a.program.Action != reference.Forward {
		if !bytes.Equal(in, out) {
			return fmt.Errorf("%v, but its bytes changed: %x", a.program, head(out))
		}
		return nil
	}
	in, out = in[packet.EthernetLen:], out[packet.EthernetLen:]
	if len(out) > len(in) || len(out) < packet.IPv4Len {
		return fmt.Errorf("%d bytes of network packet became %d", len(in), len(out))
	}
	in = slices.Clone(in[:len(out)])
	ttl := 7
	if in[0]>>4 == 4 {
		ttl = 8
		if packet.Checksum(out[:packet.IPv4Len]) != 0 {
			return errors.New("wrong header checksum")
		}
		copy(in[10:12], out[10:12])
		if int(binary.BigEndian.Uint16(out[2:])) != len(out) {
			return errors.New("padding left")
		}
	}
	if in[ttl]--; !bytes.Equal(in, out) {
		return errors.New("more than the TTL changed")
	}
	return nil
}

// head is the part of a frame that fits into a message.
func head(frame []byte) []byte { return frame[:min(len(frame), 100)] }

// count is how often what was answered.
type count struct {
	frames, bytes int
	verdicts      map[string]int
	forwarded     map[string]int // by the kernel, of these
}

func newCount() *count { return &count{verdicts: map[string]int{}, forwarded: map[string]int{}} }

func (c *count) add(a answers) {
	c.frames++
	c.bytes += len(a.sample.Frame)
	key := a.program.Action.String() + " " + string(a.program.Reason)
	c.verdicts[key]++
	if len(a.kernel) > 0 {
		c.forwarded[key]++
	}
}
