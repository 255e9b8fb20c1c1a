// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/model/flowrecord"
	"minne/internal/subsystem/fastpath/flow"
)

// A record for each connection that ends: the kernel tells of it (NFNLGRP_CONNTRACK_DESTROY) with its counters and times,
// and what the fast path had counted of it is added. Flows that the fast path still has are ended first, so nothing is
// counted behind the record. Connections that last are looked at every interval.
//
// What is lost: connections that end while no daemon runs, with what they transferred after their last record. What the kernel
// could not tell because the socket was full is counted by the kernel itself (SK_MEMINFO_DROPS). Of connections that live
// through a daemon's absence, the kernel's counters are complete; the packets that the fast path forwarded between the
// last record and the next daemon are lost.

const (
	// endsRoom is what the kernel may keep of ends that we have not read yet, in bytes: some 30,000 ends.
	endsRoom = 32 << 20
	// gather is how long ends are gathered before they are recorded, and gatherMost how many.
	gather     = time.Second
	gatherMost = 8192
	// mostReported is how many connections that last are looked at every interval: the others are recorded when they end.
	mostReported = 1 << 19
	// waysKept is how many addresses' interfaces are remembered, and waysFor how long.
	waysKept = 1 << 16
	waysFor  = 30 * time.Second
)

// Recording is what is recorded.
type Recording struct {
	Interval time.Duration // of connections that last; 0: they are recorded when they end
	Answered bool          // only connections whose packets came from both sides

	// Lasting calls visit for the latest records of connections that last, in the order in which they were written. nil: there
	// are none.
	Lasting func(visit func(*flowrecord.Record)) error
	// Write takes records. It may keep them.
	Write func([]flowrecord.Record)
}

// RecordStats are what was recorded.
type RecordStats struct {
	Ended   uint64 `json:"ended"`   // connections
	Lasting uint64 `json:"lasting"` // records of connections that went on
	Lost    uint64 `json:"lost"`    // ends that the kernel could not tell: the daemon was too slow
}

// Recorder is the task that records connections.
type Recorder struct {
	log     *slog.Logger
	table   *Table
	carrier Carrier // nil without a fast path
	ready   chan struct{}
	changed chan struct{} // has a word when want is another

	mu   sync.Mutex
	want *Recording
	idle chan struct{} // closed when what was wanted before is no longer done

	ended, lasting, lost atomic.Uint64
}

// NewRecorder returns the task. It records nothing before Record is called.
func NewRecorder(t *Table, c Carrier, log *slog.Logger) *Recorder {
	r := &Recorder{log: log, table: t, carrier: c, ready: make(chan struct{}), changed: make(chan struct{}, 1)}
	close(r.ready)
	return r
}

func (*Recorder) String() string { return "flow-records" }

// Ready is ready from the beginning.
func (r *Recorder) Ready() <-chan struct{} { return r.ready }

// Stats tells what was recorded.
func (r *Recorder) Stats() RecordStats {
	return RecordStats{r.ended.Load(), r.lasting.Load(), r.lost.Load()}
}

// Record changes what is recorded; nil for nothing. When it returns, nothing is written any more as it was
// wanted before.
func (r *Recorder) Record(ctx context.Context, want *Recording) error {
	r.mu.Lock()
	r.want = want
	idle := r.idle
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		r.mu.Lock()
		want := r.want
		if want != nil {
			r.idle = make(chan struct{})
		}
		r.mu.Unlock()
		if want == nil {
			select {
			case <-ctx.Done():
			case <-r.changed:
			}
			continue
		}
		err := r.record(ctx, *want)
		r.mu.Lock()
		close(r.idle)
		r.idle = nil
		r.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			r.log.Error("connections are not recorded; trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-r.changed:
			case <-time.After(5 * time.Second):
			}
		}
	}
	return nil
}

// gone is a connection that has ended.
type gone struct {
	Connection
	asked bool // by a program
}

