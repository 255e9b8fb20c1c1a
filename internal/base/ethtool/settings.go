// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Setting is one number that a driver keeps, by the name that `ethtool` prints.
type Setting string

// The settings.
const (
	Queues      Setting = "queues"                    // pairs of a receive and a transmit queue (-L)
	RxRing      Setting = "receive ring"              // descriptors (-G)
	TxRing      Setting = "transmit ring"             // descriptors
	RxDelay     Setting = "receive coalescing"        // µs until an interrupt (-C rx-usecs)
	TxDelay     Setting = "transmit coalescing"       // µs
	RxFrames    Setting = "receive frames"            // frames until an interrupt (-C rx-frames)
	Adaptive    Setting = "adaptive coalescing"       // 0 or 1
	FlowControl Setting = "flow control"              // 0 or 1, both directions (-A)
	EEE         Setting = "energy-efficient Ethernet" // 0 or 1 (--set-eee)
	UDPPorts    Setting = "UDP ports in the hash"     // 0 or 1, both families (-N rx-flow-hash)
	Filters     Setting = "receive filters"           // 0 or 1: rules of an operator choose a queue (-K ntuple)
	Speed       Setting = "speed"                     // Mbit/s, full duplex, without negotiation; 0: negotiated (-s)
)

// Settings are those that the configuration names, in the order of setting: rings and queues make the link anew.
var Settings = []Setting{Queues, RxRing, TxRing, RxDelay, RxFrames, TxDelay, Adaptive, FlowControl, EEE, UDPPorts, Speed}

// Words are a setting's value as an operator reads it.
func (s Setting) Words(v int) string {
	switch s {
	case Adaptive, FlowControl, EEE, UDPPorts, Filters:
		return map[bool]string{true: "on", false: "off"}[v != 0]
	case Speed:
		if v == 0 {
			return "negotiated"
		}
		return fmt.Sprintf("%d Mbit/s", v)
	case RxDelay, TxDelay:
		return fmt.Sprintf("%d µs", v)
	}
	return fmt.Sprint(v)
}

// group is a structure of the ioctl that some settings are words of. The first word is the command.
type group struct {
	get, set uint32
	words    int
}

// place is where a setting stands: words[at] of a group, with its bound in words[most], 0 for none.
type place struct {
	of       *group
	at, most int
}

var (
	coalesce = &group{unix.ETHTOOL_GCOALESCE, unix.ETHTOOL_SCOALESCE, 23}
	ring     = &group{unix.ETHTOOL_GRINGPARAM, unix.ETHTOOL_SRINGPARAM, 9}
	eee      = &group{unix.ETHTOOL_GEEE, unix.ETHTOOL_SEEE, 10}

	places = map[Setting]place{
		RxDelay: {coalesce, 1, 0}, RxFrames: {coalesce, 2, 0}, TxDelay: {coalesce, 5, 0}, Adaptive: {coalesce, 10, 0},
		RxRing: {ring, 5, 1}, TxRing: {ring, 8, 4},
		EEE: {eee, 5, 0},
	}
)

// Get asks for a setting, and for the most that it can be, 0 where that is not said.
func (t Tool) Get(name string, s Setting) (now, most int, err error) {
	switch s {
	case Queues:
		return t.queues(name)
	case FlowControl:
		p := pause{command: unix.ETHTOOL_GPAUSEPARAM}
		err = t.do(name, unsafe.Pointer(&p))
		return int(p.rx & p.tx), 1, err
	case UDPPorts:
		now, err = t.hashed(name)
		return now, 1, err
	case Filters:
		on, err := t.On(name, filters)
		if on {
			now = 1
		}
		return now, 1, err
	case Speed:
		return t.forced(name)
	}
	at := places[s]
	words, err := t.read(name, at.of)
	if err != nil {
		return 0, 0, err
	}
	if at.most > 0 {
		most = int(words[at.most])
	}
	return int(words[at.at]), most, nil
}

// Set changes a setting.
func (t Tool) Set(name string, s Setting, to int) error {
	switch s {
	case Queues:
		return t.setQueues(name, uint32(to))
	case FlowControl:
		return t.setPause(name, uint32(to))
	case UDPPorts:
		return t.hash(name, to != 0)
	case Filters:
		return t.Turn(name, filters, to != 0)
	case Speed:
		return t.force(name, uint32(to))
	}
	at := places[s]
	words, err := t.read(name, at.of)
	if err != nil {
		return err
	}
	words[0], words[at.at] = at.of.set, uint32(to)
	return t.do(name, unsafe.Pointer(&words[0]))
}

func (t Tool) read(name string, g *group) ([]uint32, error) {
	words := make([]uint32, g.words)
	words[0] = g.get
	err := t.do(name, unsafe.Pointer(&words[0]))
	return words, err
}

// channels is struct ethtool_channels.
type channels struct {
	command                                     uint32
	maxRx, maxTx, maxOther, maxCombined         uint32
	rxCount, txCount, otherCount, combinedCount uint32
}

