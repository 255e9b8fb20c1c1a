// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"minne/internal/model/config"
)

// Counting and ending. Every countEvery the meter is read; a session ends when its time is up, its bytes are used up, or nothing was
// transferred for its idle time. Limits are thus kept to within countEvery.
//
// Liveness is apart from idleness. Hosts are probed as neighbours (ARP, neighbour discovery), which wakes a phone that sleeps no more
// than any broadcast does. The interval tunes itself to the number n of hosts that are admitted: max(60 s, n / 250 s), so that there
// are never more than 250 probes a second: 30,000 hosts are probed every two minutes. Only a host without traffic since the last probe
// is probed. A host that has not answered, nor sent anything, for goneAfter probes and for its grace time of ten minutes has left.
const (
	countEvery    = 10 * time.Second
	storeEvery    = time.Minute
	probeLeast    = 60 * time.Second
	probesASecond = 250
	goneAfter     = 3
	grace         = 10 * time.Minute
)

// interval is that between two probes of a host, when there are n.
func interval(n int) time.Duration {
	return max(probeLeast, time.Duration(n)*time.Second/probesASecond)
}

// Run does what takes time until ctx ends.
func (l *Login) Run(ctx context.Context) error {
	ended := make(chan error, 2)
	var running sync.WaitGroup
	defer running.Wait()
	defer l.flush()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running.Go(func() { ended <- l.hosts.watch(ctx, l.learned) })
	running.Go(func() { l.followNames(ctx) })
	running.Go(func() { l.probing(ctx) })
	running.Go(func() { l.certify(ctx) })
	running.Go(func() { l.joining(ctx) })
	running.Go(func() { l.radius.run(ctx) })
	close(l.ready)
	pages := make(chan error, 1)
	running.Go(func() { pages <- l.pages.Run(ctx) })
	count, save := time.NewTicker(countEvery), time.NewTicker(storeEvery)
	defer count.Stop()
	defer save.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			if ctx.Err() == nil {
				return err
			}
		case <-count.C:
			l.count(ctx)
		case <-save.C:
			l.flush()
		}
	}
}

// count reads the meter and ends what is over.
func (l *Login) count(ctx context.Context) {
	l.mu.Lock()
	none := len(l.sessions) == 0
	l.mu.Unlock()
	if none {
		return
	}
	sums, err := l.meter.Read(ctx)
	if err != nil {
		l.log.Error("cannot count what users transfer", "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	if err == nil {
		for _, s := range l.sessions { // all first: several may have one limit
			l.counted(s, sums, now)
		}
	}
	var over []ending
	for id, s := range l.sessions {
		if s.pending {
			continue
		}
		why := l.usedUp(s)
		switch {
		case !s.Until.IsZero() && !s.Until.After(now):
			why = "its time is up"
		case why != "":
		case s.Idle > 0 && now.Sub(s.Active) >= time.Duration(s.Idle):
			why = fmt.Sprintf("idle for %v", config.Duration(s.Idle))
		case s.missed >= goneAfter && now.Sub(s.Active) >= grace:
			why = fmt.Sprintf("it does not answer %d probes", s.missed)
		}
		if why != "" {
			over = append(over, ending{id, why})
		} else {
			l.radius.interim(s, now)
		}
	}
	l.endAll(over)
}

// counted takes what the meter says into a session. The caller holds mu.
func (l *Login) counted(s *Session, sums map[netip.Addr]Traffic, now time.Time) {
	for _, a := range s.Addresses {
		if t, metered := sums[a]; metered {
			s.read[a] = t
		}
	}
	t := s.before
	for _, a := range s.read {
		t.Sent, t.Received = t.Sent+a.Sent, t.Received+a.Received
	}
	if t == s.Traffic {
		return
	}
	if t.Sent > s.Traffic.Sent { // what is sent to a host that has left does not keep it logged in
		s.Active, s.missed = now, 0
	}
	s.Traffic = t
	l.book(s)
	l.unsaved[hostID{s.Login, s.MAC}] = true
}

// probing probes hosts until ctx ends.
func (l *Login) probing(ctx context.Context) {
	for {
		l.mu.Lock()
		n := len(l.sessions)
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval(n)):
			l.probe(ctx)
		}
	}
}

// asked is a host to be probed.
type asked struct {
	mac     config.MAC
	address netip.Addr
	ifaces  []string
}

// silent are the hosts to be probed, after it was noted which have answered the last time: their neighbour entries are confirmed.
func (l *Login) silent() (list []asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, quiet := l.clock(), interval(len(l.sessions))
	for id, s := range l.sessions {
		if s.pending || now.Sub(s.Active) < quiet || len(s.Addresses) == 0 {
			s.missed = 0
			continue
		}
		ifaces := l.interfaces(id.login)
		if l.hosts.answers(id.mac, ifaces) {
			s.missed = 0
		} else {
			s.missed++
		}
		list = append(list, asked{id.mac, s.Addresses[0], ifaces})
	}
	return list
}

// probe asks each silent host once, at no more than probesASecond.
func (l *Login) probe(ctx context.Context) {
	pace := time.NewTicker(time.Second / probesASecond)
	defer pace.Stop()
	links := map[string]int{}
	for _, h := range l.silent() {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
			for _, n := range l.hosts.toProbe(h.mac, h.ifaces, h.address) {
				probeNeighbour(links, n, h.mac)
			}
		}
	}
}
