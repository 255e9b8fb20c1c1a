// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"minne/internal/appliance/slot"
)

// Held is what a slot holds.
type Held struct {
	Name    string       `json:"slot"`
	System  *slot.System `json:"system,omitempty"`
	Problem string       `json:"problem,omitempty"` // why it can't be booted
	Failed  string       `json:"failed,omitempty"`  // how it came that another one is used
	Running bool         `json:"running"`
	Boots   string       `json:"boots,omitempty"` // "next", "next, once", "when the other one fails"
}

// Status is the medium and the last upgrade.
type Status struct {
	Slots []Held   `json:"slots"`
	Trial bool     `json:"trial"` // the running system is on trial
	Last  *Promise `json:"last,omitempty"`
}

// Status tells how the medium is. The file is where promises are kept.
func (m Medium) Status(promises string) (Status, error) {
	state, err := m.state()
	if err != nil {
		state = slot.State{Slot: "a"} // as GRUB takes it
	}
	s := Status{Trial: m.Trial && state.Slot != m.Booted}
	for _, name := range []string{"a", "b"} {
		h := Held{Name: name, Running: name == m.Booted}
		if t, err := m.Holds(name, true); err != nil {
			h.Problem = err.Error()
		} else {
			h.System = &t.System
			if state.Failed == name && state.Why == slot.NeverWell {
				h.Failed = "did not get well in three starts"
			}
			switch {
			case state.Try == name:
				h.Boots = "next, once"
			case state.Slot == name && state.Try == "":
				h.Boots = "next"
			case state.Slot == name:
				h.Boots = "after the trial"
			default:
				h.Boots = "when the other one can't"
			}
		}
		s.Slots = append(s.Slots, h)
	}
	last, err := ReadPromise(promises)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return s, err
	}
	s.Last = &last
	if last.Outcome == Pending && state.Try == "" && m.Booted != last.Slot {
		s.Last.Outcome = FellBack
		s.Last.Reason = NotChecked
	}
	return s, nil
}

// WithSets tells what is added to a system's base, to stand behind its version.
func WithSets(s slot.System) string {
	if sets := s.Sets(); len(sets) > 0 {
		return " with " + strings.Join(sets, ", ")
	}
	return ""
}

// Print writes the status for people.
func (s Status) Print(w io.Writer) error {
	for _, h := range s.Slots {
		mark := " "
		if h.Running {
			mark = "*"
		}
		text := h.Problem // which names the slot
		if h.System != nil {
			text = fmt.Sprintf("slot %s  version %s%s, built %s, boots %s", h.Name, h.System.Version, WithSets(*h.System), h.System.Built.Format(time.DateTime), h.Boots)
			if h.Failed != "" {
				text += ", " + h.Failed
			}
		}
		if _, err := fmt.Fprintf(w, "%s %s\n", mark, text); err != nil {
			return err
		}
	}
	if s.Trial {
		fmt.Fprintln(w, "the running system (*) is on trial")
	}
	if s.Last == nil {
		_, err := fmt.Fprintln(w, "no upgrade so far")
		return err
	}
	outcome := string(s.Last.Outcome)
	if s.Last.Reason != "" {
		outcome += ": " + s.Last.Reason
	}
	_, err := fmt.Fprintf(w, "last upgrade, %s: from %s to %s: %s\n", s.Last.Made.Format(time.DateTime), s.Last.From.Version, s.Last.To.Version, outcome)
	return err
}
