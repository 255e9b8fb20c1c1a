// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"net/netip"
	"testing"
	"time"
)

func TestSizeFitsTheMemory(t *testing.T) {
	for _, c := range []struct {
		memory   uint64
		from, to int
	}{
		{64 << 20, 8_000, 12_000},
		{512 << 20, 95_000, 105_000},
		{4 << 30, 750_000, 850_000},
		{64 << 30, 1 << 20, 1 << 20},
		{0, MinFlows, MinFlows},
	} {
		s := SizeFor(c.memory)
		if s.Flows < c.from || s.Flows > c.to {
			t.Errorf("%d MiB: %d flows, expected %d to %d", c.memory>>20, s.Flows, c.from, c.to)
		}
		if s.Flows > MinFlows && uint64(s.Bytes()) > c.memory/32 {
			t.Errorf("%d MiB: %d bytes are more than a 32nd", c.memory>>20, s.Bytes())
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{0, MinFlows - 1, MaxFlows + 1} {
		if (Size{n}).Check() == nil {
			t.Errorf("%d flows are accepted", n)
		}
	}
	for n := MinFlows; n < MaxFlows; n += n/3 + 1 {
		e := (Size{n}).Entries()
		if mean := float64(2*n) / float64(e["flow_index"]); mean > 6.4 || e["flow_index"]%2 != 0 {
			t.Errorf("%d flows: %d buckets", n, e["flow_index"])
		}
		if int(e["flow_free"]) < n || e["flow_free"]&(e["flow_free"]-1) != 0 || int(e["flow_sides"]) != 2*n+2 {
			t.Errorf("%d flows: %v", n, e)
		}
	}
}

func TestKeysKeepWhatTheySay(t *testing.T) {
	for _, k := range []Key{
		{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.255"), 1, 65535, 7, 6, false},
		{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("::ffff:192.0.2.1"), 258, 3, 65535, 255, false},
		{netip.MustParseAddr("::"), netip.MustParseAddr("::1"), 0, 0, 0, 0, false},
	} {
		raw := k.raw()
		if got := raw.key(); got != k {
			t.Errorf("%v became %v", k, got)
		}
		echo := k
		echo.EchoReply = true
		if raw := echo.raw(); raw.key() != echo {
			t.Errorf("the reply to an echo %v became %v", echo, raw.key())
		}
		reply := k.Reply(3)
		if back := reply.Reply(k.Zone); back != k || reply.SourcePort != k.DestinationPort || reply.Zone != 3 {
			t.Errorf("the reply to %v is %v", k, reply)
		}
	}
	mapped := Key{Source: netip.MustParseAddr("::ffff:192.0.2.1"), Destination: netip.MustParseAddr("::ffff:192.0.2.2")}
	four := Key{Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("192.0.2.2")}
	if mapped.Words() == four.Words() {
		t.Error("IPv4 and IPv4 written as IPv6 are one key")
	}
}

func TestTimeouts(t *testing.T) {
	if err := DefaultTimeouts.check(); err != nil {
		t.Error(err)
	}
	for _, d := range []time.Duration{0, time.Second, 24 * time.Hour} {
		o := DefaultTimeouts
		o.UDP = d
		if o.check() == nil {
			t.Errorf("a timeout of %v is accepted", d)
		}
	}
	if idle(5, 3) != 2 || idle(3, 5) != 0 || idle(1, 65535) != 2 {
		t.Error("the clock does not go round")
	}
}

func TestMemoryMustBeLargeEnough(t *testing.T) {
	if _, err := New(Memory{}, Size{1000}, DefaultTimeouts); err == nil {
		t.Error("no memory is enough")
	}
}
