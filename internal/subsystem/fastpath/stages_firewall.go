// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"net/netip"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/filter"
)

// What the firewall's stages have to say; "" where there is no firewall.

func (j *journey) transport() string {
	if j.policy() == nil {
		return ""
	}
	return "the header of " + packet.ProtocolName(j.ip.Protocol) + " is right"
}

// policy is the firewall that the fast path repeats; nil where there is none.
func (j *journey) policy() *filter.Policy {
	if j.t.firewall == nil || j.t.firewall.kernel != "" {
		return nil
	}
	return j.t.firewall.policy
}

// connection says what is known of the packet's connection.
func (j *journey) connection() string {
	p := j.policy()
	switch {
	case p == nil:
		return ""
	case !p.Translates:
		return "" // looked for when the way is known
	case j.verdict.trace.Flow == 0:
		return "of no connection that is known"
	}
	text := "of an established connection"
	if j.verdict.Action != ActionRedirect {
		return text
	}
	left := packet.Summarize(j.verdict.Packet)
	for _, c := range []struct {
		what     string
		was, now netip.Addr
		port     uint16
		to       uint16
	}{
		{"source", j.ip.Source, left.Source, j.ip.SrcPort, left.SrcPort},
		{"destination", j.ip.Destination, left.Destination, j.ip.DstPort, left.DstPort},
	} {
		if c.was != c.now || c.port != c.to {
			text += fmt.Sprintf(", %s becomes %v", c.what, netip.AddrPortFrom(c.now, c.to))
		}
	}
	return text
}

// firewall names the way from zone to zone, and the rule that decided.
func (j *journey) firewall() string {
	p := j.policy()
	if p == nil {
		return ""
	}
	from, to := j.verdict.trace.Zones>>8, j.verdict.trace.Zones&0xff
	text := fmt.Sprintf("%s to %s", nameAt(p.Names.Zones, int(from), "no zone"), nameAt(p.Names.Zones, int(to), "no zone"))
	v := j.verdict.Evaluated
	switch {
	case j.verdict.trace.Flow != 0:
		return text + ", of a connection that was permitted"
	case v.Counter != 0:
		return text + ", " + nameAt(p.Names.Counters, int(v.Counter), fmt.Sprintf("rule %d", v.Counter))
	}
	return text
}

func nameAt(names []string, i int, otherwise string) string {
	if i < len(names) && names[i] != "" {
		return names[i]
	}
	return otherwise
}
