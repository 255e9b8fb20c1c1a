// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"minne/internal/subsystem/flows"
)

// Flows prints connections, or their sums by hosts or zones. The arrows are seen from who opened the
// connection; for hosts, packets that it sent stand first.
func Flows(w io.Writer, a flows.Answer) error {
	word := "connections"
	if a.Connections == 1 {
		word = "connection"
	}
	fmt.Fprintf(w, "%s %s", count(a.Connections), word)
	if a.Matched < a.Connections {
		fmt.Fprintf(w, ", %s match", count(a.Matched))
	}
	if shown := len(a.Flows) + len(a.Hosts) + len(a.Zones); shown < a.Rows {
		fmt.Fprintf(w, "; the top %s of %s %ss by %s, --top N for more", count(shown), count(a.Rows), a.By, a.Sort)
	}
	fmt.Fprintln(w)
	if a.Rows == 0 {
		return nil
	}
	var t table
	switch a.By {
	case flows.ByHost:
		t = hostTable(a)
	case flows.ByZone:
		t = zoneTable(a.Zones)
	default:
		t = flowTable(a)
	}
	if err := t.write(w); err != nil {
		return err
	}
	if a.Uncounted > 0 {
		_, err := fmt.Fprintf(w, "%s of the connections began before the firewall did: the kernel does not count them\n", count(a.Uncounted))
		return err
	}
	return nil
}

func flowTable(a flows.Answer) table {
	t := table{head: []string{"Proto", "Source", "Destination", "Translated", "State", ">Left"}}
	t.head = append(t.head, totalsHead("→", "←", a.Sum)...)
	t.head = append(t.head, "By", "VRF", "Label")
	for _, f := range a.Flows {
		destination := f.Destination.String()
		if f.ID != 0 {
			destination += fmt.Sprintf(" id %d", f.ID)
		}
		cells := []string{f.Protocol, f.Source.String(), destination, translated(f), f.State, since(time.Duration(f.Left) * time.Second)}
		t.row(append(append(cells, totals(f.Totals)...), strings.ReplaceAll(f.Path, "-", " "), orDash(f.VRF), orDash(f.Label))...)
	}
	t.ifAny("VRF", "Label")
	return t
}

// translated says what the other side sees in the place of an end.
func translated(f flows.Flow) string {
	var words []string
	if e := f.TranslatedSource; e != nil {
		words = append(words, "source "+e.String())
	}
	if e := f.TranslatedDestination; e != nil {
		words = append(words, "destination "+e.String())
	}
	return orDash(strings.Join(words, ", "))
}

func hostTable(a flows.Answer) table {
	t := table{head: []string{"Host", "Zone", ">Connections", ">Opened"}}
	t.head = append(t.head, totalsHead("sent", "received", a.Sum)...)
	t.head = append(t.head, ">Fast path", "VRF")
	for _, h := range a.Hosts {
		cells := []string{h.Address.String(), orDash(h.Zone), count(h.Connections), count(h.Opened)}
		t.row(append(append(cells, totals(h.Totals)...), share(h.Totals), orDash(h.VRF))...)
	}
	t.ifAny("VRF")
	return t
}

func zoneTable(pairs []flows.Pair) table {
	t := table{head: []string{"From", "To", ">Connections"}}
	for i, p := range pairs {
		if i == 0 {
			t.head = append(append(t.head, totalsHead("→", "←", p.Totals)...), ">Fast path")
		}
		cells := []string{orDash(p.From), orDash(p.To), count(p.Connections)}
		t.row(append(append(cells, totals(p.Totals)...), share(p.Totals))...)
	}
	return t
}

// totalsHead are the heads of the columns of totals.
func totalsHead(there, back string, of flows.Totals) []string {
	head := []string{">Packets " + there, ">" + back, ">Bytes " + there, ">" + back}
	if of.Rate != nil {
		head = append(head, ">Rate "+there, ">"+back)
	}
	return head
}

func totals(t flows.Totals) []string {
	cells := []string{count(t.Packets[0]), count(t.Packets[1]), bytes(t.Bytes[0]), bytes(t.Bytes[1])}
	if t.Rate != nil {
		cells = append(cells, bits(t.Rate.Bits[0]), bits(t.Rate.Bits[1]))
	}
	return cells
}

