// SPDX-License-Identifier: Apache-2.0

package statistics

import "minne/internal/lab/result"

// Verdict says how B compares with A.
type Verdict string

// The verdicts, in the words of reports.
const (
	Faster       Verdict = "faster"
	Slower       Verdict = "slower"
	NoDifference Verdict = "no difference beyond noise"
)

// Assess compares B with A: ratio is B ÷ A in packets per second, same the ratio of
// A to itself, measured in the same rounds and in the same way.
//
// B is faster when all of its interval is above 1 and above everything that A's
// ratio to itself came to, in either direction: noise has no sign, so an A that
// once seemed 3 % slower than itself could as well have seemed 3 % faster. Slower is the same
// the other way round. All else is no difference beyond noise, which is not a
// proof that there is none: the width of the interval says how small one could
// have been seen.
func Assess(ratio, same result.Interval) Verdict {
	noise := max(1, same.High)
	if same.Low > 0 {
		noise = max(noise, 1/same.Low)
	}
	switch {
	case ratio.Low > noise:
		return Faster
	case ratio.High < 1/noise:
		return Slower
	}
	return NoDifference
}
