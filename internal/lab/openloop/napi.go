// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of the kernel's generic netlink family "netdev" (include/uapi/linux/netdev.h).
const (
	netdevNapiGet = 11 // NETDEV_CMD_NAPI_GET
	napiIfindex   = 1  // NETDEV_A_NAPI_IFINDEX, u32
	napiPID       = 4  // NETDEV_A_NAPI_PID, u32: of its thread, if it has one
)

// genericHeader is struct genlmsghdr: command, version, and two reserved bytes that
// must be 0 (nl.Genlmsg leaves them to chance).
type genericHeader [4]byte

func (genericHeader) Len() int            { return 4 }
func (h genericHeader) Serialize() []byte { return h[:] }

// errNoNetdev: the kernel is older than its answer to who handles a receive queue.
var errNoNetdev = errors.New("the kernel can't tell the receive threads of a port (before 6.7)")

// napiThreads returns the pids of the threads that handle a port's receive
// queues. The port is in the calling thread's namespace.
func napiThreads(ifindex int) ([]int, error) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return nil, errNoNetdev
	}
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_DUMP)
	request.AddData(genericHeader{netdevNapiGet, 1})
	request.AddData(nl.NewRtAttr(napiIfindex, nl.Uint32Attr(uint32(ifindex))))
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, errNoNetdev
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the receive threads of port %d: %w", ifindex, err)
	}
	var pids []int
	for _, m := range messages {
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return nil, fmt.Errorf("receive threads of port %d: %w", ifindex, err)
		}
		of, pid := 0, 0
		for _, a := range attrs {
			switch a.Attr.Type {
			case napiIfindex:
				of = int(binary.NativeEndian.Uint32(a.Value))
			case napiPID:
				pid = int(binary.NativeEndian.Uint32(a.Value))
			}
		}
		if of == ifindex && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
