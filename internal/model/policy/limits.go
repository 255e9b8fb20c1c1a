// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
)

// limits resolves what each host of a zone may use.
func (c *compiler) limits() {
	seen := map[ZoneID]int{}
	for i, l := range c.cfg.Limits {
		path := fmt.Sprintf("limits[%d]", i)
		one := SourceLimit{ID: i + 1, Place: c.report.Place(path), From: c.zoneList(path+".from", l.From), Open: l.OpenConnections}
		if slices.Contains(one.From, Self) {
			c.report.Refuse(path+".from", "the router's own connections are not limited", "a zone", "")
		}
		for _, z := range one.From {
			if first, again := seen[z]; again {
				c.report.Refuse(path+".from", fmt.Sprintf("zone %s has limits already, in limits[%d]", c.p.Zones[z].Name, first), "one entry for a zone", "")
			}
			seen[z] = i
		}
		if l.NewConnections != "" {
			rate, err := parseRate(word{text: l.NewConnections})
			if err != nil {
				c.report.Refuse(path+".new-connections", err.message, err.expected, err.nearest)
				continue
			}
			rate.Burst = l.Burst
			one.New = rate
		}
		one.ICMP, one.SYN = c.rate(path+".icmp", l.ICMP), c.rate(path+".syn-to-host", l.SYNToHost)
		if one.New == nil && one.Open == 0 && l.ICMP == "" && l.SYNToHost == "" {
			c.report.Refuse(path, "the entry has no limit", "new-connections, open-connections, icmp or syn-to-host", "")
		}
		if one.New == nil && c.cfg.Chosen(path+".burst") {
			c.report.Refuse(path+".burst", "burst without new-connections", "new-connections", "")
		}
		c.p.Limits = append(c.p.Limits, one)
	}
}

// rate reads a rate whose burst is the rate; nil for "".
func (c *compiler) rate(path, text string) *Limit {
	if text == "" {
		return nil
	}
	limit, err := parseRate(word{text: text})
	if err != nil {
		c.report.Refuse(path, err.message, err.expected, err.nearest)
		return nil
	}
	limit.Burst = limit.Rate
	return limit
}
