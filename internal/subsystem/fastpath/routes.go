// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/fib"
)

// Routes of one family and one class (local, or everything else) as the kernel
// has them: per prefix a chain of candidates, of which the lowest metric counts.
// A million of them must fit into little memory, so a candidate is 12 bytes and a
// prefix a small key without pointers.

// key is a prefix without pointers.
type key4 uint64 // address << 8 | length

type key6 struct {
	hi, lo uint64
	bits   uint8
}

func makeKey4(p netip.Prefix) key4 {
	a := p.Addr().As4()
	return key4(binary.BigEndian.Uint32(a[:]))<<8 | key4(p.Bits())
}

func (k key4) prefix() netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(k>>8))
	return netip.PrefixFrom(netip.AddrFrom4(a), int(uint8(k)))
}

func makeKey6(p netip.Prefix) key6 {
	a := p.Addr().As16()
	return key6{binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:]), uint8(p.Bits())}
}

func (k key6) prefix() netip.Prefix {
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], k.hi)
	binary.BigEndian.PutUint64(a[8:], k.lo)
	return netip.PrefixFrom(netip.AddrFrom16(a), int(k.bits))
}

// candidate is one route to a prefix. (metric, kind) is its identity there.
type candidate struct {
	metric uint32
	next   uint32 // of the same prefix; 0 ends the chain
	hop    uint16 // next hop index
	kind   uint8  // TOS of IPv4; sourceSpecific for IPv6 routes with a source
	round  uint8  // of the last full account that told of it
}

// sourceSpecific marks the one candidate that stands for all source-specific routes to a prefix.
const sourceSpecific = 1

// routeTable is the routes of one family and class.
type routeTable[K comparable] struct {
	heads map[K]uint32 // index of the first candidate
	slab  []candidate  // slab[0] is never used
	free  uint32       // chain of unused candidates
}

func newRouteTable[K comparable]() *routeTable[K] {
	return &routeTable[K]{heads: map[K]uint32{}, slab: make([]candidate, 1)}
}

// best is the next hop of a prefix: 0 when it has no route, special when only the kernel can say.
func (t *routeTable[K]) best(k K, special uint16) uint16 {
	at := t.heads[k]
	if at == 0 {
		return 0
	}
	best := t.slab[at]
	for at != 0 {
		c := t.slab[at]
		if c.kind != 0 {
			return special
		}
		if c.metric < best.metric {
			best = c
		}
		at = c.next
	}
	return best.hop
}

// put adds or replaces a candidate, and returns the next hop that it replaced, 0 for none.
func (t *routeTable[K]) put(k K, c candidate) uint16 {
	head := t.heads[k]
	for at := head; at != 0; at = t.slab[at].next {
		if old := &t.slab[at]; old.metric == c.metric && old.kind == c.kind {
			hop := old.hop
			old.hop, old.round = c.hop, c.round
			return hop
		}
	}
	at := t.free
	if at != 0 {
		t.free = t.slab[at].next
	} else {
		at = uint32(len(t.slab))
		t.slab = append(t.slab, candidate{})
	}
	c.next = head
	t.slab[at] = c
	t.heads[k] = at
	return 0
}

// drop removes a candidate and returns its next hop, 0 when there was none.
func (t *routeTable[K]) drop(k K, metric uint32, kind uint8) uint16 {
	before := uint32(0)
	for at := t.heads[k]; at != 0; before, at = at, t.slab[at].next {
		if c := t.slab[at]; c.metric == metric && c.kind == kind {
			t.unlink(k, before, at)
			return c.hop
		}
	}
	return 0
}

func (t *routeTable[K]) unlink(k K, before, at uint32) {
	next := t.slab[at].next
	switch {
	case before != 0:
		t.slab[before].next = next
	case next != 0:
		t.heads[k] = next
	default:
		delete(t.heads, k)
	}
	t.slab[at] = candidate{next: t.free}
	t.free = at
}

// sweep removes the candidates that the account of this round did not repeat. gone is called for
// each, after it has been removed.
func (t *routeTable[K]) sweep(round uint8, gone func(K, uint16)) {
	for k, at := range t.heads {
		before := uint32(0)
		for at != 0 {
			c := t.slab[at]
			if c.round == round {
				before = at
			} else {
				t.unlink(k, before, at)
				gone(k, c.hop)
			}
			at = c.next
		}
	}
}

// all yields every prefix with its next hop.
func (t *routeTable[K]) all(special uint16, prefix func(K) netip.Prefix, local bool) iter.Seq[fib.Route] {
	return func(yield func(fib.Route) bool) {
		for k := range t.heads {
			if !yield(fib.Route{Prefix: prefix(k), NextHop: t.best(k, special), Local: local}) {
				return
			}
		}
	}
}

