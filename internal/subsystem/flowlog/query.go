// SPDX-License-Identifier: Apache-2.0

package flowlog

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"minne/internal/model/flowrecord"
)

// Question chooses records. What is not set matches all. A record matches a time when it is about any of it.
type Question struct {
	From, To   time.Time
	Host       netip.Prefix   // any of the addresses, on either side of a translation
	Port       uint16         // any of the ports
	Protocols  []uint8        //
	Translated netip.AddrPort // what others saw in the place of one end: only translated connections; port 0 is any
	Most       int            // records at most: the latest
	After      uint64         // only records with this number and later
}

// Found is what a question found.
type Found struct {
	Records []flowrecord.Record // the latest last
	More    bool                // there are more than Most
	Blocks  int                 // that the log has
	Read    int                 // of them, those that had to be read
}

// Find answers a question, from the latest record to the earliest.
func (s *Store) Find(ctx context.Context, q Question) (Found, error) {
	s.mu.Lock()
	segments := make([]segment, len(s.segments))
	for i, g := range s.segments {
		segments[i] = *g
	}
	tail, first := s.tail, s.first
	s.mu.Unlock()
	f := finder{q: q, from: 0, to: 1<<63 - 1}
	if !q.From.IsZero() {
		f.from = q.From.UnixMilli()
	}
	if !q.To.IsZero() {
		f.to = q.To.UnixMilli()
	}
	if q.Most <= 0 {
		f.q.Most = int(^uint(0) >> 1)
	}
	for i := len(tail) - 1; i >= 0 && !f.found.More && first+uint64(i) >= q.After; i-- {
		if f.matches(&tail[i]) {
			f.take(tail[i])
		}
	}
	for i := len(segments) - 1; i >= 0; i-- {
		f.found.Blocks += len(segments[i].blocks)
		if f.found.More {
			continue
		}
		if err := f.segment(ctx, &segments[i]); err != nil {
			return Found{}, err
		}
	}
	if f.damaged > 0 {
		s.mu.Lock()
		s.stats.Damaged += f.damaged
		s.mu.Unlock()
	}
	slices.Reverse(f.found.Records)
	return f.found, nil
}

type finder struct {
	q        Question
	from, to int64
	found    Found // the latest record first
	damaged  uint64
}

func (f *finder) take(r flowrecord.Record) {
	if len(f.found.Records) >= f.q.Most {
		f.found.More = true
		return
	}
	f.found.Records = append(f.found.Records, r)
}

// key is what the filters of blocks are asked for; not ok when they can't tell.
func (f *finder) key() (key uint64, ok bool) {
	if t := f.q.Translated; t.IsValid() {
		return keyOf(t.Addr(), t.Port()), true
	}
	if h := f.q.Host; h.IsValid() && h.IsSingleIP() {
		return keyOf(h.Addr(), 0), true
	}
	return 0, false
}