// told is what was recorded of a connection that lasts.
type told struct {
	began int64 // ms since 1970
	at    int64 // ms since 1970, when the last record was written
	counts
}

// recording is one run of recording.
type recording struct {
	*Recorder
	Recording
	zones  *zones
	asked  time.Time // when zones was made
	told   map[uint64]told
	mu     sync.Mutex
	ends   []gone
	some   chan struct{} // has a word when there are ends
	failed chan error
}

// record records until ctx ends, or something else is wanted.
func (r *Recorder) record(ctx context.Context, want Recording) error {
	file, err := listenRecords(want.Answered)
	if err != nil {
		return fmt.Errorf("listening for the end of connections: %w", err)
	}
	most, _ := limit("nf_conntrack_max")
	r.table.ended.record(true, min(most, 1<<21))
	defer r.table.ended.record(false, 0)
	n := &recording{Recorder: r, Recording: want, told: map[uint64]told{}, some: make(chan struct{}, 1), failed: make(chan error, 1)}
	if err := n.remember(); err != nil {
		r.log.Warn("what was recorded of connections that last is not known: some may be counted twice", "error", err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		n.listen(file)
	}()
	defer func() {
		file.Close()
		<-read
		last := context.WithoutCancel(ctx)
		n.flush(last)
		n.look(last, true)
		if n.zones != nil {
			n.zones.close()
		}
	}()
	return n.loop(ctx)
}

func (n *recording) loop(ctx context.Context) error {
	every := n.Interval
	if every <= 0 {
		every = 1 << 62
	}
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.changed:
			return nil
		case err := <-n.failed:
			return err
		case <-look.C:
			n.look(ctx, false)
		case <-n.some:
			n.wait(ctx)
			n.flush(ctx)
		}
	}
}

// wait gathers ends for a while.
func (n *recording) wait(ctx context.Context) {
	until := time.NewTimer(gather)
	defer until.Stop()
	for {
		n.mu.Lock()
		enough := len(n.ends) >= gatherMost
		n.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-until.C:
			return
		case <-n.some:
		}
	}
}

// listen reads ends until the socket is closed.
func (n *recording) listen(file *os.File) {
	in := make([]byte, 64<<10)
	var before uint64
	for {
		size, err := file.Read(in)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case errors.Is(err, unix.ENOBUFS): // some could not be told
			drops := drops(file)
			n.lost.Add(drops - before)
			before = drops
			continue
		case err != nil:
			n.failed <- err
			return
		}
		n.take(in[:size])
	}
}

// take takes in messages.
func (n *recording) take(in []byte) {
	n.mu.Lock()
	had := len(n.ends)
	for len(in) >= unix.NLMSG_HDRLEN {
		asked := binary.NativeEndian.Uint32(in[12:]) != 0 // nlmsg_pid
		m, rest, err := nlmsg.Next(in)
		if err != nil {
			break
		}
		e := gone{asked: asked}
		e.decode(m.Body) // which calls none that ends a connection
		if e.Key[0].Source.IsValid() && e.Key[1].Source.IsValid() {
			n.ends = append(n.ends, e)
		}
		in = rest
	}
	now := len(n.ends)
	n.mu.Unlock()
	if had == 0 || had < gatherMost && now >= gatherMost {
		select {
		case n.some <- struct{}{}:
		default:
		}
	}
}

// flush records what has ended.
func (n *recording) flush(ctx context.Context) {
	n.mu.Lock()
	ends := n.ends
	n.ends = nil
	n.mu.Unlock()
	if len(ends) == 0 {
		return
	}
	n.settle(ends)
	list := make([]flowrecord.Record, 0, len(ends))
	for i := range ends {
		e := &ends[i]
		h := hash(n.table.ended.seed, &e.Key[0])
		began := e.began
		if began > time.Now().UnixNano() {
			began = 0
		}
		more := n.table.ended.take(h, began)
		e.count(&more)
		to := time.Now()
		if e.Connection.ended != 0 {
			to = time.Unix(0, e.Connection.ended)
		}
		r := n.made(ctx, &e.Connection, h, to)
		r.Reason = e.reason()
		delete(n.told, h)
		list = append(list, r)
	}
	n.Recorder.ended.Add(uint64(len(list)))
	n.Write(list)
}

