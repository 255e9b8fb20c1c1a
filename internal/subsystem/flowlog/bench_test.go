// SPDX-License-Identifier: Apache-2.0

package flowlog

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"minne/internal/model/flowrecord"
)

// traffic makes records as a campus behind NAT gives them: 25,000 hosts, a public pool of 64 addresses, some hundred thousand
// servers of which a few are called most, short connections and few long ones; 31,000 a second.
type traffic struct {
	random *rand.Rand
	now    time.Time
	zipf   *rand.Zipf
	hosts  *rand.Zipf
}

func newTraffic(seed uint64) *traffic {
	random := rand.New(rand.NewPCG(seed, 7))
	return &traffic{random: random, now: time.UnixMilli(1_790_000_000_000), zipf: rand.NewZipf(random, 1.1, 4, 300_000), hosts: rand.NewZipf(random, 1.05, 1000, 25_000)}
}

func (t *traffic) batch(list []flowrecord.Record) []flowrecord.Record {
	r := t.random
	lan, wan := flowrecord.Way{Interface: "lan", Index: 2, Zone: "lan"}, flowrecord.Way{Interface: "wan", Index: 3, Zone: "wan"}
	for i := range list {
		t.now = t.now.Add(time.Duration(r.IntN(64_500)) * time.Nanosecond)
		host, server := t.hosts.Uint64(), uint32(t.zipf.Uint64()*2_654_435_761)|1<<24
		port, proto := uint16(443), uint8(6)
		switch n := r.IntN(10); {
		case n < 3:
			port, proto = 53, 17
		case n < 5:
			proto = 17
		case n == 9:
			port = 80
		}
		lasted := time.Duration(r.ExpFloat64()*float64(20*time.Second)).Truncate(time.Millisecond) + time.Millisecond
		packets := uint64(r.ExpFloat64()*20) + 2
		c := flowrecord.Record{From: t.now.Add(-lasted), To: t.now, Began: t.now.Add(-lasted), Reason: flowrecord.Expired, Protocol: proto, Answered: r.IntN(20) > 0,
			Source:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(host >> 16), byte(host >> 8), byte(host)}), uint16(32768+r.IntN(28232))),
			Called:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(server >> 24), byte(server >> 16), byte(server >> 8), byte(server)}), port),
			Packets: [2]uint64{packets, packets + packets/2}, Bytes: [2]uint64{packets*90 + r.Uint64N(60), packets*1100 + r.Uint64N(1400)}, In: lan, Out: wan}
		if proto == 6 {
			c.Reason = flowrecord.Closed
		}
		if port == 53 {
			c.Packets, c.Bytes = [2]uint64{1, 1}, [2]uint64{60 + r.Uint64N(20), 90 + r.Uint64N(200)}
		}
		c.Destination = c.Called
		c.Seen = netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(host % 64)}), uint16(1024+r.IntN(64_512)))
		list[i] = c
	}
	return list
}

// BenchmarkLog writes as many records as MINNE_FLOWLOG_RECORDS says (a million without it), and then asks who had a public address and port
// in a minute. It prints bytes per record, records per second of one writer, and seconds of the question, the slowest of five.
//
//	MINNE_FLOWLOG_RECORDS=100000000 TMPDIR=/var/tmp go test -run - -bench Log$ -benchtime 1x -timeout 2h ./internal/subsystem/flowlog
func BenchmarkLog(b *testing.B) {
	n := 1_000_000
	if text := os.Getenv("MINNE_FLOWLOG_RECORDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for range b.N {
		s, err := Open(b.TempDir(), Limits{Bytes: 1 << 40})
		if err != nil {
			b.Fatal(err)
		}
		t := newTraffic(1)
		list := make([]flowrecord.Record, 8192)
		var wanted []flowrecord.Record
		var writing time.Duration
		for at := 0; at < n; at += len(list) {
			list = t.batch(make([]flowrecord.Record, min(len(list), n-at)))
			if at%(max(n/5/8192, 1)*8192) == 0 && len(wanted) < 5 {
				wanted = append(wanted, list[len(list)/2])
			}
			begun := time.Now()
			if err := s.Append(list); err != nil {
				b.Fatal(err)
			}
			writing += time.Since(begun)
		}
		st := s.Stats()
		b.ReportMetric(float64(st.Bytes)/float64(n), "bytes/record")
		b.ReportMetric(float64(n)/writing.Seconds(), "records/s")
		slowest, read := 0.0, 0
		for _, w := range wanted {
			begun := time.Now()
			// Whole log: without a time each block's filter is asked.
			f, err := s.Find(b.Context(), Question{Translated: w.Seen, Host: netip.PrefixFrom(w.Source.Addr(), 32), Most: 100})
			if err != nil || len(f.Records) == 0 {
				b.Fatal("not found ", err)
			}
			slowest, read = max(slowest, time.Since(begun).Seconds()), max(read, f.Read)
		}
		b.ReportMetric(slowest, "s/question")
		b.ReportMetric(float64(read), "blocks-read")
		slowest = 0
		for _, w := range wanted {
			begun := time.Now()
			f, err := s.Find(b.Context(), Question{Translated: w.Seen, From: w.To.Add(-time.Minute), To: w.To, Most: 100})
			if err != nil || len(f.Records) == 0 {
				b.Fatal("not found ", err)
			}
			slowest = max(slowest, time.Since(begun).Seconds())
		}
		b.ReportMetric(slowest, "s/question-in-a-minute")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
