// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"minne/internal/subsystem/fastpath/flow"
)

// The fast path forgets what a flow has counted when the flow ends: on FIN, after a commit, when it
// was silent. Its connection lives on, for minutes or days, and has perhaps another flow. So what ended flows have
// counted is kept until the kernel no longer has the connection.
//
// The same addresses and ports may be another connection's later. The kernel says when a connection began
// (nf_conntrack_timestamp), and what ended before is not its.

const (
	// mostKept is how many connections totals are kept of: about 25 MB.
	mostKept = 1 << 18
	// leastKept is up to how many nobody looks whether the kernel still has them.
	leastKept = 1 << 14
	// pruneEvery is how soon after each other the kernel's table is read to forget what it no longer has.
	pruneEvery = 15 * time.Second
	// pastDepth is how many flows of a connection can be told apart by when they ended.
	pastDepth = 4
)

// past is what a flow of a connection had counted when it ended, the latest first. It is shared with the
// question that is being answered, so it is never changed.
type past struct {
	counts
	at     int64 // ns since 1970
	before *past // nil for the first
}

// since is what flows have counted that ended at or after a time; whole says that these are all.
func (p *past) since(began int64) (sum counts, whole bool) {
	for ; p != nil; p = p.before {
		if p.at < began {
			return sum, false
		}
		sum.add(&p.counts)
	}
	return sum, true
}

// upTo is p with those that are deeper added up.
func (p *past) upTo(depth int) *past {
	if p == nil || p.before == nil {
		return p
	}
	if depth > 1 {
		return &past{p.counts, p.at, p.before.upTo(depth - 1)}
	}
	sum, _ := p.since(0)
	return &past{counts: sum, at: p.at}
}

// after is p without what ended before a time; nil when nothing is left.
func (p *past) after(began int64) *past {
	if p == nil || p.at < began {
		return nil
	}
	return &past{p.counts, p.at, p.before.after(began)}
}

func (c *counts) add(o *counts) {
	for d := range 2 {
		c.packets[d] += o.packets[d]
		c.bytes[d] += o.bytes[d]
	}
}

// kept is what ended flows have counted, by connection: its key is the hash of a connection's first key.
type kept struct {
	seed maphash.Seed

	mu        sync.Mutex
	of        map[uint64]*past
	most      int
	during    map[uint64]bool // ids of flows that have ended since a question began; nil when there is none
	forgotten uint64          // flows whose counts found no room
	enough    int             // when there are so many, the kernel is asked which of them it still has
	pruned    time.Time       // when that was

	// While connections' ends are recorded, what an ended one had counted stays until that is done: missing is since
	// when the kernel no longer has it. nil when nobody records.
	missing map[uint64]time.Time
}

// missingFor is how long what belongs to no connection waits for the word of the connection's end.
const missingFor = time.Minute

// record says that ends of connections are recorded from now on, or no more.
func (k *kept) record(on bool, most int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.missing = nil; on {
		k.missing = map[uint64]time.Time{}
	}
	k.most = max(most, mostKept)
}

// take is what was counted of a connection that has ended: it is forgotten here.
func (k *kept) take(h uint64, began int64) (sum counts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sum, _ = k.of[h].since(began)
	delete(k.of, h)
	delete(k.missing, h)
	return sum
}

// has says whether anything is kept of a connection.
func (k *kept) has(h uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[h] != nil
}

// goes says whether what belongs to no connection of the kernel's may be forgotten.
func (k *kept) goes(h uint64, now time.Time) bool {
	if k.missing == nil {
		return true
	}
	since, ok := k.missing[h]
	if !ok {
		k.missing[h] = now
	}
	return ok && now.Sub(since) > missingFor
}

func newKept() *kept {
	return &kept{seed: maphash.MakeSeed(), of: map[uint64]*past{}, most: mostKept, enough: leastKept}
}

// add takes in a flow that has ended. It says whether it is time to prune.
func (k *kept) add(e *flow.Ended) (prune bool) {
	h := hash(k.seed, &e.Key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.during != nil {
		k.during[e.ID] = true
	}
	was := k.of[h]
	if was == nil && len(k.of) >= k.most {
		k.forgotten++
	} else {
		k.of[h] = (&past{counts{e.Packets, e.Bytes}, e.At.UnixNano(), was}).upTo(pastDepth)
	}
	enough := k.enough
	if k.missing != nil { // ends of connections make room
		enough = k.most - k.most/4
	}
	if len(k.of) < enough || time.Since(k.pruned) < pruneEvery {
		return false
	}
	k.pruned = time.Now()
	return true
}

// begin makes ready for a question: from now on it is noted which flows end.
func (k *kept) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.during = map[uint64]bool{}
}

// read is what there is now, and which flows have ended since begin.
func (k *kept) read() (of map[uint64]*past, ended map[uint64]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ended, k.during = k.during, nil
	return maps.Clone(k.of), ended
}

// settle forgets what no connection of the kernel has counted. r is of what read has returned.
func (k *kept) settle(r *repeated) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for h, p := range r.ended {
		later, cut := r.later[h]
		switch {
		case k.of[h] != p: // another flow has ended meanwhile
		case !r.found[h], cut && later == nil:
			if !r.found[h] && !k.goes(h, now) {
				continue
			}
			delete(k.of, h)
			delete(k.missing, h)
		case cut:
			k.of[h] = later
		}
	}
	k.enough = min(max(2*len(k.of), leastKept), k.most)
}

func (k *kept) stats() (connections int, forgotten uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.of), k.forgotten
}

// FlowEnded takes in what a flow had counted.
func (t *Table) FlowEnded(e flow.Ended) {
	t.meter.end(e.Key.Source, e.Key.Destination, e.Bytes)
	if t.ended.add(&e) {
		go t.prune()
	}
}

// prune reads the kernel's table for nothing but to forget what it no longer has. If that fails, it is tried again
// with the next question, or later.
func (t *Table) prune() {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.ended.begin()
	r := repeated{seed: t.ended.seed}
	r.ended, _ = t.ended.read()
	_ = t.join(context.Background(), &r, func(*Connection) {})
}