// settle ends the flows that the fast path still has of connections, and waits until it has told what those counted.
func (n *recording) settle(ends []gone) {
	if n.carrier == nil {
		return
	}
	keys := make([]flow.Key, 0, len(ends))
	for i := range ends {
		if ends[i].status&seenReply != 0 { // no others are carried
			keys = append(keys, ends[i].Key[0])
		}
	}
	n.carrier.EndConnections(keys)
	if n.table.fast != nil {
		n.table.fast.TellEnded()
	}
}

// reason is why a connection ended.
func (e *gone) reason() flowrecord.Reason {
	const timeWait, closed = 7, 8 // enum tcp_conntrack
	tcp := e.Key[0].Protocol == unix.IPPROTO_TCP
	switch {
	case tcp && e.tcp == timeWait:
		return flowrecord.Closed
	case tcp && e.tcp == closed:
		return flowrecord.Reset
	case e.asked:
		return flowrecord.Deleted
	}
	return flowrecord.Expired
}

// made is a record of what a connection has transferred since the record before.
func (n *recording) made(ctx context.Context, c *Connection, h uint64, to time.Time) flowrecord.Record {
	k := &c.Key
	end := func(a netip.Addr, port uint16) flowrecord.End { return netip.AddrPortFrom(a, port) }
	r := flowrecord.Record{From: to, To: to, Protocol: k[0].Protocol, Table: c.table(), Answered: c.status&seenReply != 0,
		Source: end(k[0].Source, k[0].SourcePort), Called: end(k[0].Destination, k[0].DestinationPort),
		Destination: end(k[1].Source, k[1].SourcePort), Seen: end(k[1].Destination, k[1].DestinationPort),
		Packets: c.Packets, Bytes: c.Bytes}
	if isICMP(k[0].Protocol) { // a translated id is what the replies have
		r.Called, r.Destination = end(k[0].Destination, k[0].SourcePort), end(k[1].Source, k[0].SourcePort)
	}
	if c.began != 0 {
		r.Began = time.Unix(0, c.began)
		r.From = r.Began
	}
	if before, ok := n.told[h]; ok && before.began == c.began/1e6 {
		r.From = time.UnixMilli(before.at)
		for d := range 2 {
			r.Packets[d] -= min(before.packets[d], r.Packets[d])
			r.Bytes[d] -= min(before.bytes[d], r.Bytes[d])
		}
	}
	if r.From.After(r.To) {
		r.From = r.To
	}
	opener, responder := c.ends()
	r.In, r.Out = n.way(ctx, opener), n.way(ctx, responder)
	return r
}

// way is where an address is, as the routes say now.
func (n *recording) way(ctx context.Context, at place) flowrecord.Way {
	if z := n.zones; z == nil || z.failed != nil || len(z.known) > waysKept || time.Since(n.asked) > waysFor {
		if z != nil {
			z.close()
		}
		var err error
		if n.zones, err = newZones(context.WithoutCancel(ctx), n.table.zones()); err != nil {
			n.zones = nil
			return flowrecord.Way{}
		}
		n.asked = time.Now()
	}
	return n.zones.way(at)
}

