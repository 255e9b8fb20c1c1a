// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// A quick benchmark ends in time on a slow or a busy machine, too: it leaves out what does not fit, and says so.

// limit is when a benchmark must have ended; the zero limit is none.
type limit struct {
	begin time.Time
	whole time.Duration
}

// What parts of a limited benchmark may have taken when they end: tables and reference answers, then rounds; the rest is
// the estimate's.
const (
	tablesShare = 0.5
	roundsShare = 0.8
	// allRounds is roundsShare without an estimate.
	allRounds = 0.95
)

// late tells whether a share of the time is used up, or will be after some time more.
func (l limit) late(share float64, more time.Duration) bool {
	return l.whole > 0 && time.Since(l.begin)+more > time.Duration(share*float64(l.whole))
}

// errLate says why something is left out.
var errLate = errors.New("no time was left for it on this machine: without --quick it is measured")

// Phase is what a part of a benchmark took.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// phase notes what the time since the last phase's end was for.
func (r *Result) phase(begin time.Time, name string) {
	took := time.Since(begin).Seconds()
	for _, p := range r.Took {
		took -= p.Seconds
	}
	r.Took = append(r.Took, Phase{name, math.Round(took*10) / 10})
}

// TimeLine says in a line what took how long.
func (r *Result) TimeLine() string {
	var parts []string
	for _, p := range r.Took {
		parts = append(parts, fmt.Sprintf("%s %.1f s", p.Name, p.Seconds))
	}
	return fmt.Sprintf("took %s: %s", time.Duration(r.Seconds*1e9).Round(time.Second), strings.Join(parts, ", "))
}
