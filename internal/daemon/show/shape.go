// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	"minne/internal/subsystem/kernel"
)

// ShapeView answers show shape.
type ShapeView struct {
	Lines []kernel.ShapedLine `json:"lines"`
}

// Shape prints the shaped lines: a row for each priority of each direction.
func Shape(w io.Writer, v ShapeView) error {
	if len(v.Lines) == 0 {
		_, err := fmt.Fprintln(w, "No line is shaped: interfaces.NAME.shape does that")
		return err
	}
	t := table{head: []string{"Line", "Direction", ">Rate", "Priority", ">Packets", ">Sent", ">Dropped", ">Marked", "|>Delay peak", ">Average", ">Base", ">Flows", "~Problem"}}
	for _, l := range v.Lines {
		rate := bits(float64(l.Rate))
		if l.Problem != "" {
			t.row(l.Interface, l.Direction, rate, "-", "-", "-", "-", "-", "-", "-", "-", "-", l.Problem)
		}
		for _, n := range l.Tins {
			t.row(l.Interface, l.Direction, rate, n.Name, count(n.Packets), bytes(n.Bytes), count(n.Dropped), count(n.Marked),
				milli(n.Peak), milli(n.Average), milli(n.Base), count(n.Sparse+n.Bulk+n.Unresponsive), "-")
		}
	}
	t.ifAny("~Problem")
	return t.write(w)
}

// milli is a delay in milliseconds.
func milli(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
