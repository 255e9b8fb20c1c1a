// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/fastpath/flow"
)

// What ends in conntrack (conntrack -D and -F, an address or link of masqueraded connections that goes, a timeout) ends in the fast
// path at once: the kernel tells of each connection that it forgets. Words may be lost when very many end together,
// and connections from before the daemon are not told of; those flows end when the program next asks
// conntrack about them, within 2.1 s.

const groupDestroy = 3 // NFNLGRP_CONNTRACK_DESTROY

// Carrier carries connections beside the kernel. EndConnections ends the flows of these.
type Carrier interface{ EndConnections([]flow.Key) }

// Ends is the task that tells a carrier of connections that have ended in conntrack.
type Ends struct {
	log     *slog.Logger
	carrier Carrier
	meter   *Meter // hears of them too; nil for none
	ready   chan struct{}
}

// NewEnds returns the task.
func NewEnds(c Carrier, meter *Meter, log *slog.Logger) *Ends {
	return &Ends{log: log, carrier: c, meter: meter, ready: make(chan struct{})}
}

func (*Ends) String() string { return "conntrack-ends" }

// Ready is closed when the kernel is listened to, or can't be.
func (e *Ends) Ready() <-chan struct{} { return e.ready }

// Run listens until ctx ends. A kernel that does not tell is no reason to end.
func (e *Ends) Run(ctx context.Context) error {
	file, err := listenEnds()
	close(e.ready)
	if err != nil {
		e.log.Warn("no notifications from conntrack: deleted connections continue for up to 2.1 s", "error", err)
		<-ctx.Done()
		return nil
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	defer stop()
	defer file.Close()
	in := make([]byte, 64<<10)
	for {
		n, err := file.Read(in)
		switch {
		case ctx.Err() != nil, errors.Is(err, os.ErrClosed):
			return nil
		case errors.Is(err, unix.ENOBUFS): // words were lost
			continue
		case err != nil:
			return fmt.Errorf("listening for the end of connections: %w", err)
		}
		if keys := endedKeys(in[:n], e.meter); len(keys) > 0 {
			e.carrier.EndConnections(keys)
		}
	}
}

// endedKeys are the keys of who opened the connections that messages tell of.
func endedKeys(in []byte, meter *Meter) (keys []flow.Key) {
	for len(in) > 0 {
		m, rest, err := nlmsg.Next(in)
		if err != nil {
			break
		}
		var c Connection
		c.decode(m.Body) // which calls none that ends a connection
		if c.Key[0].Source.IsValid() {
			keys = append(keys, c.Key[0])
			if meter != nil {
				meter.end(c.Key[0].Source, c.Key[1].Source, c.Bytes)
			}
		}
		in = rest
	}
	return keys
}

// listenEnds opens a socket that hears of connections which end after both sides were heard: no others are carried, and of
// those a flood makes many.
func listenEnds() (*os.File, error) { return listenEnded(4<<20, answeredOnly()) }

func listenEnded(room int, filter []unix.SockFilter) (*os.File, error) {
	return nlmsg.Listen(unix.NETLINK_NETFILTER, room, filter, groupDestroy)
}

// answeredOnly lets pass what tells of connections whose packets came from both sides.
func answeredOnly() []unix.SockFilter {
	attributes := uint32(unix.NLMSG_HDRLEN + len(generic))
	const otherwise = 0xfffff000 // SKF_AD_OFF, signed
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_IMM, K: attributes},
		{Code: unix.BPF_LDX | unix.BPF_IMM, K: nl.CTA_STATUS},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: otherwise + 12}, // SKF_AD_NLATTR: where the attribute is
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jt: 4},
		{Code: unix.BPF_MISC | unix.BPF_TAX},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: unix.SizeofNlAttr},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: seenReply, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	}
}
