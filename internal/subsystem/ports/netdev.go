// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The netdev family of generic netlink (include/uapi/linux/netdev.h): what the kernel
// tells of a port's driver and receive queues. Each command numbers its attributes anew.
const (
	netdevFamily = "netdev"

	commandDevGet    = 1
	attributeIfindex = 1 // of commandNapiGet too
	attributeXDP     = 3 // a mask of NETDEV_XDP_ACT_
	attributeHints   = 5 // a mask of NETDEV_XDP_RX_METADATA_ (Linux 6.8)

	commandNapiGet   = 11
	attributeNapiID  = 2
	attributeNapiPID = 4 // of its thread, if it has one
)

// genericHeader is struct genlmsghdr: command, version, and two reserved bytes that
// must be 0 (nl.Genlmsg leaves them to chance).
type genericHeader [4]byte

func (genericHeader) Len() int            { return 4 }
func (h genericHeader) Serialize() []byte { return h[:] }

// ErrNoNetdev is the answer of a kernel that is too old to be asked for what it knows of a port.
var ErrNoNetdev = errors.New("the kernel is too old to report this (XDP features: Linux 6.3 or later; receive threads of a port: 6.7 or later)")

// askNetdev asks the netdev family about a port. Flags are NLM_F_ACK for one answer, NLM_F_DUMP for
// all there are. A kernel that doesn't know the family or the command gives ErrNoNetdev.
func askNetdev(command byte, flags, index int) ([][]byte, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return nil, ErrNoNetdev
	}
	request := nl.NewNetlinkRequest(int(family.ID), flags)
	request.AddData(genericHeader{command, 1})
	request.AddData(nl.NewRtAttr(attributeIfindex, nl.Uint32Attr(uint32(index))))
	answers, err := exchange(request)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, ErrNoNetdev
	}
	return answers, err
}

// exchange sends a request of generic netlink and reads until the kernel says that it is done.
// NetlinkRequest.Execute would stop at the first answer of a dump: those of the netdev family
// don't bear NLM_F_MULTI.
func exchange(request *nl.NetlinkRequest) (answers [][]byte, err error) {
	socket, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	if err := socket.SetReceiveTimeout(&nl.SocketTimeoutTv); err != nil {
		return nil, err
	}
	if err := socket.Send(request); err != nil {
		return nil, err
	}
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if code := -int32(number(m.Data)); code != 0 {
					return nil, unix.Errno(code)
				}
				return answers, nil
			default:
				answers = append(answers, m.Data)
			}
		}
	}
}

// attributesOf are the attributes of an answer, which follow its struct genlmsghdr.
func attributesOf(answer []byte) (map[uint16][]byte, error) {
	if len(answer) < nl.SizeofGenlmsg {
		return nil, fmt.Errorf("an answer of %d bytes: expected at least its header of %d", len(answer), nl.SizeofGenlmsg)
	}
	all, err := nl.ParseRouteAttr(answer[nl.SizeofGenlmsg:])
	if err != nil {
		return nil, err
	}
	values := map[uint16][]byte{}
	for _, a := range all {
		values[a.Attr.Type] = a.Value
	}
	return values, nil
}

// number is the u32 at the beginning of a value, in the CPU's byte order; 0 when there is none.
func number(value []byte) uint32 {
	if len(value) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}

// ReceiveThreads returns the pids of the kernel threads that handle a port's receive queues, in the
// order of the queues. The port is in the calling thread's namespace. Kernels before 6.7 give ErrNoNetdev.
func ReceiveThreads(index int) ([]int, error) {
	answers, err := askNetdev(commandNapiGet, unix.NLM_F_DUMP, index)
	if errors.Is(err, ErrNoNetdev) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the receive threads of port %d: %w", index, err)
	}
	type thread struct{ queue, pid uint32 }
	var threads []thread
	for _, answer := range answers {
		values, err := attributesOf(answer)
		if err != nil {
			return nil, fmt.Errorf("receive threads of port %d: %w", index, err)
		}
		pid := number(values[attributeNapiPID])
		if number(values[attributeIfindex]) == uint32(index) && pid > 0 {
			threads = append(threads, thread{number(values[attributeNapiID]), pid})
		}
	}
	// Drivers add their queues one after the other, and each gets a higher number.
	slices.SortFunc(threads, func(a, b thread) int { return cmp.Compare(a.queue, b.queue) })
	var pids []int
	for _, t := range threads {
		pids = append(pids, int(t.pid))
	}
	return pids, nil
}
