// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
)

// InterfaceView answers show interfaces NAME.
type InterfaceView struct {
	kernel.Interface
	kernel.Details
	Zone      string                    `json:"zone,omitempty"`
	Since     time.Time                 `json:"counters_since,omitzero"` // when they were cleared
	FastPath  *fastpath.ObservedPort    `json:"fast_path,omitempty"`     // nil where the fast path is not for it
	Forwarded *fastpath.ObservedTraffic `json:"fast_path_traffic,omitempty"`
}

// factsColumn is where facts stand, behind their names; what does not fit in a line goes on below it.
const factsColumn = 12

// Interface prints all about one interface.
func Interface(w io.Writer, v InterfaceView) error {
	fmt.Fprintf(w, "%s: %s\n", v.Name, v.State)
	line := func(name, format string, args ...any) {
		text := fmt.Sprintf("  %-*s%s", factsColumn, name, fmt.Sprintf(format, args...))
		for _, part := range wrap(text, widthOf(w), factsColumn) {
			fmt.Fprintln(rawOf(w), part)
		}
	}
	if text := described(v.Interface); text != "" {
		line("description", "%s", text)
	}
	if len(v.Former) > 0 {
		line("also named", "%s", strings.Join(v.Former, ", "))
	}
	if len(v.Members) > 0 {
		line(map[bool]string{true: "interfaces", false: "ports"}[v.Kind == "vrf"], "%s", strings.Join(v.Members, ", "))
	}
	if v.Kind == "bond" {
		text := fmt.Sprintf("%d of %d ports in use", len(v.InUse), len(v.Members))
		if len(v.InUse) > 0 {
			text += ": " + strings.Join(v.InUse, ", ")
		}
		if v.LACPPartner != "" {
			text += "; LACP partner " + v.LACPPartner
		}
		line("bond", "%s", text)
	}
	if v.Zone != "" {
		line("zone", "%s", v.Zone)
	}
	for n, a := range v.Addresses {
		name := ""
		if n == 0 {
			name = "addresses"
		}
		line(name, "%s", a)
	}
	link := fmt.Sprintf("MTU %d", v.MTU)
	if v.MAC != "" {
		link += ", MAC " + v.MAC
	}
	if v.Speed > 0 {
		link += ", " + bits(float64(v.Speed)*1e6)
	}
	if v.Duplex != "" {
		link += ", " + v.Duplex + " duplex"
	}
	line("link", "%s", link)
	line("device", "%s", device(v))
	for n, words := range offloadWords(v.Offloads) {
		line([]string{"does", "does not"}[n], "%s", orDash(words))
	}
	if len(v.Hardware) > 0 {
		line("settings", "%s", strings.Join(hardwareWords(v.Hardware), ", "))
	}
	line("fast path", "%s", fastPathOf(v))
	fmt.Fprintln(w)
	if !v.Since.IsZero() {
		fmt.Fprintf(w, "Counted since %s (minne clear counters)\n", v.Since.Local().Format(time.DateTime))
	}
	t := table{head: []string{"", ">Packets", ">Bytes", ">Errors", ">Drops"}}
	for _, d := range []struct {
		name string
		c    kernel.Counters
	}{{"received", v.RX}, {"sent", v.TX}} {
		t.row(d.name, count(d.c.Packets), bytes(d.c.Bytes), count(d.c.Errors), count(d.c.Drops))
	}
	if f := v.Forwarded; f != nil {
		t.row("by the fast path, received", count(f.RxPackets), bytes(f.RxBytes), "", "")
		t.row("by the fast path, sent", count(f.TxPackets), bytes(f.TxBytes), "", "")
	}
	if err := t.write(w); err != nil || len(v.Counted) == 0 {
		return err
	}
	fmt.Fprintln(w)
	reasons := table{head: []string{">Packets", "Counted by the device"}}
	for _, c := range v.Counted {
		reasons.row(count(c.Count), c.Name)
	}
	return reasons.write(w)
}

// hardwareWords are what ethtool can set of a port, as it is, and how much of it there may be.
func hardwareWords(list []kernel.HardwareSetting) (words []string) {
	for _, s := range list {
		text := fmt.Sprintf("%s %s", s.Name, s.Name.Words(s.Value))
		if s.Most > 1 {
			text += fmt.Sprintf(" (at most %d)", s.Most)
		}
		words = append(words, text)
	}
	return words
}

// device says what hardware it is, and its queues.
func device(v InterfaceView) string {
	driver := v.Driver
	driver = cmp.Or(driver, v.Kind)
	words := []string{orDash(driver)}
	if v.BusPath != "" {
		words = append(words, "at "+v.BusPath)
	}
	words = append(words, fmt.Sprintf("queues: %d to receive, %d to send", v.ReceiveQueues, v.TransmitQueues))
	if v.Queueing != "" {
		words = append(words, "sends by "+v.Queueing)
	}
	return strings.Join(words, ", ")
}

// offloadWords are what the device does for the kernel, and what it could do and does not.
func offloadWords(all map[string]bool) (words [2]string) {
	var lists [2][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		which := 1
		if all[name] {
			which = 0
		}
		lists[which] = append(lists[which], name)
	}
	for i := range lists {
		words[i] = strings.Join(lists[i], ", ")
	}
	return words
}

// fastPathOf says whether packets of the interface bypass the kernel.
func fastPathOf(v InterfaceView) string {
	p := v.FastPath
	switch {
	case p == nil && v.Parent != "" && v.Forwarded != nil:
		return "that of " + v.Parent
	case p == nil:
		return "off: it is not in the configuration, or has no fast path"
	}
	text := p.Mode
	if p.Mode != "off" && !p.Transmits {
		text += ", packets can't be sent by it"
	}
	if p.Why != "" {
		text += ": " + p.Why
	}
	return text
}
