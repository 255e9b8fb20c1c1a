// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Connections is how many connections the kernel keeps (conntrack), and how long those that are silent.
type Connections struct {
	Max      int             `yaml:"max" json:"max,omitempty" doc:"Connections that the kernel keeps at most, 1024 to 16777216; each takes about 400 bytes of memory. The limit is the whole machine's: a router in a network namespace has its host's. Absent: by the memory, but never less than the system has set." min:"1024" max:"16777216"`
	Timeouts ConnectionTimes `yaml:"timeouts" json:"timeouts,omitzero" doc:"After how long the kernel forgets connections on which nothing passes. Absent ones are the kernel's own."`
}

// ConnectionTimes are conntrack's timeouts; zero for the kernel's own.
type ConnectionTimes struct {
	Established    Duration `yaml:"tcp-established" json:"tcp-established,omitempty" doc:"TCP connections that are established, 5m to 30d; the kernel's own: 5d. RFC 5382 asks for 2h4m at least."`
	SynSent        Duration `yaml:"tcp-syn-sent" json:"tcp-syn-sent,omitempty" doc:"TCP connections that nobody has answered; the kernel's own: 2m."`
	SynReceived    Duration `yaml:"tcp-syn-recv" json:"tcp-syn-recv,omitempty" doc:"TCP connections whose opener has not confirmed the answer; the kernel's own: 1m."`
	FinWait        Duration `yaml:"tcp-fin-wait" json:"tcp-fin-wait,omitempty" doc:"TCP connections that one end has closed; the kernel's own: 2m."`
	CloseWait      Duration `yaml:"tcp-close-wait" json:"tcp-close-wait,omitempty" doc:"TCP connections that one end has closed and the other has noticed; the kernel's own: 1m."`
	LastAck        Duration `yaml:"tcp-last-ack" json:"tcp-last-ack,omitempty" doc:"TCP connections that both ends have closed, until the last packet; the kernel's own: 30s."`
	TimeWait       Duration `yaml:"tcp-time-wait" json:"tcp-time-wait,omitempty" doc:"TCP connections after the last packet; the kernel's own: 2m."`
	Unacknowledged Duration `yaml:"tcp-unacknowledged" json:"tcp-unacknowledged,omitempty" doc:"TCP connections with data that nobody has acknowledged; the kernel's own: 5m."`
	UDP            Duration `yaml:"udp" json:"udp,omitempty" doc:"UDP that went one way, or only once both ways; the kernel's own: 30s."`
	UDPStream      Duration `yaml:"udp-stream" json:"udp-stream,omitempty" doc:"UDP that goes on in both ways, 10s to 30d; the kernel's own: 2m. RFC 4787 asks for 2m at least."`
	ICMP           Duration `yaml:"icmp" json:"icmp,omitempty" doc:"Pings, of IPv4 and IPv6; the kernel's own: 30s."`
	Other          Duration `yaml:"other" json:"other,omitempty" doc:"Other protocols; the kernel's own: 10m."`
}

// ConnectionTime is a timeout with its key below connections.timeouts.
type ConnectionTime struct {
	Key      string
	Value    Duration // 0: the kernel's own
	Settings []string // its names below /proc/sys/net/netfilter
	least    int      // seconds
	advised  int      // seconds, below which a standard is broken; 0 for none
	standard string   // that says so
}

// All are the timeouts in the order of the reference. The fast path renews an established connection once
// in 2.1 seconds, so those of connections that it forwards are much longer than that.
func (t ConnectionTimes) All() []ConnectionTime {
	tcp := func(key string, v Duration, name string) ConnectionTime {
		return ConnectionTime{Key: "tcp-" + key, Value: v, Settings: []string{"nf_conntrack_tcp_timeout_" + name}, least: 1}
	}
	established := tcp("established", t.Established, "established")
	established.least, established.advised, established.standard = 5*60, 2*3600+4*60, "RFC 5382"
	return []ConnectionTime{
		established,
		tcp("syn-sent", t.SynSent, "syn_sent"),
		tcp("syn-recv", t.SynReceived, "syn_recv"),
		tcp("fin-wait", t.FinWait, "fin_wait"),
		tcp("close-wait", t.CloseWait, "close_wait"),
		tcp("last-ack", t.LastAck, "last_ack"),
		tcp("time-wait", t.TimeWait, "time_wait"),
		tcp("unacknowledged", t.Unacknowledged, "unacknowledged"),
		{Key: "udp", Value: t.UDP, Settings: []string{"nf_conntrack_udp_timeout"}, least: 1},
		{Key: "udp-stream", Value: t.UDPStream, Settings: []string{"nf_conntrack_udp_timeout_stream"}, least: 10, advised: 120, standard: "RFC 4787"},
		{Key: "icmp", Value: t.ICMP, Settings: []string{"nf_conntrack_icmp_timeout", "nf_conntrack_icmpv6_timeout"}, least: 1},
		{Key: "other", Value: t.Other, Settings: []string{"nf_conntrack_generic_timeout"}, least: 1},
	}
}

// longestTime of a connection, in seconds: the fast path counts milliseconds in 32 bits.
const longestTime = 30 * 24 * 3600

func (c *checker) connections() {
	n := c.cfg.Connections
	if n == nil {
		return
	}
	for _, t := range n.Timeouts.All() {
		if path := "connections.timeouts." + t.Key; t.Value != 0 || c.cfg.Written(path) {
			c.seconds(path, t.Value, t.least, longestTime)
		}
	}
	if !c.cfg.Zoned() {
		c.refuse("connections", "without zones the kernel keeps no connections", "a zone on an interface", "")
	}
}

// oddConnections warns of timeouts that end connections which hosts take for alive.
func (c *checker) oddConnections() {
	n := c.cfg.Connections
	if n == nil {
		return
	}
	for _, t := range n.Timeouts.All() {
		if t.Value != 0 && t.Value.Std() < time.Duration(t.advised)*time.Second {
			c.refuse("connections.timeouts."+t.Key, fmt.Sprintf("connections that are silent for %s end though both hosts hold them", t.Value),
				fmt.Sprintf("at least %s (%s)", Duration(time.Duration(t.advised)*time.Second), t.standard), "")
		}
	}
}

// Zoned says whether there is a firewall: an interface with a zone.
func (cfg *Config) Zoned() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(cfg.Interfaces)), func(i *Interface) bool { return i.Zone != "" })
}
