// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"minne/internal/subsystem/fastpath/fib"
)

// table4 is what an operator sees of the IPv4 table.
func (b *bench) table4() ObservedTable {
	b.t.Helper()
	o, err := b.fast.Observe(context.Background())
	must(b.t, err)
	return o.Tables[0]
}

// grown makes the IPv4 table as if it had many routes.
func (b *bench) grown() error {
	return b.fast.withTables(func() error {
		s := b.fast.prog.shape
		s.capacity4 = fib.Full
		return b.fast.rebuild(s)
	})
}

// TestAutoIsWhatWasMeasured: a small table has the default, a large one what was measured; another answer waits until the
// tables are built anew. No packet is lost meanwhile.
func TestAutoIsWhatWasMeasured(t *testing.T) {
	b := newBench(t)
	eventually(t, "the fast path forwards", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in).Reason == Forwarded
	})
	if got := b.table4(); got.Why != "configured" {
		t.Errorf("configured: %+v", got)
	}
	stop := b.stream()
	answer := Chosen{fib.Range16, "measured, says a test"}
	b.fast.ChooseBy(func() Chosen { return answer })
	auto := b.desired()
	auto.Auto = true
	apply := func() { t.Helper(); must(t, b.fast.Apply(context.Background(), auto)) }
	apply()
	if got := b.table4(); got.Structure != "range18" || !strings.Contains(got.Why, "small") {
		t.Errorf("small: %+v", got)
	}
	must(t, b.grown())
	if got := b.table4(); got.Structure != "range16" || got.Why != answer.Why {
		t.Errorf("grown: %+v", got)
	}
	answer.Structure = fib.Direct24
	apply()
	if got := b.table4(); got.Structure != "range16" || !strings.Contains(got.Why, "then direct24: measured") {
		t.Errorf("another answer, nothing built: %+v", got)
	}
	for _, s := range []fib.Structure{fib.Direct24, fib.Range20, fib.Range18, fib.Range16} {
		answer.Structure = s
		must(t, b.grown())
		if got := b.table4(); got.Structure != s.String() || got.Why != answer.Why {
			t.Errorf("built anew: %+v", got)
		}
	}
	configured := b.desired()
	configured.Structure = fib.Range20
	must(t, b.fast.Apply(context.Background(), configured))
	if got := b.table4(); got.Structure != "range20" || got.Why != "configured" {
		t.Errorf("configured again: %+v", got)
	}
	apply()
	if got := b.table4(); got.Structure != "range16" {
		t.Errorf("auto again: %+v", got)
	}
	if sent, lost := stop(); lost != 0 || sent == 0 {
		t.Errorf("%d of %d packets lost", lost, sent)
	}
	b.expect(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in, Forwarded)
}

// TestAChoiceThatCantBeLoaded: the kernel has no memory for the structure that was measured to be the fastest.
func TestAChoiceThatCantBeLoaded(t *testing.T) {
	b := newBench(t)
	b.fast.ChooseBy(func() Chosen { return Chosen{fib.Direct24, "measured, says a test"} })
	auto := b.desired()
	auto.Auto = true
	must(t, b.fast.Apply(context.Background(), auto))
	b.fast.load = func(s shape, lasting map[string]*ebpf.Map) (*program, error) {
		if s.structure == fib.Direct24 {
			return nil, errNoMemory
		}
		return load(s, lasting)
	}
	must(t, b.grown())
	if got := b.table4(); got.Structure != fib.Default.String() {
		t.Errorf("%+v", got)
	}
	b.expect(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in, Forwarded)
}
