// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
)

// LogView answers show log: lines, the oldest first.
type LogView struct {
	Lines []string `json:"lines"`
}

// Log prints the lines.
func Log(w io.Writer, v LogView) error {
	for _, line := range v.Lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
