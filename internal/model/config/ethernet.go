// SPDX-License-Identifier: Apache-2.0

package config

import "fmt"

// Ethernet are settings of a port's hardware, as ethtool sets them. What is absent stays as it is.
type Ethernet struct {
	Queues             int    `yaml:"queues" json:"queues,omitempty" doc:"Pairs of a receive and a transmit queue (ethtool -L). With the fast path every CPU that forwards needs one on each port." min:"1" max:"1024"`
	RxRing             int    `yaml:"rx-ring" json:"rx-ring,omitempty" doc:"Receive ring: frames that wait for the CPU (ethtool -G rx). More of them lose less in bursts, and cost cache." min:"1" max:"65535"`
	TxRing             int    `yaml:"tx-ring" json:"tx-ring,omitempty" doc:"Transmit ring: frames that wait for the wire (ethtool -G tx)." min:"1" max:"65535"`
	RxCoalesce         *int   `yaml:"rx-coalesce" json:"rx-coalesce,omitempty" doc:"Interrupt coalescing: microseconds from a received frame to the interrupt (ethtool -C rx-usecs). Fewer interrupts save energy, and delay packets." min:"0" max:"10000"`
	TxCoalesce         *int   `yaml:"tx-coalesce" json:"tx-coalesce,omitempty" doc:"Interrupt coalescing: microseconds from a sent frame to the interrupt (ethtool -C tx-usecs)." min:"0" max:"10000"`
	RxCoalesceFrames   *int   `yaml:"rx-coalesce-frames" json:"rx-coalesce-frames,omitempty" doc:"Interrupt coalescing: received frames that raise the interrupt at once (ethtool -C rx-frames)." min:"0" max:"65535"`
	AdaptiveCoalescing *OnOff `yaml:"adaptive-coalescing" json:"adaptive-coalescing,omitempty" doc:"The driver chooses rx-coalesce by the load (ethtool -C adaptive-rx). Absent: unchanged." enum:"on,off"`
	FlowControl        *OnOff `yaml:"flow-control" json:"flow-control,omitempty" doc:"Ethernet flow control, pause frames (IEEE 802.3x), in both directions. A router that forwards at line rate is better without. Absent: unchanged." enum:"on,off"`
	EEE                *OnOff `yaml:"eee" json:"eee,omitempty" doc:"Energy-efficient Ethernet (IEEE 802.3az). It saves up to half a watt on a port, and delays the first packets after a pause. Absent: unchanged." enum:"on,off"`
	HashPorts          *OnOff `yaml:"hash-ports" json:"hash-ports,omitempty" doc:"The card chooses the receive queue of UDP by the ports too, not by the addresses alone (ethtool -N rx-flow-hash). Absent: unchanged." enum:"on,off"`
	Spread             *OnOff `yaml:"spread" json:"spread,omitempty" doc:"The fast path spreads what the port receives over the CPUs that forward, by flow (XDP cpumap). For a card with fewer receive queues than CPUs; handing a packet over costs time, so it is slower while one CPU is enough. Absent: off." enum:"on,off"`
	Speed              Rate   `yaml:"speed" json:"speed,omitempty" doc:"Speed without autonegotiation, with full duplex: the far end must be set to the same. Absent: unchanged." example:"100Mbit"`
	Autonegotiation    *OnOff `yaml:"autonegotiation" json:"autonegotiation,omitempty" doc:"on: the ends negotiate the speed again, after it had been set. Absent: unchanged." enum:"on"`
}

// ethernet checks the hardware's settings of an interface.
func (c *checker) ethernet(path, name string, i *Interface) {
	e := i.Ethernet
	if e == nil {
		return
	}
	path += ".ethernet"
	if !c.cfg.Kind(name).Port {
		c.refuse(path, fmt.Sprintf("%s is no port of the machine and has no hardware to set", name), "the section at the port below", "")
		return
	}
	if e.Speed != 0 && e.Autonegotiation.On() {
		c.refuse(path+".autonegotiation", "the speed is set, so it is not negotiated", "speed or autonegotiation", "")
	}
	if e.Spread.On() && (c.cfg.FastPath.Mode == "off" || !i.FastPath.On()) {
		c.refuse(path+".spread", "the fast path spreads the packets, and it is off for this port", "the fast path on, or no spread", "")
	}
	if e.Speed%1_000_000 != 0 {
		c.refuse(path+".speed", "Ethernet has speeds in whole Mbit/s", "a speed as 100Mbit or 1Gbit", "")
	}
	if e.AdaptiveCoalescing.On() && e.RxCoalesce != nil {
		c.refuse(path+".rx-coalesce", "the driver chooses it while adaptive-coalescing is on", "one of the two", "")
	}
}
