// SPDX-License-Identifier: Apache-2.0

// Package flowlogbench fills a flow log as a campus behind NAT would, and measures what a record takes on the disk and how long
// the question takes who had a public address and port.
package flowlogbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"minne/internal/model/flowrecord"
	"minne/internal/subsystem/flowlog"
)

// The campus: hosts with private addresses, of which some speak much more than others, servers of the Internet of the same
// kind, and public addresses to which sources are translated, each to a free port at random (the worst case: a
// port that is kept takes no room).
const (
	hosts     = 25_000
	servers   = 200_000
	publics   = 64
	perSecond = 31_000 // records: the load of the paper

	batch = perSecond / 10
)

// Campus makes records, always the same ones.
type Campus struct {
	random  *rand.Rand
	servers [servers]netip.Addr
	now     time.Time
	made    int
}

// NewCampus returns a campus whose first record ends at a time.
func NewCampus(at time.Time) *Campus {
	c := &Campus{random: rand.New(rand.NewPCG(7, 11)), now: at}
	for i := range c.servers {
		n := c.random.Uint32()
		c.servers[i] = netip.AddrFrom4([4]byte{byte(20 + n>>24%180), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	return c
}

// few is one of n, the first ones more often: about as Zipf's law with exponent 1 says.
func (c *Campus) few(n int) int {
	return min(int(math.Exp(c.random.Float64()*math.Log(float64(n)))), n) - 1
}

// spread is a number around a median, of which some are much larger (log-normal).
func (c *Campus) spread(median, sigma float64) float64 {
	return median * math.Exp(sigma*c.random.NormFloat64())
}

// Next makes as many records as fit into the slice.
func (c *Campus) Next(list []flowrecord.Record) {
	r := c.random
	for i := range list {
		c.made++
		c.now = c.now.Add(time.Second / perSecond)
		host, server, port := c.few(hosts), c.few(servers), uint16(443)
		protocol, reason := uint8(6), flowrecord.Closed
		switch r.IntN(20) {
		case 0, 1, 2, 3, 4, 5: // DNS
			protocol, port, reason, server = 17, 53, flowrecord.Expired, r.IntN(4)
		case 6, 7, 8: // QUIC
			protocol, reason = 17, flowrecord.Expired
		case 9:
			port = 80
		case 10:
			port, reason = uint16(1024+r.IntN(60000)), flowrecord.Expired
		case 11:
			reason = flowrecord.Reset
		}
		packets := max(c.spread(9, 1.6), 1)
		replies := max(packets*(0.6+r.Float64()), 1)
		lasted := time.Duration(min(c.spread(8000, 1.5), 600_000)) * time.Millisecond
		to := c.now.Truncate(time.Millisecond)
		from := to.Add(-lasted)
		public := netip.AddrFrom4([4]byte{198, 51, 100, byte(host % publics)})
		one := flowrecord.Record{Began: from, From: from, To: to, Reason: reason, Protocol: protocol, Answered: r.IntN(20) > 0,
			Source: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, byte(host >> 8), byte(host)}), uint16(32768+r.IntN(28232))),
			Called: netip.AddrPortFrom(c.servers[server], port), Seen: netip.AddrPortFrom(public, uint16(1024+r.IntN(64512))),
			Packets: [2]uint64{uint64(packets), uint64(replies)}, Bytes: [2]uint64{uint64(packets * c.spread(110, 0.4)), uint64(replies * c.spread(700, 0.6))},
			In: flowrecord.Way{Interface: "lan", Index: 3, Zone: "lan"}, Out: flowrecord.Way{Interface: "wan", Index: 2, Zone: "wan"}}
		one.Destination = one.Called
		list[i] = one
	}
}

// Log is a full log in a directory of its own.
type Log struct {
	Records int
	Bytes   int64 // on the disk
	dir     string
	store   *flowlog.Store
	kept    []flowrecord.Record // some of the records, over the whole log
}

// keptEvery is of how many records one is asked for.
const keptEvery = 32_768

// Fill makes a log of at least so many records below a directory ("" for that of temporary files). Close removes it.
func Fill(ctx context.Context, below string, records int) (*Log, error) {
	dir, err := os.MkdirTemp(below, "flowlog-")
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir}
	if l.store, err = flowlog.Open(dir, flowlog.Limits{Bytes: 1 << 40, Age: 10 * 365 * 24 * time.Hour}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := NewCampus(time.Now().Add(-24 * time.Hour))
	for l.Records < records {
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		list := make([]flowrecord.Record, batch)
		c.Next(list)
		for i := range list {
			if (l.Records+i)%keptEvery == keptEvery/3 {
				l.kept = append(l.kept, list[i])
			}
		}
		if err := l.store.Append(list); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.Records += len(list)
	}
	l.Bytes = l.store.Stats().Bytes
	return l, nil
}

// Close removes the log.
func (l *Log) Close() error { return errors.Join(l.store.Close(), os.RemoveAll(l.dir)) }

// PerRecord is what a record takes on the disk, in bytes, with filters, headers and those that are in no block yet.
func (l *Log) PerRecord() float64 { return float64(l.Bytes) / float64(l.Records) }

// AskInVain asks who had a public address with a port that no source was translated to: what a question takes beside the block
// that has the answer, and grows with the log.
func (l *Log) AskInVain(ctx context.Context, which int) (took time.Duration, err error) {
	address := l.kept[which%len(l.kept)].Seen.Addr()
	began := time.Now()
	found, err := l.store.Find(ctx, flowlog.Question{Translated: netip.AddrPortFrom(address, uint16(which%1000+1))})
	took = time.Since(began)
	if err == nil && len(found.Records) > 0 {
		err = fmt.Errorf("%d records with a port that nobody had", len(found.Records))
	}
	return took, err
}

// Ask asks who had the public address and port of one of the kept records, over all of the log's time or at the record's time
// alone, and says how long the answer took. An answer without that record is an error.
func (l *Log) Ask(ctx context.Context, which int, atTime bool) (took time.Duration, read int, err error) {
	want := l.kept[which%len(l.kept)]
	q := flowlog.Question{Translated: want.Seen}
	if atTime {
		q.From, q.To = want.To, want.To
	}
	began := time.Now()
	found, err := l.store.Find(ctx, q)
	took = time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	for i := range found.Records {
		if r := &found.Records[i]; r.Source == want.Source && r.To.Equal(want.To) {
			return took, found.Read, nil
		}
	}
	return 0, 0, fmt.Errorf("%v at %v was not found among %d records", want.Seen, want.To, len(found.Records))
}
