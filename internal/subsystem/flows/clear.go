// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/subsystem/fastpath/flow"
)

// Clear makes the kernel forget the connections that a filter chooses, and returns how many. Their flows
// are the fast path's until it asks conntrack again: the caller sees to that. What goes on is evaluated like
// what begins a connection.
func (t *Table) Clear(ctx context.Context, f Filter) (int, error) {
	z, end, err := t.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	if err := z.check(&f); err != nil {
		return 0, err
	}
	chosen := map[flow.Key]bool{}
	if _, err = t.each(ctx, f.flows(), func(c *Connection) {
		if f.match(c, z) {
			chosen[c.Key[0]] = true
		}
	}); err != nil || len(chosen) == 0 {
		return 0, errors.Join(err, z.failed)
	}
	if z.failed != nil {
		return 0, z.failed
	}
	requests, err := deletions(ctx, chosen)
	if err != nil {
		return 0, err
	}
	s, err := nlmsg.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	cleared := 0
	for _, body := range requests {
		_, err := s.Ask(ctx, conntrackMessage(nl.IPCTNL_MSG_CT_DELETE), unix.NLM_F_ACK, body, func(nlmsg.Message) error { return nil })
		switch {
		case err == nil:
			cleared++
		case !errors.Is(err, unix.ENOENT): // it ended by itself
			return cleared, fmt.Errorf("end a connection: %w", err)
		}
	}
	return cleared, nil
}

// deletions are the bodies of requests to delete connections. They name each by what the kernel itself
// says of it: its addresses and ports, zone and number, so that no later one with the same is hit.
func deletions(ctx context.Context, chosen map[flow.Key]bool) (bodies [][]byte, err error) {
	s, err := nlmsg.Dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	_, err = s.Ask(ctx, conntrackMessage(nl.IPCTNL_MSG_CT_GET), unix.NLM_F_DUMP, generic, func(m nlmsg.Message) error {
		message := m.Body
		c := Connection{}
		if !c.decode(message) || !chosen[c.Key[0]] {
			return nil
		}
		body := slices.Clone(message[:len(generic)])
		for kind, value := range nlmsg.Attributes(message[len(generic):]) {
			switch kind {
			case nl.CTA_TUPLE_ORIG:
				body = nlmsg.AppendAttr(body, kind|unix.NLA_F_NESTED, value)
			case nl.CTA_ZONE, nl.CTA_ID:
				body = nlmsg.AppendAttr(body, kind, value)
			}
		}
		bodies = append(bodies, body)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read conntrack's connections: %w", err)
	}
	return bodies, nil
}
