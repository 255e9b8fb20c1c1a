// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"
)

// FlowLog is which connections are remembered, where, and for how long.
type FlowLog struct {
	Size       int      `yaml:"size" json:"size,omitempty" doc:"Room on the disk for the log, in MB. The oldest records go when it is full. On the image the log is in memory, and is gone after a reboot." default:"1000" min:"8" max:"1000000"`
	Days       int      `yaml:"days" json:"days,omitempty" doc:"Records older than this are deleted." default:"90" min:"1" max:"3650"`
	Interval   Duration `yaml:"interval" json:"interval,omitempty" doc:"A connection that lasts is recorded at every interval, 10s to 24h, and when it ends." default:"10m"`
	Unanswered *OnOff   `yaml:"unanswered" json:"unanswered,omitempty" doc:"Records also connections that nobody answered. Off: a scan or a flood with forged addresses does not fill the log." default:"on" enum:"on,off"`
}

func (c *checker) flowLog() {
	l := c.cfg.FlowLog
	if l == nil {
		return
	}
	c.seconds("flow-log.interval", l.Interval, 10, 24*3600)
	if !slices.ContainsFunc(slices.Collect(maps.Values(c.cfg.Interfaces)), func(i *Interface) bool { return i.Zone != "" }) {
		c.refuse("flow-log", "without zones the kernel keeps no connections that could be logged", "a zone on an interface", "")
	}
}
