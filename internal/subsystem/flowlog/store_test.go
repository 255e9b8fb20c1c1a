// SPDX-License-Identifier: Apache-2.0

package flowlog

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"minne/internal/model/flowrecord"
)

// made are records of all kinds.
func made(n int, seed uint64) []flowrecord.Record {
	random := rand.New(rand.NewPCG(seed, 1))
	at := time.UnixMilli(1_790_000_000_000)
	list := make([]flowrecord.Record, n)
	for i := range list {
		at = at.Add(time.Duration(random.IntN(20)-3) * time.Millisecond)
		four := func(a, b byte) netip.Addr {
			return netip.AddrFrom4([4]byte{a, b, byte(random.IntN(4)), byte(random.IntN(256))})
		}
		end := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, uint16(random.IntN(1<<16))) }
		r := flowrecord.Record{To: at, From: at.Add(-time.Duration(random.IntN(1e6)) * time.Millisecond), Protocol: []byte{6, 17, 1}[random.IntN(3)],
			Reason: flowrecord.Reason(random.IntN(5)), Answered: random.IntN(2) == 0, Table: uint16(random.IntN(2) * 300),
			Source: end(four(10, 0)), Called: end(four(203, 0)),
			Packets: [2]uint64{random.Uint64N(1000), random.Uint64N(1 << 50)}, Bytes: [2]uint64{random.Uint64N(1e6), random.Uint64N(1 << 60)},
			In: flowrecord.Way{Interface: "lan", Index: 2, Zone: "inside"}, Out: flowrecord.Way{Interface: "wan", Index: uint32(random.IntN(3))}}
		if random.IntN(8) == 0 {
			six := [16]byte{0x20, 1, 0xd, 0xb8, 15: byte(random.IntN(256))}
			r.Source, r.Called = end(netip.AddrFrom16(six)), end(netip.AddrFrom16(six))
		}
		r.Seen, r.Destination = r.Source, r.Called
		if r.Source.Addr().Is4() && random.IntN(2) == 0 {
			r.Seen = end(four(198, 51))
		}
		if random.IntN(10) == 0 {
			r.Destination = end(four(192, 168))
		}
		if random.IntN(5) > 0 {
			r.Began = r.From.Add(-time.Duration(random.IntN(2)*random.IntN(1e6)) * time.Millisecond)
		}
		if r.Reason == flowrecord.Lasts {
			r.SoFar = flowrecord.SoFar{Packets: [2]uint64{random.Uint64(), 2}, Bytes: [2]uint64{3, random.Uint64()}, FastPackets: [2]uint64{4, 5}, FastBytes: [2]uint64{6, 7}}
		}
		list[i] = r
	}
	return list
}