// look records what connections that last have transferred: those that have not been recorded for half an interval, or at
// last those that the fast path has counted something of, which the next daemon can't know.
func (n *recording) look(ctx context.Context, last bool) {
	_, end, err := n.table.begin(ctx)
	if err != nil {
		return
	}
	defer end()
	now := time.Now()
	var list []flowrecord.Record
	seen := make(map[uint64]bool, len(n.told))
	_, err = n.table.each(ctx, flow.Filter{}, func(c *Connection) {
		if n.Answered && c.status&seenReply == 0 {
			return
		}
		h := hash(n.table.ended.seed, &c.Key[0])
		seen[h] = true
		before, ok := n.told[h]
		if ok && before.began != c.began/1e6 {
			ok = false
		}
		since := c.began / 1e6
		if ok {
			since = before.at
		}
		switch {
		case last:
			if c.Repeated == [2]uint64{} || ok && before.packets == c.Packets {
				return
			}
		case n.Interval <= 0, now.UnixMilli()-since < n.Interval.Milliseconds()/2, !ok && len(n.told) >= mostReported, c.began == 0:
			return
		}
		r := n.made(ctx, c, h, now)
		r.Reason = flowrecord.Lasts
		r.SoFar = flowrecord.SoFar{Packets: c.Packets, Bytes: c.Bytes, FastPackets: c.Repeated, FastBytes: c.repeatedBytes}
		n.told[h] = told{began: c.began / 1e6, at: now.UnixMilli(), counts: counts{c.Packets, c.Bytes}}
		list = append(list, r)
	})
	if err != nil {
		n.log.Warn("connections that last could not be recorded", "error", err)
	} else {
		n.forget(seen)
	}
	if len(list) > 0 {
		n.lasting.Add(uint64(len(list)))
		n.Write(list)
	}
}

// forget forgets connections that the kernel no longer has, and whose ends it could not tell. Those that have just
// ended are still to be recorded.
func (n *recording) forget(seen map[uint64]bool) {
	old := time.Now().Add(-3 * max(n.Interval, time.Minute)).UnixMilli()
	for h, t := range n.told {
		if !seen[h] && t.at < old {
			delete(n.told, h)
		}
	}
}

// remember reads what was recorded of connections that still last: it is not recorded again, and what the fast
// path of an earlier daemon had counted belongs to them.
func (n *recording) remember() error {
	type known struct {
		record flowrecord.Record
		key    flow.Key
	}
	latest := map[uint64]known{}
	if n.Lasting == nil {
		return nil
	}
	err := n.Lasting(func(r *flowrecord.Record) {
		key := flow.Key{Source: r.Source.Addr(), Destination: r.Called.Addr(), SourcePort: r.Source.Port(), DestinationPort: r.Called.Port(),
			Protocol: r.Protocol, Zone: r.Table}
		latest[hash(n.table.ended.seed, &key)] = known{*r, key}
	})
	if err != nil || len(latest) == 0 {
		return err
	}
	return connections(context.Background(), func(c *Connection) {
		h := hash(n.table.ended.seed, &c.Key[0])
		l, ok := latest[h]
		if !ok || l.record.Began.UnixMilli() != c.began/1e6 || n.told[h].at != 0 {
			return
		}
		s := &l.record.SoFar
		n.told[h] = told{began: c.began / 1e6, at: l.record.To.UnixMilli(), counts: counts{s.Packets, s.Bytes}}
		if s.FastPackets != [2]uint64{} && !n.table.ended.has(h) {
			n.table.ended.add(&flow.Ended{Key: c.Key[0], Packets: s.FastPackets, Bytes: s.FastBytes, At: l.record.To})
		}
	})
}

// drops is how many messages the kernel could not put into a socket.
func drops(file *os.File) uint64 {
	const soMeminfo, drops = 55, 8 // SO_MEMINFO, SK_MEMINFO_DROPS
	var info [9]uint32
	raw, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(info))
		_, _, _ = unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, soMeminfo, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	})
	return uint64(info[drops])
}

// listenRecords opens a socket that hears of connections which end.
func listenRecords(answered bool) (*os.File, error) {
	if answered {
		return listenEnded(endsRoom, answeredOnly())
	}
	return listenEnded(endsRoom, nil)
}
