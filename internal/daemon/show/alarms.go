// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	"minne/internal/base/health"
)

// AlarmsView answers show alarms.
type AlarmsView struct {
	Alarms []health.Fault `json:"alarms"` // the oldest first
}

// Alarms prints what is wrong now.
func Alarms(w io.Writer, v AlarmsView) error {
	if len(v.Alarms) == 0 {
		_, err := fmt.Fprintln(w, "no alarms")
		return err
	}
	t := table{head: []string{"ID", "!Severity", "Since", "Known to", "Alarm", "~Text", "~What to do"}}
	for _, a := range v.Alarms {
		by := "-"
		if a.Acknowledged != nil {
			by = a.Acknowledged.By
		}
		t.row(a.ID, string(a.Severity), a.Since.Format(time.DateTime), by, a.Key, a.Text, a.Do)
	}
	return t.write(w)
}