// share is how much of the packets the fast path forwarded.
func share(t flows.Totals) string { return percent(t.FastPath, t.Packets[0]+t.Packets[1]) }

func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// nearlyFull is the part of a table, in percent, above which somebody should look.
const nearlyFull = 90

// FlowsSummary prints how many connections there are, and how full the tables are.
func FlowsSummary(w io.Writer, s flows.Summary) error {
	if s.Capacity == 0 {
		_, err := fmt.Fprintln(w, "No connection tracking: conntrack is not loaded, because there is no firewall")
		return err
	}
	fmt.Fprintf(w, "Connections: %s of %s (%s), %s IPv4 and %s IPv6; source NAT %s, destination NAT %s\n",
		count(s.Connections), count(s.Capacity), percent(uint64(s.Connections), uint64(s.Capacity)),
		count(s.Connections-s.IPv6), count(s.IPv6), count(s.Translated.Source), count(s.Translated.Destination))
	if 100*s.Connections >= nearlyFull*s.Capacity {
		fmt.Fprintln(w, "The table is nearly full: minne show flows --by host --sort connections shows which hosts fill it")
	}
	fmt.Fprintf(w, "Their traffic: %s packets, %s; %s of the packets by the fast path\n",
		count(s.Sum.Packets[0]+s.Sum.Packets[1]), bytes(s.Sum.Bytes[0]+s.Sum.Bytes[1]), share(s.Sum))
	if s.Uncounted > 0 {
		fmt.Fprintf(w, "Not counted: %s of them, which are older than the firewall\n", count(s.Uncounted))
	}
	fmt.Fprintf(w, "Table full: %s connections ended early, %s packets dropped; invalid packets: %s\n",
		count(s.Trouble.EarlyDropped), count(s.Trouble.Dropped), count(s.Trouble.Invalid))
	if err := protocolsAndZones(w, s); err != nil || s.FastPath == nil {
		return err
	}
	return flowTableStats(w, *s.FastPath)
}

// protocolsAndZones prints what kinds of connections there are.
func protocolsAndZones(w io.Writer, s flows.Summary) error {
	if s.Connections == 0 {
		return nil
	}
	protocols := table{head: []string{"Protocol", ">Connections", "~States"}}
	for _, p := range s.Protocols {
		var states []string
		for _, state := range p.States {
			states = append(states, fmt.Sprintf("%s %s", state.State, count(state.Connections)))
		}
		protocols.row(p.Protocol, count(p.Connections), strings.Join(states, ", "))
	}
	fmt.Fprintln(w)
	if err := protocols.write(w); err != nil || len(s.Zones) == 0 {
		return err
	}
	fmt.Fprintln(w)
	zones := zoneTable(s.Zones)
	return zones.write(w)
}

// flowTableStats prints the fast path's table in the manner of rtstat.
func flowTableStats(w io.Writer, f flows.FastPathSummary) error {
	t := f.Table
	_, err := fmt.Fprintf(w, `
Fast path: %s of the connections; its table has %s of %s flows (%s) in %s
Lookups: hits %s, misses %s (%s of them found a flow older than the last commit); depth mean %.2f, max %d
Flows: inserts %s, replaced %s; collected active %s (FIN, RST), passive %s (time)
Refused: full %s, unfair %s, crowded %s, raced %s
Ended flows: counters kept for %s connections; counters lost: %s flows (table full), %s (ring full)
`, count(f.Connections), count(t.Entries), count(t.Capacity), percent(uint64(t.Entries), uint64(t.Capacity)), bytes(uint64(t.Bytes)),
		count(t.Hits), count(t.Misses), count(t.Stale), t.DepthMean, t.DepthMax,
		count(t.Inserts), count(t.Replaced), count(t.Active), count(t.Passive),
		count(t.Full), count(t.Unfair), count(t.Crowded), count(t.Raced), count(f.Kept), count(f.LostTableFull), count(t.LostRingFull))
	return err
}
