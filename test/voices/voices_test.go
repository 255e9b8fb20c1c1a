// SPDX-License-Identifier: Apache-2.0

// Package voices holds the test of the three voices: for every generated frame
// the reference router, the eBPF program and the Linux kernel must agree, byte
// for byte.
//
// What the program forwards, the kernel forwards too: the same bytes out of the
// same port. What the program drops, the kernel does not forward. What the
// program punts is unchanged. And the reference router agrees with the program on
// everything: bytes, verdict and reason, so that nothing is punted that could
// have been forwarded.
//
//	go test ./test/voices -packets 20000000 -seed 7    more, and others
//	go test ./test/voices -frame 123456 -v             one frame of a run, told in full
package voices

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"testing"

	"minne/internal/packet"
	"minne/internal/reference"
	"minne/internal/testns"
)

var (
	packets = flag.Uint64("packets", 1_000_000, "generated frames per address family")
	seed    = flag.Uint64("seed", 1, "seed of the generator")
	only    = flag.Int64("frame", -1, "number of the only frame to try")
)

func TestMain(m *testing.M) { testns.Main(m) }

// window is how many frames are asked at once; it fits every queue on the way.
const window = 256

// asked is a window of frames with what the reference said.
type asked struct {
	samples  []packet.Sample
	verdicts [][]reference.Verdict
}

func TestVoices(t *testing.T) {
	for _, defaultRoute := range []bool{false, true} {
		n := newNetwork(t, defaultRoute)
		kernel := newKernelVoice(t, n)
		for _, v6 := range []bool{false, true} {
			name := map[bool]string{false: "IPv4", true: "IPv6"}[v6] + map[bool]string{true: " with default route"}[defaultRoute]
			t.Run(name, func(t *testing.T) { run(t, n, kernel, v6) })
		}
	}
}

// run compares the voices on half of the family's frames.
func run(t *testing.T, n *network, kernel *kernelVoice, v6 bool) {
	windows := make(chan asked, 4)
	stop := make(chan struct{})
	defer close(stop)
	go produce(n, v6, windows, stop)
	var c count
	failures := 0
	for w := range windows {
		outputs, err := kernel.ask(w.samples)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range w.samples {
			c.add(s, w.verdicts[i], outputs[i])
			if err := compare(w.verdicts[i], outputs[i]); err != nil {
				t.Errorf("frame %d (%s) from port %d: %v\n%x", s.Number, s.Kind(), s.Port, err, head(s.Frame))
				failures++
			}
		}
		if failures >= 10 {
			t.Fatal("too many disagreements")
		}
	}
	t.Logf("%d frames, %d bytes: reference %v; kernel forwarded %d; %d windows repeated", c.frames, c.bytes, c.verdicts, c.forwarded, kernel.repeated)
	for _, r := range slices.Sorted(maps_keys(c.reasons)) {
		t.Logf("  %-24s %8d  kernel forwarded %d", r, c.reasons[r][0], c.reasons[r][1])
	}
}

// produce generates frames and asks the reference.
func produce(n *network, v6 bool, windows chan<- asked, stop <-chan struct{}) {
	defer close(windows)
	router, g := n.reference(), packet.NewGenerator(n.world(v6), *seed)
	from, to := uint64(0), *packets/2
	if *only >= 0 {
		from, to = uint64(*only), uint64(*only)+1
	}
	for at := from; at < to; at += window {
		var w asked
		for k := at; k < min(at+window, to); k++ {
			s := g.At(k)
			w.samples = append(w.samples, s)
			w.verdicts = append(w.verdicts, router.Decide(s.Port, s.Frame))
		}
		select {
		case windows <- w:
		case <-stop:
			return
		}
	}
}

type count struct {
	frames, bytes, forwarded int
	verdicts                 map[reference.Action]int
	reasons                  map[string]*[2]int
}

func (c *count) add(s packet.Sample, v []reference.Verdict, out []output) {
	if c.verdicts == nil {
		c.verdicts, c.reasons = map[reference.Action]int{}, map[string]*[2]int{}
	}
	c.frames++
	c.bytes += len(s.Frame)
	c.verdicts[v[0].Action]++
	key := v[0].Action.String() + " " + string(v[0].Reason)
	if c.reasons[key] == nil {
		c.reasons[key] = new([2]int)
	}
	c.reasons[key][0]++
	if len(out) > 0 {
		c.forwarded++
		c.reasons[key][1]++
	}
}

func maps_keys(m map[string]*[2]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// compare checks the reference against the kernel.
func compare(verdicts []reference.Verdict, outputs []output) error {
	switch verdicts[0].Action {
	case reference.Drop:
		if len(outputs) > 0 {
			return fmt.Errorf("reference drops (%s), kernel forwards to port %d: %x", verdicts[0].Reason, outputs[0].port, head(outputs[0].frame))
		}
	case reference.Forward:
		for _, v := range verdicts {
			if v.Action == reference.Punt {
				return nil
			}
		}
		if len(outputs) > 1 {
			return fmt.Errorf("reference forwards, kernel sends %d frames", len(outputs))
		}
		if len(outputs) == 0 {
			return fmt.Errorf("reference forwards to port %d, kernel does not", verdicts[0].Port)
		}
		for _, v := range verdicts {
			if v.Action == reference.Forward && v.Port == outputs[0].port && bytes.Equal(v.Frame, outputs[0].frame) {
				return nil
			}
		}
		return fmt.Errorf("reference forwards\n%x to port %d, kernel\n%x to port %d", head(verdicts[0].Frame), verdicts[0].Port, head(outputs[0].frame), outputs[0].port)
	}
	return nil
}

// head is the part of a frame that fits into a message.
func head(frame []byte) []byte { return frame[:min(len(frame), 100)] }
