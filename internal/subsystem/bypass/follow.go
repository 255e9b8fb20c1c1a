// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/nft"
)

// look is one kind of things: how it is read, and what was found the last time.
type look struct {
	name string // for messages
	read func() (State, error)
	wake chan struct{} // one token when it has to be read again
	slow bool          // nobody announces it: it is read at every tick

	found  State
	failed bool
}

// Follower reads everything once and follows it from there.
type Follower struct {
	log     *slog.Logger
	tell    func(State)
	quit    context.CancelFunc
	sockets []*os.File

	mu    sync.Mutex // of what the looks have found, and of telling it
	looks []*look
	told  State
	links uint64 // which links there are
	noTCX bool   // this kernel has no tcx
}

// Netlink groups that announce changes (RTNLGRP_TC, XFRMNLGRP_POLICY).
const (
	groupTrafficControl = 4
	groupPolicy         = 4
)

// Follow reads what there is, returns it, and calls tell with everything whenever something has
// changed, until Close. It has joined the kernel's announcements before it reads: nothing is missed.
func Follow(log *slog.Logger, tell func(State)) (*Follower, State, error) {
	f := &Follower{log: log, tell: tell}
	ipsec := f.add("IPsec policies", readIPsec, false)
	filters := f.add("tables of the packet filter", readFilters, false)
	control := f.add("traffic control", readControl, false)
	f.add("iptables", readLegacy, true)
	f.add("BPF programs", newPrograms().read, true)
	f.add("links", f.readLinks, true)
	f.add("settings", settings{"/proc"}.read, true)
	ctx, quit := context.WithCancel(context.Background())
	f.quit = quit
	watch, err := nft.NewWatch()
	if err != nil && !errors.Is(err, unix.EPROTONOSUPPORT) { // a kernel without packet filter has no tables
		f.Close()
		return nil, State{}, err
	}
	err = errors.Join(f.listen(ctx, unix.NETLINK_XFRM, groupPolicy, ipsec), f.listen(ctx, unix.NETLINK_ROUTE, groupTrafficControl, control))
	if err != nil {
		f.Close()
		if watch != nil {
			watch.Close()
		}
		return nil, State{}, err
	}
	for _, l := range f.looks {
		f.take(l)
	}
	f.told = f.all()
	for _, l := range f.looks {
		if !l.slow {
			go f.follow(ctx, l)
		}
	}
	if watch != nil {
		go f.followFilters(ctx, watch, filters)
	}
	return f, f.told, nil
}

// Close ends it. tell may be called once more.
func (f *Follower) Close() {
	f.quit()
	for _, socket := range f.sockets {
		socket.Close()
	}
}

// Look reads what nobody announces. It is for the router's slow clock.
func (f *Follower) Look(context.Context) {
	f.mu.Lock()
	links := f.links
	for _, l := range f.looks {
		if l.slow {
			f.take(l)
		}
	}
	for _, l := range f.looks {
		if l.failed || f.links != links { // what hangs on a link comes and goes with it, without a word
			token(l.wake)
		}
	}
	f.publish()
	f.mu.Unlock()
}

func (f *Follower) add(name string, read func() (State, error), slow bool) *look {
	l := &look{name: name, read: read, slow: slow, wake: make(chan struct{}, 1)}
	f.looks = append(f.looks, l)
	return l
}

// take reads a look. What can't be read may be anything: then it is the kernel's.
func (f *Follower) take(l *look) {
	found, err := l.read()
	if err != nil {
		found = State{}
		found.both(Other, fmt.Sprintf("%s can't be read: %v", l.name, err))
	}
	l.found, l.failed = found, err != nil
}

// all is what all looks have found.
func (f *Follower) all() State {
	var s State
	for _, l := range f.looks {
		s.add(&l.found)
	}
	s.sorted()
	return s
}

// publish tells what has changed. The caller holds the lock, so that what is told is in order.
func (f *Follower) publish() {
	now := f.all()
	if reflect.DeepEqual(now, f.told) {
		return
	}
	f.told = now
	f.tell(now)
}

// idle is how many times as long as a reading took nothing is read: a fifth of a core at most,
// however fast things change.
const idle = 4

// follow reads a look whenever something is announced of it.
func (f *Follower) follow(ctx context.Context, l *look) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		start := time.Now()
		f.mu.Lock()
		f.take(l)
		f.publish()
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(idle * time.Since(start)):
		}
	}
}

// followFilters looks again after each transaction that may have changed more than elements of
// sets in a table of others.
func (f *Follower) followFilters(ctx context.Context, watch *nft.Watch, l *look) {
	err := watch.Run(ctx, func(t nft.Transaction) {
		foreign := func(o nft.Touched) bool { return !o.Elements && !nft.OwnTable(o.Family, o.Name) }
		if t.Lost || slices.ContainsFunc(t.Tables, foreign) {
			token(l.wake)
		}
	})
	if err != nil {
		f.log.Error("no more notifications of nftables changes", "error", err)
	}
}

// listen wakes a look whenever something is said in a netlink group. What is said is not looked at.
func (f *Follower) listen(ctx context.Context, protocol, group int, l *look) error {
	socket, err := nlmsg.Listen(protocol, 0, nil, group)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil // a kernel without it has none of it
	}
	if err != nil {
		return fmt.Errorf("watch for changes of %s: %w", l.name, err)
	}
	f.sockets = append(f.sockets, socket)
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			_, err := socket.Read(buffer)
			if err != nil && !errors.Is(err, unix.ENOBUFS) { // ENOBUFS: words were lost, so something changed
				if ctx.Err() == nil {
					f.log.Error("no more notifications from the kernel", "of", l.name, "error", err)
				}
				return
			}
			token(l.wake)
		}
	}()
	return nil
}

// token puts one token into c unless it has one.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
