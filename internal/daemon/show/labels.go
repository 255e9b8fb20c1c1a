// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"

	"minne/internal/subsystem/fastpath/label"
)

// LabelsView answers show labels.
type LabelsView struct {
	On              bool `json:"on"` // there are patterns
	*label.Observed      // nil without
}

// maxPatternShown bounds a pattern in the table, in characters.
const maxPatternShown = 60

// Labels prints flows by label and by pattern.
func Labels(w io.Writer, o LabelsView) error {
	if o.Observed == nil {
		_, err := fmt.Fprintln(w, "No patterns: the configuration has no section labels")
		return err
	}
	fmt.Fprintf(w, "Inspected: the first %s packets with payload of each direction, %s bytes each\n", count(o.Packets), count(o.Bytes))
	fmt.Fprintf(w, "Searched: %s packets of %s directions of flows, %s; %s TCP segments out of order\n",
		count(o.Searched), count(o.Directions), bytes(o.SearchBytes), count(o.Early))
	fmt.Fprintf(w, "Automata: %s states in %s\n", count(o.States), bytes(uint64(o.ImageBytes)))
	if len(o.Unseen) > 0 {
		fmt.Fprintf(w, "Not inspected: packets that arrive on %s, which has no fast path\n", strings.Join(o.Unseen, ", "))
	}
	fmt.Fprintln(w)
	sets := table{head: []string{"Label", ">Flows", ">Packets", ">Bytes", ">Dropped", ">Bytes", "Limit"}}
	for _, s := range o.Sets {
		sets.row(s.Name, count(s.Flows), count(s.Packets), bytes(s.Bytes), count(s.Dropped), bytes(s.DroppedBytes), orDash(s.Limits()))
	}
	if err := sets.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	patterns := table{head: []string{"Label", ">Flows", "~Pattern"}}
	for _, s := range o.Sets {
		for _, p := range s.Patterns {
			text := []rune(p.Text)
			if len(text) > maxPatternShown {
				text = append(text[:maxPatternShown-1], '…')
			}
			patterns.row(s.Name, count(p.Flows), string(text))
		}
	}
	return patterns.write(w)
}