// segment looks through a segment, the latest block first.
func (f *finder) segment(ctx context.Context, g *segment) error {
	var file *os.File
	key, keyed := f.key()
	line := make([]byte, lineBytes)
	for _, b := range slices.Backward(g.blocks) {
		if f.found.More || b.to < f.from || b.from > f.to || b.first+uint64(b.count) <= f.q.After {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if file == nil {
			var err error
			if file, err = os.Open(g.path); errors.Is(err, fs.ErrNotExist) {
				return nil // it had to go meanwhile
			} else if err != nil {
				return err
			}
			defer file.Close()
		}
		if keyed && b.filter > 0 {
			if _, err := file.ReadAt(line, b.at+headerSize+int64(lineOf(key, int(b.filter)))); err != nil {
				return err
			}
			if !mayHave(line, key) {
				continue
			}
		}
		f.found.Read++
		if err := f.block(file, b); errors.Is(err, errDamaged) {
			f.damaged++
		} else if err != nil {
			return err
		}
	}
	return nil
}

// block looks through one block.
func (f *finder) block(file *os.File, p placed) error {
	b, err := p.open(file)
	if err != nil {
		return err
	}
	k, err := b.keys()
	if err != nil {
		return err
	}
	var which []int
	hosts := f.hosts(&k)
	for i := int(b.count) - 1; i >= 0 && len(f.found.Records)+len(which) <= f.q.Most && b.first+uint64(i) >= f.q.After; i-- {
		if f.row(&k, i, hosts) {
			which = append(which, i)
		}
	}
	if len(which) == 0 {
		return nil
	}
	records, err := b.rows(&k, which)
	for i := range records {
		f.take(records[i])
	}
	return err
}

// hosts says of each address of the four lists of a block whether it is asked for; nil when all are.
func (f *finder) hosts(k *keys) *[4][]bool {
	if !f.q.Host.IsValid() {
		return nil
	}
	var in [4][]bool
	for i, l := range []list{k.sources, k.calleds, k.seens, k.destinationList} {
		in[i] = make([]bool, len(l))
		for j, a := range l {
			in[i][j] = f.q.Host.Contains(a)
		}
	}
	return &in
}

// row is matches, of a row whose record has not been made.
func (f *finder) row(k *keys, i int, hosts *[4][]bool) bool {
	if k.to[i] < f.from || k.to[i]-k.lasted[i] > f.to {
		return false
	}
	if hosts != nil && !hosts[0][k.source[i]] && !hosts[1][k.called[i]] &&
		(k.seen[i] == 0 || !hosts[2][k.seen[i]-1]) && (k.destination[i] == 0 || !hosts[3][k.destination[i]-1]) {
		return false
	}
	if p := f.q.Port; p != 0 && p != k.sourcePort[i] && p != k.calledPort[i] && p != k.seenPort[i] && p != k.destinationPort[i] {
		return false
	}
	if f.q.Protocols != nil && !slices.Contains(f.q.Protocols, k.protocol[i]) {
		return false
	}
	if t := f.q.Translated; t.IsValid() {
		is := func(a netip.Addr, port uint16) bool { return a == t.Addr() && (t.Port() == 0 || t.Port() == port) }
		return k.seen[i] > 0 && is(k.seens[k.seen[i]-1], k.seenPort[i]) ||
			k.destination[i] > 0 && is(k.calleds[k.called[i]], k.calledPort[i])
	}
	return true
}

// matches says whether a record is asked for.
func (f *finder) matches(r *flowrecord.Record) bool {
	q := &f.q
	ends := [4]netip.AddrPort{r.Source, r.Called, r.Seen, r.Destination}
	any := func(is func(netip.AddrPort) bool) bool { return slices.ContainsFunc(ends[:], is) }
	source, destination := r.Translated()
	is := func(e netip.AddrPort) bool {
		return e.Addr() == q.Translated.Addr() && (q.Translated.Port() == 0 || q.Translated.Port() == e.Port())
	}
	return r.To.UnixMilli() >= f.from && r.From.UnixMilli() <= f.to &&
		(!q.Host.IsValid() || any(func(e netip.AddrPort) bool { return q.Host.Contains(e.Addr()) })) &&
		(q.Port == 0 || any(func(e netip.AddrPort) bool { return e.Port() == q.Port })) &&
		(q.Protocols == nil || slices.Contains(q.Protocols, r.Protocol)) &&
		(!q.Translated.IsValid() || source && is(r.Seen) || destination && is(r.Called))
}

// Lasting calls visit for the records of connections that went on which are not older than the log's latest record by more
// than within, the earliest first.
func (s *Store) Lasting(within time.Duration, visit func(*flowrecord.Record)) error {
	s.mu.Lock()
	latest := int64(0)
	for _, g := range s.segments {
		for _, b := range g.blocks {
			latest = max(latest, b.to)
		}
	}
	for i := range s.tail {
		latest = max(latest, s.tail[i].To.UnixMilli())
	}
	since := latest - within.Milliseconds()
	var all []placedIn
	for _, g := range s.segments {
		for _, b := range g.blocks {
			if b.lasting > 0 && b.to >= since {
				all = append(all, placedIn{b, g.path})
			}
		}
	}
	tail := s.tail
	s.mu.Unlock()
	for _, b := range all {
		records, err := b.records()
		if err != nil && !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		visitLasting(records, visit)
	}
	visitLasting(tail, visit)
	return nil
}

type placedIn struct {
	placed
	path string
}

func (p placedIn) records() ([]flowrecord.Record, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := p.open(f)
	if err != nil {
		return nil, err
	}
	return b.all()
}

func visitLasting(records []flowrecord.Record, visit func(*flowrecord.Record)) {
	for i := range records {
		if records[i].Reason == flowrecord.Lasts {
			visit(&records[i])
		}
	}
}
