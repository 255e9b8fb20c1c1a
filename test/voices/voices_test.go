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
// The kernel is asked twice, in two routers that differ only in that one has the
// fast path on its ports: on the wire, nobody can tell which is which. There every
// frame is also found in the counters, once.
//
//	go test ./test/voices -packets 20000000 -seed 7    more, and others
//	go test ./test/voices -frame 123456 -v             one frame, told in full
package voices

import (
	"flag"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
	"minne/internal/testing/reference"
	"minne/internal/testing/testframes"
	"minne/internal/testing/testns"
)

var (
	packets = flag.Uint64("packets", 1_000_000, "generated frames per address family")
	seed    = flag.Uint64("seed", 1, "seed of the generator")
	only    = flag.Int64("frame", -1, "number of the only frame to try")
)

func TestMain(m *testing.M) { testns.Main(m) }

// window is how many frames are asked at once. It fits every queue on the way, and a
// port's share of it fits into one NAPI poll (64), so that markers by another port
// don't overtake it.
const window = 128

// tolerated is after how many disagreements a run ends.
const tolerated = 10

// voices are all that are asked.
type voices struct {
	network      *network
	reference    *reference.Router
	program      *fastpath.FastPath
	kernel, live *bed
}

func TestVoices(t *testing.T) {
	n := newNetwork(t)
	v := &voices{network: n, reference: reference.New(n.State)}
	v.kernel = newBed(t, n, newNamespace(t), 200)
	v.live = newBed(t, n, &namespace{}, 300)
	v.live.passAll(t, n)
	v.program = newFastPath(t, n)

	t.Run("IPv4", func(t *testing.T) { v.generated(t, false) })
	t.Run("IPv6", func(t *testing.T) { v.generated(t, true) })
	v.addDefaults(t)
	t.Run("IPv4 with default route", func(t *testing.T) { v.generated(t, false) })
	t.Run("IPv6 with default route", func(t *testing.T) { v.generated(t, true) })
	t.Run("captures", v.captures)
	t.Logf("windows repeated because the test bed lost frames: %d without, %d with fast path", v.kernel.repeated, v.live.repeated)
	if refused := v.kernel.refused + v.live.refused; refused > 0 {
		t.Errorf("%d frames were too long for their wire", refused)
	}
}

// addDefaults gives all voices default routes and waits until the program has heard of them.
func (v *voices) addDefaults(t *testing.T) {
	before := len(v.network.Routes)
	v.network.addDefaults()
	v.reference = reference.New(v.network.State)
	var lines []string
	for _, r := range v.network.Routes[before:] {
		lines = append(lines, routeCommand(r))
	}
	v.kernel.router.ip(t, lines)
	v.live.router.ip(t, lines)
	for _, dst := range []string{"100.64.0.1", "4000::1"} {
		frame := probe(netip.MustParseAddr(dst))
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			answer, err := v.program.Run(frame, firstIndex+jumboPort)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Action == fastpath.ActionRedirect {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the program has not heard of the default route: %v", answer.Reason)
			}
		}
	}
}

// probe is a datagram from the jumbo port to dst.
func probe(dst netip.Addr) []byte {
	src := senders(jumboPort, dst.Is6()).Addr()
	e := packet.Ethernet{Dst: portMAC(jumboPort), Type: packet.TypeIPv4}
	if dst.Is4() {
		return e.Append(nil, packet.IPv4{TTL: 9, Protocol: packet.ProtoUDP, Src: src, Dst: dst}.Append(nil, nil))
	}
	e.Type = packet.TypeIPv6
	return e.Append(nil, packet.IPv6{HopLimit: 9, NextHeader: packet.ProtoNoNext, Src: src, Dst: dst}.Append(nil, nil))
}

// generated compares the voices on half of the family's frames; the other half
// meets other routes.
func (v *voices) generated(t *testing.T, v6 bool) {
	g := testframes.NewGenerator(v.network.world(v6), *seed)
	from, to := uint64(0), *packets/2
	if *only >= 0 {
		from, to = uint64(*only), uint64(*only)+1
	}
	v.run(t, func(yield func([]testframes.Sample) bool) {
		for at := from; at < to; at += window {
			var samples []testframes.Sample
			for k := at; k < min(at+window, to); k++ {
				samples = append(samples, g.At(k))
			}
			if !yield(samples) {
				return
			}
		}
	})
}

// asked is a window of frames with what the first two voices said.
type asked struct {
	answers []answers
	err     error
}

// run asks all voices about windows of frames and compares. While the kernel works
// on one window, the other voices answer the next.
func (v *voices) run(t *testing.T, windows func(func([]testframes.Sample) bool)) {
	queue, stop := make(chan asked, 4), make(chan struct{})
	defer close(stop)
	go func() {
		defer close(queue)
		windows(func(samples []testframes.Sample) bool {
			select {
			case queue <- v.ask(samples):
				return true
			case <-stop:
				return false
			}
		})
	}()
	c, failures := newCount(), 0
	expected, marked, repeated := v.books(t), v.live.marked, v.live.repeated
	for w := range queue {
		if w.err == nil {
			w.err = v.askKernels(w.answers)
		}
		if w.err != nil {
			t.Fatal(w.err)
		}
		for _, a := range w.answers {
			c.add(a)
			if a.sample.Port != firstIndex+slowPort { // it has no program
				expected.enter(len(a.sample.Frame), a.program)
			}
			if err := a.compare(); err != nil {
				t.Errorf("frame %d (%s) to port %d:\n%x\n%v", a.sample.Number, a.sample.Kind(), a.sample.Port, head(a.sample.Frame), err)
				failures++
			}
		}
		if failures >= tolerated {
			t.Fatal("too many disagreements")
		}
	}
	expected.enterMarkers(v.live, marked)
	if repeated == v.live.repeated { // else frames were sent twice
		expected.balance(t, v.books(t))
	}
	if n := c.verdicts["punt "+looksUnsummed]; n > c.frames/10_000+5 {
		t.Errorf("%d of %d frames are taken for ones that their sender did not sum: chance makes one in 65,536", n, c.frames)
	}
	t.Logf("%d frames, %d bytes", c.frames, c.bytes)
	for _, key := range slices.Sorted(maps.Keys(c.verdicts)) {
		t.Logf("  %-24s %8d, of which the kernel forwarded %d", key, c.verdicts[key], c.forwarded[key])
	}
}

// ask asks the reference and the program.
func (v *voices) ask(samples []testframes.Sample) asked {
	w := asked{answers: make([]answers, len(samples))}
	for i, s := range samples {
		p, err := v.program.Run(s.Frame, s.Port)
		if err != nil {
			w.err = err
			return w
		}
		w.answers[i] = answers{sample: s, reference: v.reference.Decide(s.Port, s.Frame), program: verdict(p)}
	}
	return w
}

// askKernels asks both routers on the wire.
func (v *voices) askKernels(window []answers) error {
	var samples []testframes.Sample
	for _, a := range window {
		samples = append(samples, a.sample)
	}
	kernel, err := v.kernel.ask(samples)
	if err != nil {
		return err
	}
	live, err := v.live.ask(samples)
	if err != nil {
		return err
	}
	for i := range window {
		window[i].kernel, window[i].live = kernel[i], live[i]
	}
	return nil
}
