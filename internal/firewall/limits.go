// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"strconv"
	"time"

	"minne/internal/policy"
)

// Limits of each source: sets that nftables fills itself, with a token bucket or a
// count of connections for each address. They come behind the look at the state,
// so that only first packets of connections cost the search.

// limitedSources is how many sources a limit keeps at once; those beyond are not
// limited, rather than shut out.
const limitedSources = 65535

// forgetAfter is after how many seconds of silence a source's bucket is full
// again, so that it needs no memory.
func forgetAfter(l *policy.Limit) int {
	return max(120, int((l.Per*time.Duration(l.Burst)/time.Duration(l.Rate)).Seconds())+1)
}

// limits writes the sets and the chain; lines are the jumps to it.
func (t *text) limits() (lines []string) {
	var rules []string
	for i := range t.p.Limits {
		l := &t.p.Limits[i]
		if t.empty(l.From) {
			continue
		}
		from := t.interfaces("iifname", l.From)
		for _, f := range []struct{ name, kind, source string }{
			{"v4", "ipv4_addr", "ip saddr"}, {"v6", "ipv6_addr", "ip6 saddr & ffff:ffff:ffff:ffff::"},
		} {
			comment := strconv.Quote(fmt.Sprintf("limit#%d new connections", l.ID))
			if l.New != nil {
				set := fmt.Sprintf("limit_%d_new_%s", l.ID, f.name)
				t.set(set, f.kind, fmt.Sprintf("size %d; flags dynamic, timeout; timeout %ds;", limitedSources, forgetAfter(l.New)), nil)
				rules = append(rules, fmt.Sprintf("%s update @%s { %s limit rate over %d/%s burst %d packets } counter drop comment %s",
					from, set, f.source, l.New.Rate, span(l.New.Per), l.New.Burst, comment))
			}
			if l.Open > 0 {
				set := fmt.Sprintf("limit_%d_open_%s", l.ID, f.name)
				comment = strconv.Quote(fmt.Sprintf("limit#%d open connections", l.ID))
				t.set(set, f.kind, fmt.Sprintf("size %d; flags dynamic;", limitedSources), nil)
				rules = append(rules, fmt.Sprintf("%s add @%s { %s ct count over %d } counter drop comment %s", from, set, f.source, l.Open, comment))
			}
		}
	}
	if len(rules) == 0 {
		return nil
	}
	t.chain("limits", rules...)
	return []string{"jump limits"}
}
