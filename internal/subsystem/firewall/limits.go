// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"minne/internal/model/policy"
)

// Limits of each source, or to each destination: sets that nftables fills itself,
// with a token bucket or a count of connections for each address. They come behind
// the look at the state, so that only first packets of connections cost the search;
// only the limit of ICMP comes before it, as one ping of a thousand packets is one
// connection.
//
// A SYN flood is bounded, not answered in the target's place: nft's synproxy has to
// keep SYNs from conntrack, and with them from the translation of destinations, and
// wants conntrack not to pick up connections that it has not seen begin, such as
// those that go on over a reboot of the router.

// limitedSources is how many sources a limit keeps at once; those beyond are not
// limited, rather than shut out.
const limitedSources = 65535

// forgetAfter is after how many seconds of silence a source's bucket is full
// again, so that it needs no memory.
func forgetAfter(l *policy.Limit) int {
	return max(120, int((l.Per*time.Duration(l.Burst)/time.Duration(l.Rate)).Seconds())+1)
}

// limited is a limit in one family, while it is written.
type limited struct {
	*text
	l    *policy.SourceLimit
	v    string   // v4 or v6
	kind string   // of addresses
	from []string // the matches of the zones' interfaces
}

// rate returns the rules that drop what is above the rate of a key, matched by match.
func (t limited) rate(name, match, key string, limit *policy.Limit, words string) (lines []string) {
	set := fmt.Sprintf("limit_%d_%s_%s", t.l.ID, name, t.v)
	t.set(set, t.kind, fmt.Sprintf("size %d; flags dynamic, timeout; timeout %ds;", limitedSources, forgetAfter(limit)), nil)
	for _, from := range t.from {
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf("%s %s update @%s { %s limit rate over %d/%s burst %d packets } counter drop comment %s",
			from, match, set, key, limit.Rate, span(limit.Per), limit.Burst, t.comment(words))), " "))
	}
	return lines
}

func (t limited) comment(words string) string {
	return strconv.Quote(fmt.Sprintf("limit#%d %s", t.l.ID, words))
}

// limits writes the sets and the chains; the lines are the jumps to them: early is
// for all packets, late for those of no connection yet.
func (t *text) limits() (early, late []string) {
	var all, beginnings []string
	for i := range t.p.Limits {
		l := &t.p.Limits[i]
		if t.empty(l.From) {
			continue
		}
		for _, f := range []struct{ v, kind, ip, source, icmp string }{
			{"v4", "ipv4_addr", "ip", "ip saddr", "meta nfproto ipv4 meta l4proto icmp"},
			// Neighbour discovery and multicast listeners (RFC 4861, RFC 3810) are no flood of their own.
			{"v6", "ipv6_addr", "ip6", "ip6 saddr & ffff:ffff:ffff:ffff::", "icmpv6 type != { 130-137, 143 }"},
		} {
			one := limited{t, l, f.v, f.kind, t.from(filtering, l.From)}
			if l.ICMP != nil {
				all = append(all, one.rate("icmp", f.icmp, f.source, l.ICMP, "ICMP of each host")...)
			}
			if l.SYN != nil {
				beginnings = append(beginnings, one.rate("syn", "meta nfproto ip"+f.v+" tcp flags & (fin | syn | rst | ack) == syn", f.ip+" daddr", l.SYN, "TCP connections to each host")...)
			}
			if l.New != nil {
				beginnings = append(beginnings, one.rate("new", "", f.source, l.New, "new connections of each host")...)
			}
			if l.Open > 0 {
				set := fmt.Sprintf("limit_%d_open_%s", l.ID, f.v)
				t.set(set, f.kind, fmt.Sprintf("size %d; flags dynamic;", limitedSources), nil)
				for _, from := range one.from {
					beginnings = append(beginnings, fmt.Sprintf("%s add @%s { %s ct count over %d } counter drop comment %s", from, set, f.source, l.Open, one.comment("open connections of each host")))
				}
			}
		}
	}
	if len(all) > 0 {
		t.chain("limits_early", all...)
		early = []string{"jump limits_early"}
	}
	if len(beginnings) > 0 {
		t.chain("limits", beginnings...)
		late = []string{"jump limits"}
	}
	return early, late
}