// fibTable is what the compilers of both families have in common.
type fibTable interface {
	Set(netip.Prefix, uint16) error
	SetLocal(netip.Prefix, uint16) error
	Delete(netip.Prefix) bool
	DeleteLocal(netip.Prefix) bool
	Publish() error
	Replace(iter.Seq[fib.Route]) error
	Stats() fib.Stats
}

// family is the routes of one family and where they are compiled to.
type family[K comparable] struct {
	number  int // 4 or 6
	key     func(netip.Prefix) K
	prefix  func(K) netip.Prefix
	main    *routeTable[K]
	local   *routeTable[K]
	sources map[K]map[sourceRoute]uint8 // source-specific routes and their rounds
}

// sourceRoute tells source-specific routes to one prefix apart.
type sourceRoute struct {
	source netip.Prefix
	metric uint32
}

func newFamily[K comparable](number int, key func(netip.Prefix) K, prefix func(K) netip.Prefix) *family[K] {
	return &family[K]{number: number, key: key, prefix: prefix, main: newRouteTable[K](), local: newRouteTable[K](), sources: map[K]map[sourceRoute]uint8{}}
}

// prefixes is how many prefixes have a route.
func (f *family[K]) prefixes() int { return len(f.main.heads) + len(f.local.heads) }

// change takes one route in or out, and brings the prefix up to date in to (nil: it will be
// filled whole later). The next hops come interned from t.
func (f *family[K]) change(t *tables, c *rib.RouteChange, to fibTable) error {
	r := &c.Route
	k := f.key(r.Prefix.Masked())
	routes, local := f.main, false
	if r.Table == rib.TableLocal {
		routes, local = f.local, true
	}
	special := t.hops.special.index
	before := routes.best(k, special)
	kind := r.TOS
	if f.number == 6 {
		kind = 0
		if r.Source.IsValid() && r.Source.Bits() > 0 {
			f.changeSource(t, k, routes, c)
			kind = sourceSpecific
		}
	}
	switch {
	case kind == sourceSpecific && f.number == 6:
	case c.Deleted:
		t.hops.release(routes.drop(k, r.Metric, kind))
	default:
		hop := t.hops.intern(specOf(r))
		t.hops.release(routes.put(k, candidate{metric: r.Metric, hop: hop, kind: kind, round: t.round}))
	}
	after := routes.best(k, special)
	if !local && before != after {
		t.heedBackup(r.Table, f.prefix(k), after != 0)
	}
	if to == nil || before == after {
		return nil
	}
	return write(to, f.prefix(k), after, local)
}

// changeSource keeps the set of source-specific routes to a prefix, for which one candidate stands.
func (f *family[K]) changeSource(t *tables, k K, routes *routeTable[K], c *rib.RouteChange) {
	id := sourceRoute{c.Route.Source, c.Route.Metric}
	if c.Deleted {
		delete(f.sources[k], id)
		if len(f.sources[k]) == 0 {
			delete(f.sources, k)
			t.hops.release(routes.drop(k, 0, sourceSpecific))
		}
		return
	}
	if f.sources[k] == nil {
		f.sources[k] = map[sourceRoute]uint8{}
	}
	f.sources[k][id] = t.round
	t.hops.hold(t.hops.special)
	t.hops.release(routes.put(k, candidate{hop: t.hops.special.index, kind: sourceSpecific, round: t.round}))
}

// sweep removes what the account of this round did not repeat.
func (f *family[K]) sweep(t *tables, to fibTable) error {
	var failed error
	for k, set := range f.sources {
		for id, round := range set {
			if round != t.round {
				delete(set, id)
			}
		}
		if len(set) == 0 {
			delete(f.sources, k)
		}
	}
	for _, class := range []struct {
		routes *routeTable[K]
		local  bool
	}{{f.main, false}, {f.local, true}} {
		class.routes.sweep(t.round, func(k K, hop uint16) {
			t.hops.release(hop)
			if to == nil {
				return
			}
			if err := write(to, f.prefix(k), class.routes.best(k, t.hops.special.index), class.local); err != nil {
				failed = err
			}
		})
	}
	return failed
}

// fill compiles every route into to, which takes them all at once.
func (f *family[K]) fill(t *tables, to fibTable) error {
	special := t.hops.special.index
	return to.Replace(func(yield func(fib.Route) bool) {
		for r := range f.main.all(special, f.prefix, false) {
			if !yield(r) {
				return
			}
		}
		for r := range f.local.all(special, f.prefix, true) {
			if !yield(r) {
				return
			}
		}
	})
}

func write(to fibTable, p netip.Prefix, hop uint16, local bool) error {
	switch {
	case hop == 0 && local:
		to.DeleteLocal(p)
	case hop == 0:
		to.Delete(p)
	case local:
		return to.SetLocal(p, hop)
	default:
		return to.Set(p, hop)
	}
	return nil
}