func (t Tool) queues(name string) (now, most int, err error) {
	c := channels{command: unix.ETHTOOL_GCHANNELS}
	if err := t.do(name, unsafe.Pointer(&c)); err != nil {
		return 0, 0, err
	}
	if c.maxCombined > 0 {
		return int(c.combinedCount), int(c.maxCombined), nil
	}
	return int(min(c.rxCount, c.txCount)), int(min(c.maxRx, c.maxTx)), nil
}

func (t Tool) setQueues(name string, n uint32) error {
	c := channels{command: unix.ETHTOOL_GCHANNELS}
	if err := t.do(name, unsafe.Pointer(&c)); err != nil {
		return err
	}
	if c.command = unix.ETHTOOL_SCHANNELS; c.maxCombined > 0 {
		c.combinedCount = n
	} else {
		c.rxCount, c.txCount = n, n
	}
	return t.do(name, unsafe.Pointer(&c))
}

// pause is struct ethtool_pauseparam.
type pause struct{ command, negotiated, rx, tx uint32 }

func (t Tool) setPause(name string, on uint32) error {
	p := pause{command: unix.ETHTOOL_GPAUSEPARAM}
	if err := t.do(name, unsafe.Pointer(&p)); err != nil {
		return err
	}
	p.command, p.rx, p.tx = unix.ETHTOOL_SPAUSEPARAM, on, on
	return t.do(name, unsafe.Pointer(&p))
}

// flowHash is struct ethtool_rxnfc as far as -N rx-flow-hash uses it; the kernel reads and writes no more than that.
type flowHash struct {
	command, flow uint32
	fields        uint64
	rest          [176]byte
}

const (
	hashAddresses = 1<<4 | 1<<5 // RXH_IP_SRC, RXH_IP_DST
	hashPorts     = 1<<6 | 1<<7 // RXH_L4_B_0_1, RXH_L4_B_2_3
)

// udpFlows are UDP_V4_FLOW and UDP_V6_FLOW.
var udpFlows = []uint32{2, 6}

func (t Tool) hashed(name string) (now int, err error) {
	now = 1
	for _, flow := range udpFlows {
		h := flowHash{command: unix.ETHTOOL_GRXFH, flow: flow}
		if err := t.do(name, unsafe.Pointer(&h)); err != nil {
			return 0, err
		}
		if h.fields&hashPorts != hashPorts {
			now = 0
		}
	}
	return now, nil
}

func (t Tool) hash(name string, ports bool) error {
	for _, flow := range udpFlows {
		h := flowHash{command: unix.ETHTOOL_SRXFH, flow: flow, fields: hashAddresses}
		if ports {
			h.fields |= hashPorts
		}
		if err := t.do(name, unsafe.Pointer(&h)); err != nil {
			return err
		}
	}
	return nil
}

// linkSettings is struct ethtool_link_settings with room for the three link mode masks that follow it: supported,
// advertised, and those of the far end, of maskWords each.
type linkSettings struct {
	command        uint32
	speed          uint32 // Mbit/s, all ones when unknown
	duplex         uint8
	port, phy, neg uint8
	mdio, crossing uint8
	crossingCtrl   uint8
	maskWords      int8
	_              [8]uint32
	masks          [3 * 127]uint32
}

const unknownSpeed = 1<<32 - 1

func (t Tool) link(name string) (*linkSettings, error) {
	l := &linkSettings{command: unix.ETHTOOL_GLINKSETTINGS}
	// The first call answers the size of the masks, negative; the second fills them.
	if err := t.do(name, unsafe.Pointer(l)); err != nil {
		return nil, err
	}
	if l.maskWords >= 0 {
		return nil, unix.EOPNOTSUPP
	}
	l = &linkSettings{command: unix.ETHTOOL_GLINKSETTINGS, maskWords: -l.maskWords}
	return l, t.do(name, unsafe.Pointer(l))
}

// Speed returns the link's speed in Mbit/s (0 when unknown) and its duplex ("" when unknown).
func (t Tool) Speed(name string) (mbit uint32, duplex string) {
	l, err := t.link(name)
	if err != nil {
		return 0, ""
	}
	if l.speed != unknownSpeed {
		mbit = l.speed
	}
	if words := []string{"half", "full"}; int(l.duplex) < len(words) {
		duplex = words[l.duplex]
	}
	return mbit, duplex
}

// forced is the speed that a link has without negotiation, 0 with.
func (t Tool) forced(name string) (now, most int, err error) {
	l, err := t.link(name)
	if err != nil || l.neg != 0 || l.speed == unknownSpeed {
		return 0, 0, err
	}
	return int(l.speed), 0, nil
}

// force sets a speed with full duplex, or with 0 lets the ends negotiate all that the port can.
func (t Tool) force(name string, mbit uint32) error {
	l, err := t.link(name)
	if err != nil {
		return err
	}
	l.command = unix.ETHTOOL_SLINKSETTINGS
	if l.neg = 0; mbit == 0 {
		l.neg = 1
		n := int(l.maskWords)
		copy(l.masks[n:2*n], l.masks[:n])
	} else {
		l.speed, l.duplex = mbit, 1
	}
	return t.do(name, unsafe.Pointer(l))
}
