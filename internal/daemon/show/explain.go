// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"minne/internal/daemon/router"
	"minne/internal/subsystem/fastpath"
)

// Explained prints what becomes of a packet: each stage, the verdict, and for what the fast path
// leaves to the kernel, the kernel's word.
func Explained(w io.Writer, x router.Explained) error {
	from := ""
	if x.Interface != "" {
		from = " by " + x.Interface
	}
	fmt.Fprintf(w, "%s, arriving%s\n", x.Packet, from)
	steps := table{head: []string{"", "", "~"}}
	for _, s := range x.Steps {
		mark := "ok"
		if !s.Passed {
			mark = "no"
		}
		steps.row("  "+s.Stage, mark, s.Says)
	}
	if err := steps.rowsOnly(w); err != nil {
		return err
	}
	if x.Label != "" && x.Verdict != fastpath.VerdictForwarded {
		fmt.Fprintf(w, "Its flow has the label %s (minne show labels)\n", x.Label)
	}
	switch x.Verdict {
	case fastpath.VerdictForwarded:
		fmt.Fprintf(w, "Forwarded by the fast path out of %s", x.Egress)
		if x.Port != x.Egress {
			fmt.Fprintf(w, " (port %s)", x.Port)
		}
		fmt.Fprintf(w, ", MAC %s to %s\n", x.SrcMAC, x.DstMAC)
		return nil
	case fastpath.VerdictDropped:
		fmt.Fprintf(w, "Dropped by the fast path (%s): %s\n", x.Reason, x.Text)
	default:
		fmt.Fprintf(w, "Left to the kernel (%s): %s\n", x.Reason, x.Text)
	}
	if x.Hint != "" {
		fmt.Fprintf(w, "Hint: %s\n", x.Hint)
	}
	if x.Kernel != nil {
		return kernelOpinion(w, x)
	}
	return nil
}

func kernelOpinion(w io.Writer, x router.Explained) error {
	k := x.Kernel
	fmt.Fprintln(w, "The kernel:")
	if k.AntiSpoof != "" {
		fmt.Fprintf(w, "  anti-spoof %s\n", k.AntiSpoof)
	}
	fmt.Fprintf(w, "  routing %s\n", k.Routing)
	if k.Route != "" {
		fmt.Fprintf(w, "  route %s\n", k.Route)
	}
	if k.Neighbour != "" {
		fmt.Fprintf(w, "  neighbour %s\n", k.Neighbour)
	}
	if x.Firewall != nil {
		fmt.Fprintf(w, "  firewall %s\n", firewalled(x.Firewall))
	}
	return nil
}

// firewalled is the verdict of the kernel's rules.
func firewalled(f *router.Firewalled) string {
	does := map[string]string{"permit": "permitted", "deny": "denied", "reject": "rejected"}[f.Action]
	text := fmt.Sprintf("%s to %s: %s by %s", f.From, f.To, does, f.By)
	if f.State {
		text = fmt.Sprintf("%s to %s: what begins a connection is %s by %s", f.From, f.To, does, f.By)
	}
	if f.Limit {
		text += ", within its limit"
	}
	if f.Log {
		text += ", and logged"
	}
	return text
}

// ExplainedLine prints a packet's fate in one line, with its number in the capture.
func ExplainedLine(w io.Writer, number int, x router.Explained) error {
	fate := x.Verdict
	switch {
	case x.Verdict == fastpath.VerdictForwarded:
		fate += " by " + x.Egress
	default:
		fate += " (" + x.Reason + ")"
	}
	if x.Firewall != nil {
		fate += fmt.Sprintf(", firewall: %s by %s", x.Firewall.Action, x.Firewall.By)
	}
	_, err := fmt.Fprintf(w, "%d  %s: %s\n", number, x.Packet, fate)
	return err
}
