// SPDX-License-Identifier: Apache-2.0

package traffic

import "testing"

// CheckOnWire sends the first frames of a lap with both generators and holds what
// a packet socket captures against Build, byte by byte, and the counts against the
// kernel's. It is for tests in package traffic_test, which may use what builds on this package.
func CheckOnWire(t *testing.T, l Lap, frames int) {
	t.Helper()
	program := newGenerator(t, l)
	socket := NewSocketGenerator()
	if err := socket.SetLap(l); err != nil {
		t.Fatal(err)
	}
	for _, send := range []func(Order) (Sent, error){
		func(o Order) (Sent, error) { return run(t, program, o), nil },
		func(o Order) (Sent, error) { return socket.Run(t.Context(), o) },
	} {
		wire := plug(t)
		off, err := Accepting(wire.right.index)
		if err != nil {
			t.Fatal(err)
		}
		captured, before := wire.right.capture(t), wire.right.received(t)
		o := Order{Routes: routes(wire), Frames: uint64(frames), Filled: true, Rate: 50_000}
		sent, err := send(o)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, captured, l, o, frames)
		if counted := wire.right.received(t) - before; sent.Frames != uint64(frames) || counted != uint64(frames) {
			t.Errorf("sent %d frames, the kernel counted %d; expected %d", sent.Frames, counted, frames)
		}
		off()
	}
}
