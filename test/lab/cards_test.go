// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/lab/openloop"
	"minne/internal/lab/trial"
	"minne/internal/testing/faulty"
)

// bed is a tester between two ports of this machine with a faulty device between
// them, as with network cards:
//
//	tx ◀────▶ near [faulty] far ◀────▶ rx
type bed struct {
	tx, rx string
	device *faulty.Device
}

var beds atomic.Int32

// newBed cables two ports with a device that has the faults.
func newBed(t *testing.T, f faulty.Faults) *bed {
	t.Helper()
	// The kernel's own neighbour discovery has no business on these cables.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	n := beds.Add(1)
	b := &bed{tx: fmt.Sprintf("tx%d", n), rx: fmt.Sprintf("rx%d", n)}
	near, far := plug(t, b.tx, fmt.Sprintf("near%d", n)), plug(t, b.rx, fmt.Sprintf("far%d", n))
	d, err := faulty.Start(near, far, f)
	if err != nil {
		t.Fatal(err)
	}
	b.device = d
	t.Cleanup(func() { d.Close() })
	return b
}

// plug makes a cable of one queue between two new ports and returns the index of the second.
func plug(t *testing.T, a, b string) int {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = a, 1, 1
	v := &netlink.Veth{LinkAttrs: attrs, PeerName: b, PeerNumTxQueues: 1, PeerNumRxQueues: 1}
	if err := netlink.LinkAdd(v); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { netlink.LinkDel(v) })
	index := 0
	for _, name := range []string{a, b} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		index = l.Attrs().Index
	}
	return index
}

// settle waits until the kernel has given a port its link-local address, which it does some time
// after both ends are up: nobody shall be blamed for what changes there.
func settle(t *testing.T, port string) {
	t.Helper()
	l, err := netlink.LinkByName(port)
	if err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		addresses, err := netlink.AddrList(l, netlink.FAMILY_V6)
		if err != nil {
			t.Fatal(err)
		}
		if len(addresses) > 0 {
			return
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("port %s got no link-local address: is IPv6 off here?", port)
		}
	}
}

// rig measures through the two ports.
func (b *bed) rig(t *testing.T, traffic string) *openloop.Rig {
	t.Helper()
	r, err := openloop.StartCards(t.Context(), openloop.Cards{Left: b.tx, Right: b.rx}, openloop.Setup{Traffic: parse(t, traffic)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	r.Timed(true)
	return r
}

// unhurried is a bench on a machine that others use too: what it could not send is not asked for.
type unhurried struct{ *openloop.Rig }

func (u unhurried) Attempt(ctx context.Context, load trial.Load) (trial.Result, error) {
	r, err := u.Rig.Attempt(ctx, load)
	r.Intended, r.Gaps, r.GapTime = r.Sent, 0, 0
	return r, err
}

// engine makes trials of a rig's attempts, with a short warm-up.
func engine(r *openloop.Rig, load float64) *trial.Engine {
	return trial.NewEngine(unhurried{r}, trial.Options{WarmUp: 50 * time.Millisecond, MaxLoad: load, Settle: -1})
}
