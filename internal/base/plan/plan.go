// SPDX-License-Identifier: Apache-2.0

// Package plan describes what an apply would do, in words an operator can judge before saying yes.
package plan

import (
	"fmt"
	"strings"
)

// Action is what happens to an object.
type Action string

// The actions of a Change.
const (
	Add    Action = "add"
	Remove Action = "remove"
	Modify Action = "change"
	Reset  Action = "reset" // a session or a port is interrupted
)

// Change is one visible effect of applying a configuration.
type Change struct {
	Subsystem string `json:"subsystem"`        // "kernel", "routing", "fast-path"
	Action    Action `json:"action"`           //
	Object    string `json:"object"`           // e.g. "address 192.0.2.1/24 on lan"
	From      string `json:"from,omitempty"`   // value before, for change
	To        string `json:"to,omitempty"`     // value after, for change
	Effect    string `json:"effect,omitempty"` // what users of the network notice, e.g. "BGP session isp-a resets"

	// Details are the single steps behind a change that is many of a kind, such
	// as kernel settings; a preview shows the first few.
	Details []string `json:"details,omitempty"`
}

// shownDetails is how many details a line of a preview has room for.
const shownDetails = 3

// String returns the change as one line of a preview.
func (c Change) String() string {
	sign := map[Action]string{Add: "+", Remove: "-", Modify: "~", Reset: "!"}[c.Action]
	line := fmt.Sprintf("%s %s", sign, c.Object)
	if c.From != "" || c.To != "" {
		line += fmt.Sprintf(": %s → %s", c.From, c.To)
	}
	if c.Effect != "" {
		line += " (" + c.Effect + ")"
	}
	switch more := len(c.Details) - shownDetails; {
	case more > 0:
		line += fmt.Sprintf(" (%s and %d more)", strings.Join(c.Details[:shownDetails], ", "), more)
	case len(c.Details) > 0:
		line += " (" + strings.Join(c.Details, ", ") + ")"
	}
	return line
}
