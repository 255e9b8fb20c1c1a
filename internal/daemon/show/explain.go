// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
)

// Firewalled is what the kernel's rules say of a packet that begins a connection, or is filtered
// alone where no state is kept. A translation of its destination is not looked at.
type Firewalled struct {
	From   string `json:"from"` // zones; self is the router
	To     string `json:"to"`
	Action string `json:"action"`         // permit, deny, reject
	By     string `json:"by"`             // the rule, or the default
	Rule   int    `json:"rule,omitempty"` // its number, 0 for none
	State  bool   `json:"state"`          // whether state is kept: packets of a connection that was permitted pass
	Limit  bool   `json:"limit,omitempty"`
	Log    bool   `json:"log,omitempty"`
}

// Explained is the answer for one packet.
type Explained struct {
	fastpath.Explanation
	Kernel   *kernel.Opinion `json:"kernel,omitempty"`   // of what the fast path leaves to it
	Firewall *Firewalled     `json:"firewall,omitempty"` // and what its rules say
}

// Explain prints what becomes of a packet: each stage, the verdict, and for what the fast path
// leaves to the kernel, the kernel's word.
func Explain(w io.Writer, x Explained) error {
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
		steps.row("  "+s.Stage, mark, s.Text)
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
		fmt.Fprintf(w, "Punted to the kernel (%s): %s\n", x.Reason, x.Text)
	}
	if x.Hint != "" {
		fmt.Fprintf(w, "Hint: %s\n", x.Hint)
	}
	if x.Kernel != nil {
		return kernelOpinion(w, x)
	}
	return nil
}

func kernelOpinion(w io.Writer, x Explained) error {
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
func firewalled(f *Firewalled) string {
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

// ExplainLine prints a packet's fate in one line, with its number in the capture.
func ExplainLine(w io.Writer, number int, x Explained) error {
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
