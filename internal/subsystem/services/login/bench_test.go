// SPDX-License-Identifier: Apache-2.0

package login

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
)

// host is the nth host of a large network.
func (b *box) host(n int) *Session {
	var mac config.MAC
	mac[0] = 2
	binary.BigEndian.PutUint32(mac[2:], uint32(n))
	return &Session{Login: "net", MAC: mac, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})}, Idle: Span(time.Hour)}
}

// BenchmarkVoucher is logins with vouchers, from the code to the store, without the portal and the firewall.
func BenchmarkVoucher(t *testing.B) {
	b := newBox(t, t.TempDir(), config.Login{Interfaces: []string{"lan"}, Users: []string{"vouchers"}})
	made, err := b.AddVouchers(VouchersWanted{Count: t.N, Seconds: 3600, Devices: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.ResetTimer()
	for n := range t.N {
		if err := b.use(b.host(n), made.Vouchers[n].Code); err != nil {
			t.Fatal(err)
		}
	}
	t.ReportMetric(float64(t.N)/t.Elapsed().Seconds(), "logins/s")
}

// BenchmarkVouchersTogether is the same with 32 people at a time, who share writes.
func BenchmarkVouchersTogether(t *testing.B) {
	b := newBox(t, t.TempDir(), config.Login{Interfaces: []string{"lan"}, Users: []string{"vouchers"}})
	made, err := b.AddVouchers(VouchersWanted{Count: t.N, Seconds: 3600, Devices: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.ResetTimer()
	var next atomic.Int64
	var people sync.WaitGroup
	for range 32 {
		people.Go(func() {
			for n := int(next.Add(1)) - 1; n < t.N; n = int(next.Add(1)) - 1 {
				if err := b.use(b.host(n), made.Vouchers[n].Code); err != nil {
					t.Error(err)
				}
			}
		})
	}
	people.Wait()
	t.ReportMetric(float64(t.N)/t.Elapsed().Seconds(), "logins/s")
}

// BenchmarkThirtyThousand is what 30,000 users cost: memory, and processor time of counting, of probing (without the pace) and of
// keeping counters, as parts of a core with their intervals.
func BenchmarkThirtyThousand(t *testing.B) {
	const users = 30_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := newBox(t, t.TempDir(), config.Login{Interfaces: []string{"lan"}, Users: []string{"local"}})
	b.mu.Lock()
	for n := range users {
		s := b.host(n)
		s.User, s.Kind, s.ID, s.Began, s.Active, s.read = fmt.Sprintf("user%d", n), "local", token(8), b.now, b.now, map[netip.Addr]Traffic{}
		s.Addresses = append(s.Addresses, netip.AddrFrom16([16]byte{0x20, 1, 13, 0xb8, 12: byte(n >> 16), 13: byte(n >> 8), 14: byte(n), 15: 1}))
		b.put(s)
		for _, a := range s.Addresses {
			b.own(s.Login, a, s.MAC)
			b.hosts.set(neighbour{"lan", a}, s.MAC, netlink.NUD_STALE)
		}
	}
	b.mu.Unlock()
	runtime.GC()
	runtime.ReadMemStats(&after)
	for n := range t.N {
		for _, s := range b.sessions {
			b.sums[s.Addresses[0]] = Traffic{uint64(n) * 1000, 0}
		}
		t.StartTimer()
		b.count(t.Context())
		t.StopTimer()
	}
	counting := t.Elapsed() / time.Duration(t.N)
	at := time.Now()
	b.flush()
	storing := time.Since(at)
	b.now = b.now.Add(time.Hour)
	at = time.Now()
	silent := b.silent()
	probing := time.Since(at)
	t.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	t.ReportMetric(100*counting.Seconds()/countEvery.Seconds(), "%core-counting")
	t.ReportMetric(100*storing.Seconds()/storeEvery.Seconds(), "%core-storing")
	t.ReportMetric(100*probing.Seconds()/interval(users).Seconds(), "%core-choosing-probes")
	t.ReportMetric(float64(len(silent))/interval(users).Seconds(), "probes/s")
}
