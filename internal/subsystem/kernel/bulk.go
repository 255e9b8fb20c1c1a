// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/model/rib"
)

// Bulk loading: many routes per system call, with an acknowledgement asked only
// for the last one of each batch. The kernel still answers every failure, so
// none is lost. For the lab, tests and benchmarks, which need full tables fast.

const bulkBatch = 512 // routes per send; a failure costs one answer of about 100 bytes

// BulkRoutes adds or replaces routes. It returns how many the kernel refused and the first reason.
func BulkRoutes(ctx context.Context, routes []rib.Route) error {
	return bulk(ctx, routes, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
}

// BulkRemove removes routes. Only Prefix, Source, Table, Metric, TOS and, when given, Protocol and
// Type must match.
func BulkRemove(ctx context.Context, routes []rib.Route) error {
	return bulk(ctx, routes, unix.RTM_DELROUTE, 0)
}

func bulk(ctx context.Context, routes []rib.Route, kind, flags uint16) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	// A batch of failures must fit: forced, so that net.core.rmem_max does not matter.
	if err := unix.SetsockoptInt(a.FD, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20); err != nil {
		return fmt.Errorf("netlink receive buffer: %w", err)
	}
	var failed int
	var first error
	for len(routes) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := routes[:min(bulkBatch, len(routes))]
		routes = routes[len(batch):]
		n, err := a.bulkSend(batch, kind, flags)
		if failed += n; n > 0 && first == nil {
			first = err
		} else if n == 0 && err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d routes refused, first: %w", failed, first)
	}
	return nil
}

// bulkSend sends one batch and counts the refusals; err is the first refusal, or a broken socket when failed is 0.
func (a *asker) bulkSend(batch []rib.Route, kind, flags uint16) (failed int, err error) {
	a.out.b = a.out.b[:0]
	firstSeq := a.Seq + 1
	for i, r := range batch {
		a.Seq++
		f := flags | unix.NLM_F_REQUEST
		if i == len(batch)-1 {
			f |= unix.NLM_F_ACK
		}
		encodeRoute(&a.out, kind, f, a.Seq, r)
	}
	if err := a.Send(a.out.b); err != nil {
		return 0, err
	}
	var first error
	for {
		b, err := a.Receive()
		if err != nil {
			return 0, err
		}
		for len(b) > 0 {
			var m nlmsg.Message
			if m, b, err = nlmsg.Next(b); err != nil {
				return 0, err
			}
			if m.Type != unix.NLMSG_ERROR {
				continue
			}
			if answer := m.Err(); answer != nil {
				failed++
				if first == nil {
					i := int(m.Seq - firstSeq)
					if i < 0 || i >= len(batch) {
						return 0, errors.New("netlink answer to an unknown request")
					}
					first = fmt.Errorf("%s table %d metric %d: %w", batch[i].Prefix, batch[i].Table, batch[i].Metric, answer)
				}
			}
			if m.Seq == a.Seq {
				return failed, first
			}
		}
	}
}
