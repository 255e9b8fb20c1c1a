// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"fmt"
	"strings"
)

// Error is what is wrong with a pattern's text, and where.
type Error struct {
	Text          string // the whole pattern
	Column, Width int    // the words at fault, in characters, Column from 0
	Message       string // what is wrong
	Expected      string // what would be right, or ""
	Nearest       string // what was probably meant, or ""
}

// Error returns the message and, below it, the text with the place marked.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "traffic: %s", e.Message)
	if e.Nearest != "" {
		fmt.Fprintf(&b, "; did you mean %q?", e.Nearest)
	} else if e.Expected != "" {
		fmt.Fprintf(&b, ": expected %s", e.Expected)
	}
	fmt.Fprintf(&b, "\n  %s\n  %s%s", e.Text, strings.Repeat(" ", e.Column), strings.Repeat("^", max(1, e.Width)))
	return b.String()
}
