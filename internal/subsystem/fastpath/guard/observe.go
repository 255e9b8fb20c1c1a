// SPDX-License-Identifier: Apache-2.0

package guard

// Tally is what became of the packets of a class on one CPU (struct guard_tally).
type Tally struct {
	Passed     uint64 // went up to the kernel
	OverSource uint64 // dropped: its source had used up its share
	OverClass  uint64 // dropped: the class had
}

// Observed is what the guard has done with a class.
type Observed struct {
	Class  string `json:"class"`
	Passed uint64 `json:"passed"`
	// Dropped packets, and of them those whose own source was the flooder.
	Dropped    uint64 `json:"dropped"`
	OverSource uint64 `json:"dropped_over_source"`
	Budget     Budget `json:"budget"` // packets a second; nothing is no limit
	Text       string `json:"text"`
	Hint       string `json:"hint,omitempty"`
}

// Observe adds up the tallies of a class, one of each CPU.
func (c Class) Observe(tallies []Tally, b Budget) Observed {
	o := Observed{Class: c.String(), Budget: b, Text: c.Text(), Hint: c.Hint()}
	for _, t := range tallies {
		o.Passed += t.Passed
		o.Dropped += t.OverSource + t.OverClass
		o.OverSource += t.OverSource
	}
	return o
}
