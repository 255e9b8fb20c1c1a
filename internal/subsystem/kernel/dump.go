// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/model/rib"
)

// Dumps: the whole state between Begin and End, and the looks at one kind of
// object that find out what was not notified.

// notifyAll reports the whole state again.
func (w *Watcher) notifyAll(ctx context.Context) error {
	start := time.Now()
	w.ledger = newLedger(w.listener.Routes)
	w.batch = batch{}
	w.rules = map[rib.Rule]bool{}
	w.nextHops = map[uint32]rib.NextHopGroup{}
	w.links = map[int]rib.Link{}
	w.doubt = [2]bool{}
	w.listener.Begin()
	if err := w.notifyObjects(ctx); err != nil {
		return err
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := w.dumpRoutes(ctx, family); err != nil {
			return err
		}
	}
	w.listener.End()
	token(w.restorable) // who knows what happened before
	w.log.Info("kernel state read", "ipv4_routes", len(w.ledger.v4), "ipv6_routes", len(w.ledger.v6),
		"links", len(w.links), "next_hops", len(w.nextHops), "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// notifyObjects reports all but the routes.
func (w *Watcher) notifyObjects(ctx context.Context) error {
	links, err := dumpAll(ctx, w.ask, "links", unix.RTM_GETLINK, ifInfoLen, func(_ []byte, b *builder) {
		const skipStatistics = 8 // RTEXT_FILTER_SKIP_STATS: they are not wanted and slow
		b.attr32(unix.IFLA_EXT_MASK, skipStatistics)
	}, decodeLink)
	if err != nil {
		return err
	}
	for _, l := range links {
		w.links[l.Index] = l
	}
	w.listener.Links(links)
	addresses, err := dumpAll(ctx, w.ask, "addresses", unix.RTM_GETADDR, ifAddrLen, nil, decodeAddress)
	if err != nil {
		return err
	}
	w.listener.Addresses(addresses)
	if err := w.compareRules(ctx); err != nil {
		return err
	}
	neighbours, err := dumpAll(ctx, w.ask, "neighbours", unix.RTM_GETNEIGH, neighLen, nil, decodeNeighbour)
	if err != nil {
		return err
	}
	w.listener.Neighbours(neighbours)
	return w.compareNextHops(ctx)
}

// dumpAll reads all objects of one kind, again when they changed meanwhile.
func dumpAll[T any](ctx context.Context, a *asker, words string, kind uint16, bodyLen int,
	fill func([]byte, *builder), decode func(nlmsg.Message) (T, bool)) ([]T, error) {
	if fill == nil {
		fill = func([]byte, *builder) {}
	}
	for range dumpRetries {
		var list []T
		intact, err := a.dump(ctx, kind, bodyLen, fill, func(m nlmsg.Message) error {
			if o, ok := decode(m); ok {
				list = append(list, o)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", words, err)
		}
		if intact {
			return list, nil
		}
	}
	return nil, fmt.Errorf("read %s: %w", words, errUnsettled)
}

// compareRules reads the rules and tells the difference: several rules may look alike to the
// listener, so single notifications can't be passed on.
func (w *Watcher) compareRules(ctx context.Context) error {
	now := map[rib.Rule]bool{}
	var changes []rib.Rule
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		rules, err := dumpAll(ctx, w.ask, "rules", unix.RTM_GETRULE, ruleLen,
			func(body []byte, _ *builder) { body[0] = family }, decodeRule)
		if err != nil {
			return err
		}
		for _, r := range rules {
			now[r] = true
		}
	}
	for r := range w.rules {
		if !now[r] {
			gone := r
			gone.Deleted = true
			changes = append(changes, gone)
		}
	}
	for r := range now {
		if !w.rules[r] {
			changes = append(changes, r)
		}
	}
	w.rules = now
	if len(changes) > 0 {
		slices.SortFunc(changes, func(a, b rib.Rule) int {
			return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Priority, b.Priority))
		})
		w.listener.Rules(changes)
	}
	return nil
}

// barrier returns when the kernel has finished what it was doing to links and routes: it answers
// this question under the same lock.
func (w *Watcher) barrier() error { return w.ask.barrier() }

func (a *asker) barrier() error {
	err := a.request(unix.RTM_GETLINK, 0, ifInfoLen, func(body []byte, _ *builder) {
		native.PutUint32(body[4:], 1) // lo is always the first
	})
	if err != nil {
		return fmt.Errorf("wait for the kernel: %w", err)
	}
	return nil
}

// compareNextHops reads the next-hop objects and tells the difference.
func (w *Watcher) compareNextHops(ctx context.Context) error {
	if err := w.barrier(); err != nil {
		return err
	}
	now, err := dumpAll(ctx, w.ask, "next hops", rtmGetNextHop, nextHopLn, nil, decodeNextHop)
	if err != nil {
		return err
	}
	there := map[uint32]bool{}
	var changes []rib.NextHopGroup
	for _, g := range now {
		there[g.ID] = true
		changes = append(changes, g)
	}
	for id := range w.nextHops {
		if !there[id] {
			changes = append(changes, rib.NextHopGroup{ID: id, Deleted: true})
		}
	}
	w.notifyNextHops(changes)
	return nil
}

// notifyNextHops passes on what is new, and the deletion of the routes that go with a deleted object.
func (w *Watcher) notifyNextHops(list []rib.NextHopGroup) {
	changes := slices.DeleteFunc(list, func(g rib.NextHopGroup) bool {
		before, known := w.nextHops[g.ID]
		if g.Deleted {
			return !known
		}
		return known && reflect.DeepEqual(before, g)
	})
	for _, g := range changes {
		if g.Deleted {
			delete(w.nextHops, g.ID)
			w.ledger.dropNextHop(g.ID)
		} else {
			w.nextHops[g.ID] = g
		}
	}
	w.ledger.flush()
	if len(changes) > 0 {
		w.listener.NextHops(changes)
	}
}

// compareRoutes reads the routes of the families in doubt and tells the difference.
func (w *Watcher) compareRoutes(ctx context.Context) error {
	// What was notified until now comes first: the dump is newer.
	if err := w.work(ctx); err != nil {
		return err
	}
	start := time.Now()
	doubt := w.doubt
	w.doubt = [2]bool{}
	if err := w.compareNextHops(ctx); err != nil {
		return err
	}
	for i, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if doubt[i] {
			if err := w.dumpRoutes(ctx, family); err != nil {
				return err
			}
		}
	}
	w.cost = time.Since(start)
	w.log.Debug("kernel routes compared", "ipv4", doubt[0], "ipv6", doubt[1], "took", w.cost)
	return nil
}

// dumpRoutes reads one family's routes into the ledger.
//
// An IPv4 dump goes on after the last key, so a change meanwhile hides nothing
// else. An IPv6 dump that notices a change begins again and skips as many routes
// as it had shown, which may be the wrong ones: when IPv6 routes changed
// meanwhile, absence proves nothing, and another look follows in a quiet moment.
func (w *Watcher) dumpRoutes(ctx context.Context, family uint8) error {
	w.ledger.beginDump(family)
	intact, err := w.ask.dump(ctx, unix.RTM_GETROUTE, rtMsgLen, func(body []byte, _ *builder) { body[0] = family },
		func(m nlmsg.Message) error {
			w.received.Add(1)
			if err := w.decoded.decode(m.Body); err != nil {
				return err
			}
			if !w.decoded.Cloned {
				w.ledger.dump(&w.decoded)
			}
			return nil
		})
	if err != nil {
		return fmt.Errorf("read routes: %w", err)
	}
	complete := intact && (family == unix.AF_INET || !w.stream.touches(family))
	w.ledger.endDump(family, complete)
	w.ledger.flush()
	if !complete {
		w.doubtRoutes(family == unix.AF_INET, family == unix.AF_INET6, unquietTime)
	}
	return nil
}
