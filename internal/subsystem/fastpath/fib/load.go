// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"net/netip"
	"slices"
)

// Route is a prefix and where it leads, for Replace.
type Route struct {
	Prefix  netip.Prefix
	NextHop uint16
	Local   bool // of the local class, which wins over every other
}

// load collects the routes of a Replace: like the table's own tree, but lists are not sorted and
// no block is a stage yet.
type load struct {
	root     *node
	halves   map[uint64]*half
	fallback uint16
}

func (t *table) newLoad() *load {
	l := &load{root: newNode(0, 0, t.root.stride, 0, nil)}
	l.root.word = t.root.word
	if t.halves != nil {
		l.halves = map[uint64]*half{}
	}
	return l
}

func (l *load) add(e edit) {
	switch {
	case e.bits == 0 && !e.local:
		l.fallback = e.hop
	case e.bits <= l.root.stride:
		at := l.root.shortAt(e.key, e.bits)
		l.root.short[at], _ = e.apply(l.root.short[at])
	default:
		b := &l.root.blocks[l.root.index(e.key)]
		b.list = append(b.list, e.route())
	}
}

func (l *load) addDeep(key uint64, e edit) {
	h := l.halves[key]
	if h == nil {
		h = &half{key: key, stale: true}
		l.halves[key] = h
		b := &l.root.blocks[l.root.index(key)]
		b.list = append(b.list, route{key: key, bits: 64, deep: true})
	}
	h.top.list = append(h.top.list, e.route())
}

// route is the route that an edit makes where there was none.
func (e edit) route() route {
	r := route{key: e.key, bits: e.bits}
	r.hops, _ = e.apply(r.hops)
	return r
}

// order sorts a list and joins what is said of one prefix; later words win.
func order(list []route) ([]route, int) {
	if !slices.IsSortedFunc(list, compareRoutes) {
		slices.SortStableFunc(list, compareRoutes)
	}
	n, count := 0, 0
	for _, r := range list {
		if n > 0 && compareRoutes(list[n-1], r) == 0 {
			r.hops = r.hops.under(list[n-1].hops)
			r.deep = r.deep || list[n-1].deep
			n--
		}
		list[n] = r
		n++
	}
	list = slices.Clip(list[:n])
	for i := range list {
		count += list[i].count()
	}
	return list, count
}

// replace makes what was collected the table's routes and builds every block. Blocks change one
// by one: memory for a second image is not needed.
func (t *table) replace(l *load) error {
	before, halvesBefore := t.root, t.halves
	t.root, t.halves, t.dirty, t.failed = l.root, l.halves, nil, nil
	t.set(edit{hop: l.fallback})
	t.orderRoutes()
	for i := range uint32(len(t.root.blocks)) {
		if old := before.blocks[i].next; old != nil {
			t.drop(old)
		}
		t.build(t.root, i)
		t.retireUnlinked()
	}
	for _, h := range halvesBefore {
		t.goneHalves = append(t.goneHalves, h)
	}
	return t.publish()
}

// orderRoutes sorts and counts a table's routes after a load.
func (t *table) orderRoutes() {
	t.routes = 0
	if t.fallback != 0 {
		t.routes = 1
	}
	for _, h := range t.root.short {
		r := route{hops: h}
		t.root.routes += r.count()
	}
	for i := range t.root.blocks {
		b := &t.root.blocks[i]
		if b.list != nil {
			var n int
			b.list, n = order(b.list)
			t.root.routes += n
		}
	}
	t.routes += t.root.routes - len(t.halves)
	for _, h := range t.halves {
		h.top.list, h.routes = order(h.top.list)
		t.routes += h.routes
	}
}
