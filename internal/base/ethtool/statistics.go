// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sets of strings (enum ethtool_stringset), and the longest name of a counter.
const (
	counterNames = 1 // ETH_SS_STATS
	nameBytes    = 32
	mostCounters = 1 << 16 // that a driver is believed to have
)

// Statistics returns the counters of a driver by the names that it gives them (ethtool -S); none where it has none.
func (t Tool) Statistics(name string) (map[string]uint64, error) {
	sets := struct {
		command, _ uint32
		mask       uint64
		count      uint32
	}{command: unix.ETHTOOL_GSSET_INFO, mask: 1 << counterNames}
	if err := t.do(name, unsafe.Pointer(&sets)); err != nil {
		if Lacks(err) {
			return nil, nil
		}
		return nil, err
	}
	n := int(sets.count)
	if sets.mask == 0 || n == 0 || n > mostCounters {
		return nil, nil
	}
	names := make([]byte, 12+n*nameBytes) // struct ethtool_gstrings
	words := (*[3]uint32)(unsafe.Pointer(&names[0]))
	words[0], words[1], words[2] = unix.ETHTOOL_GSTRINGS, counterNames, uint32(n)
	values := make([]uint64, 1+n) // struct ethtool_stats
	head := (*[2]uint32)(unsafe.Pointer(&values[0]))
	head[0], head[1] = unix.ETHTOOL_GSTATS, uint32(n)
	for _, request := range []unsafe.Pointer{unsafe.Pointer(&names[0]), unsafe.Pointer(&values[0])} {
		if err := t.do(name, request); err != nil {
			return nil, err
		}
	}
	runtime.KeepAlive(names)
	counters := make(map[string]uint64, n)
	for i := range min(n, int(words[2]), int(head[1])) {
		counters[unix.ByteSliceToString(names[12+i*nameBytes:12+(i+1)*nameBytes])] = values[1+i]
	}
	return counters, nil
}

// Counted is what a driver has counted of one queue; nil for what it does not count.
type Counted struct{ Packets, Bytes, Drops *uint64 }

// How drivers name the counters of their queues: rx_queue_0_packets, rx0_packets, rx-0.packets, queue_0_rx_cnt,
// [0]: rx_ucast_packets.
var queueCounters = []*regexp.Regexp{
	regexp.MustCompile(`^(?P<way>[rt]x)[-_]?(?:queue[-_]?)?(?P<queue>\d+)[-_.](?P<what>.+)$`),
	regexp.MustCompile(`^queue_(?P<queue>\d+)_(?P<way>[rt]x)_(?P<what>.+)$`),
	regexp.MustCompile(`^\[(?P<queue>\d+)\]: (?P<way>[rt]x)_(?P<what>.+)$`),
}

// ByQueue sorts the counters of a driver by receive and transmit queue.
func ByQueue(counters map[string]uint64) (receive, transmit map[int]Counted) {
	receive, transmit = map[int]Counted{}, map[int]Counted{}
	whole := map[string]bool{} // those whose count of packets has all of them, with XDP's
	for name, value := range counters {
		for _, form := range queueCounters {
			found := form.FindStringSubmatch(name)
			if found == nil {
				continue
			}
			queue, err := strconv.Atoi(found[form.SubexpIndex("queue")])
			if err != nil {
				continue
			}
			way, what := found[form.SubexpIndex("way")], found[form.SubexpIndex("what")]
			to := receive
			if way == "tx" {
				to = transmit
			}
			c := to[queue]
			key := way + strconv.Itoa(queue)
			switch what {
			case "packets", "cnt", "ucast_packets":
				c.Packets, whole[key+"packets"] = &value, true
			case "bytes", "ucast_bytes":
				c.Bytes, whole[key+"bytes"] = &value, true
			case "xdp_packets", "xdp_xmit": // veth counts no others
				if !whole[key+"packets"] {
					c.Packets = &value
				}
			case "xdp_bytes":
				if !whole[key+"bytes"] {
					c.Bytes = &value
				}
			default:
				if strings.HasSuffix(what, "drops") || strings.HasSuffix(what, "dropped") {
					sum := value
					if c.Drops != nil {
						sum += *c.Drops
					}
					c.Drops = &sum
				}
			}
			to[queue] = c
			break
		}
	}
	return receive, transmit
}