func same(t *testing.T, got, want []flowrecord.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, expected %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("record %d:\n%+v\nexpected\n%+v", i, got[i], want[i])
		}
	}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Limits{Bytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func appendAll(t *testing.T, s *Store, records []flowrecord.Record, batch int) {
	t.Helper()
	for len(records) > 0 {
		n := min(batch, len(records))
		if err := s.Append(records[:n]); err != nil {
			t.Fatal(err)
		}
		records = records[n:]
	}
}

func find(t *testing.T, s *Store, q Question) Found {
	t.Helper()
	f, err := s.Find(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What a log says is what it was told, in blocks and in the tail, before and after a start; and a question finds what a
// look at each record finds.
func TestLogKeepsAndFinds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	records := made(2*blockRecords+1000, 1)
	s := open(t, dir)
	appendAll(t, s, records, 999)
	same(t, find(t, s, Question{}).Records, records)
	s.Close()
	s = open(t, dir)
	if n := s.Next(); n != uint64(len(records)) {
		t.Errorf("next is %d", n)
	}
	r := records[20_000]
	translated := records[1]
	for _, one := range records {
		if one.Seen != one.Source {
			translated = one
			break
		}
	}
	for _, q := range []Question{
		{},
		{Host: netip.PrefixFrom(r.Source.Addr(), r.Source.Addr().BitLen())},
		{Host: netip.MustParsePrefix("198.51.2.0/28")},
		{Host: netip.MustParsePrefix("2001:db8::7/128")},
		{Host: netip.MustParsePrefix("192.0.2.1/32")},
		{Port: r.Called.Port(), Protocols: []uint8{6}},
		{Translated: translated.Seen},
		{Translated: translated.Seen, From: translated.To, To: translated.To},
		{Translated: netip.AddrPortFrom(translated.Seen.Addr(), 0)},
		{From: r.To, To: r.To.Add(time.Second)},
		{From: r.To.Add(time.Hour * 24)},
		{After: 50_000},
		{Most: 10, Host: netip.MustParsePrefix("10.0.1.0/24")},
	} {
		f := finder{q: q, to: 1<<63 - 1}
		if !q.From.IsZero() {
			f.from = q.From.UnixMilli()
		}
		if !q.To.IsZero() {
			f.to = q.To.UnixMilli()
		}
		var want []flowrecord.Record
		for i := range records {
			if uint64(i) >= q.After && f.matches(&records[i]) {
				want = append(want, records[i])
			}
		}
		more := q.Most > 0 && len(want) > q.Most
		if more {
			want = want[len(want)-q.Most:]
		}
		got := find(t, s, q)
		if same(t, got.Records, want); got.More != more || got.Blocks != 2 {
			t.Errorf("%+v: more %v, %d blocks", q, got.More, got.Blocks)
		}
	}
	if f := find(t, s, Question{Host: netip.MustParsePrefix("192.0.2.1/32")}); f.Read != 0 {
		t.Errorf("%d blocks were read for an address that none has", f.Read)
	}
	var lasting []flowrecord.Record
	if err := s.Lasting(time.Hour, func(r *flowrecord.Record) { lasting = append(lasting, *r) }); err != nil {
		t.Fatal(err)
	}
	var want []flowrecord.Record
	visitLasting(records, func(r *flowrecord.Record) { want = append(want, *r) })
	same(t, lasting, want)
}

// Whatever is cut off or overwritten at the end costs what stood there and nothing else; a tail that has become a block
// is not read twice.
func TestTornEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	records := made(blockRecords+500, 2)
	appendAll(t, s, records[:blockRecords-100], blockRecords)
	before, err := os.ReadFile(filepath.Join(dir, tailName))
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, records[blockRecords-100:], 100)
	s.Close()
	tail, err := os.ReadFile(filepath.Join(dir, tailName))
	if err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*"+segmentEnd))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	whole, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-10]++
	for _, c := range []struct {
		name          string
		segment, tail []byte
		want          []flowrecord.Record
	}{
		{"whole", whole, tail, records},
		{"half a batch", whole, tail[:len(tail)-7], records[:len(records)-100]},
		{"no tail", whole, nil, records[:blockRecords]},
		{"tail not emptied", whole, before, records[:blockRecords]},
		{"half a block, tail not emptied", whole[:len(whole)/2], before, records[:blockRecords-100]},
		{"damaged block, tail not emptied", damaged, before, records[:blockRecords-100]},
		{"rubbish behind the block", append(bytes.Clone(whole), "MNFL rubbish"...), tail, records},
	} {
		if os.WriteFile(segments[0], c.segment, 0o600) != nil || os.WriteFile(filepath.Join(dir, tailName), c.tail, 0o600) != nil {
			t.Fatal("write")
		}
		s := open(t, dir)
		got := find(t, s, Question{}).Records
		t.Log(c.name, s.Stats())
		same(t, got, c.want)
		// and it goes on
		appendAll(t, s, records[:10], 10)
		s.Close()
		s = open(t, dir)
		same(t, find(t, s, Question{}).Records, append(c.want[:len(c.want):len(c.want)], records[:10]...))
		s.Close()
	}
}

// A log takes what it may: the oldest records go.
func TestBudget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir, Limits{Bytes: 8 << 20, Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := made(10*blockRecords, 3)
	for i := range records {
		late := time.Since(records[i].To)
		records[i].To, records[i].From, records[i].Began = records[i].To.Add(late), records[i].From.Add(late), time.Time{}
	}
	appendAll(t, s, records, 5000)
	stats := s.Stats()
	if stats.Bytes > 8<<20 || stats.Removed == 0 || stats.Records+stats.Removed != uint64(len(records)) {
		t.Errorf("%+v", stats)
	}
	if on := size(t, dir); on != stats.Bytes {
		t.Errorf("%d bytes on the disk, counted %d", on, stats.Bytes)
	}
	s.trim(time.Now().Add(2 * time.Hour))
	if stats = s.Stats(); stats.Records != 0 || size(t, dir) != 0 {
		t.Errorf("too old: %+v", stats)
	}
}

func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// A damaged block is an error, never a panic or a great allocation.
func FuzzBlock(f *testing.F) {
	f.Add(encode(made(50, 4), 7, true))
	f.Add(encode(made(50, 5), 7, false))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(b)
		if err != nil {
			return
		}
		if one, err := openBlock(h, b[min(headerSize, len(b)):]); err == nil {
			_, _ = one.all()
		}
	})
}
