// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
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
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	request := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	binary.NativeEndian.PutUint32(request, uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], unix.RTM_GETROUTE)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[unix.SizeofNlMsghdr] = byte(family)
	if err := unix.Sendto(s, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	count := map[uint8]int{}
	buffer := make([]byte, 256<<10)
	for {
		got, _, err := unix.Recvfrom(s, buffer, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		for b := buffer[:got]; len(b) >= unix.SizeofNlMsghdr; {
			length, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
			if length < unix.SizeofNlMsghdr || length > len(b) {
				return nil, fmt.Errorf("netlink message of %d bytes in %d", length, len(b))
			}
			switch kind {
			case unix.NLMSG_DONE:
				return count, nil
			case unix.NLMSG_ERROR:
				return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:])))
			case unix.RTM_NEWROUTE:
				// struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags
				if m := b[unix.SizeofNlMsghdr:]; m[4] == unix.RT_TABLE_MAIN {
					count[m[5]]++
				}
			}
			b = b[min(len(b), (length+3)&^3):]
		}
	}
}
