// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// CountRoutes counts the routes in the main table of the node's kernel by the
// protocol that installed them (RTPROT_ values). It only walks over the kernel's answer, so a
// million routes take well under a second.
func (n *Running) CountRoutes(family int) (byProtocol map[uint8]int, err error) {
	if n.machine != nil {
		byProtocol, err = n.countRoutesInside(family)
	} else {
		err = n.Do(func() error { byProtocol, err = countRoutes(family); return err })
	}
	if err != nil {
		return nil, fmt.Errorf("count routes in %s: %w", n.Name, err)
	}
	return byProtocol, nil
}

// countRoutesInside counts those of the node's machine.
func (n *Running) countRoutesInside(family int) (map[uint8]int, error) {
	option := "-4"
	if family == unix.AF_INET6 {
		option = "-6"
	}
	out, err := n.Run(context.Background(), "sh", "-c", "ip -N -o "+option+` route show table main | awk '{for (i = 1; i < NF; i++) if ($i == "proto") n[$(i+1)]++} END {for (p in n) print p, n[p]}'`)
	if err != nil {
		return nil, err
	}
	count := map[uint8]int{}
	for line := range strings.Lines(out) {
		var protocol uint8
		var routes int
		if _, err := fmt.Sscan(line, &protocol, &routes); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		count[protocol] = routes
	}
	return count, nil
}

func countRoutes(family int) (map[uint8]int, error) {
	s, err := nlmsg.Dial(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	request := make([]byte, unix.SizeofRtMsg)
	request[0] = byte(family)
	count := map[uint8]int{}
	_, err = s.Ask(context.Background(), unix.RTM_GETROUTE, unix.NLM_F_DUMP, request, func(m nlmsg.Message) error {
		// struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags
		if m.Type == unix.RTM_NEWROUTE && m.Body[4] == unix.RT_TABLE_MAIN {
			count[m.Body[5]]++
		}
		return nil
	})
	return count, err
}
