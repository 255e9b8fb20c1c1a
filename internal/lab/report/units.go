// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// How figures are written. Three significant digits say all that a trial knows;
// the exact values are in result.json and in the CSV files.

const none = "–" // stands where there is no figure

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// significant writes v with three significant digits and no exponent where that is readable.
func significant(v float64) string { return digits(v, 3) }

func digits(v float64, n int) string {
	a := math.Abs(v)
	switch {
	case !finite(v):
		return none
	case v == 0:
		return "0"
	case a >= 1e15 || a < 1e-9:
		return strconv.FormatFloat(v, 'e', 2, 64)
	case a >= math.Pow(10, float64(n-1)):
		return grouped(math.Round(v))
	}
	decimals := n - 1 - int(math.Floor(math.Log10(a)))
	return strconv.FormatFloat(v, 'f', max(0, decimals), 64)
}

// grouped writes a whole number with its digits in groups of three.
func grouped(v float64) string {
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	var b strings.Builder
	if v < 0 {
		b.WriteByte('-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func count(n uint64) string { return grouped(float64(n)) }

// unit is a name and how much of the base unit it is.
type unit struct {
	name string
	size float64
}

var (
	packetRates = []unit{{"Gpps", 1e9}, {"Mpps", 1e6}, {"kpps", 1e3}, {"pps", 1}}
	bitRates    = []unit{{"Tbit/s", 1e12}, {"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}}
	durations   = []unit{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}, {"ns", 1}}
	energies    = []unit{{"J", 1}, {"mJ", 1e-3}, {"µJ", 1e-6}, {"nJ", 1e-9}}
	times       = []unit{{"h", 3600}, {"min", 60}, {"s", 1}}
)

// fitting returns the largest unit of which v is at least one, or the least.
func fitting(v float64, units []unit) unit {
	for _, u := range units {
		if math.Abs(v) >= u.size {
			return u
		}
	}
	return units[len(units)-1]
}

func in(v float64, units []unit) string {
	if !finite(v) {
		return none
	}
	u := fitting(v, units)
	return significant(v/u.size) + " " + u.name
}

// span writes two values in one unit: "1.92 to 1.95 Mpps".
func span(low, high float64, units []unit) string { return apart(low, high, " to ", units) }

// apart writes two values with as many digits as tell them apart, up to five.
func apart(low, high float64, word string, units []unit) string {
	if !finite(low) || !finite(high) {
		return none
	}
	u := fitting(math.Max(math.Abs(low), math.Abs(high)), units)
	low, high = low/u.size, high/u.size
	a, b := digits(low, 3), digits(high, 3)
	for n := 4; n <= 5 && low != high && math.Abs(high-low) < 0.01*math.Abs(high); n++ {
		if a, b = digits(low, n), digits(high, n); a != b {
			break
		}
	}
	return a + word + b + " " + u.name
}

// tickText writes the value of a tick, which is round.
func tickText(v float64, units []unit) string {
	u := fitting(v*(1+1e-9), units)
	return strconv.FormatFloat(v/u.size, 'g', 3, 64) + " " + u.name
}

func packetRate(fps float64) string { return in(fps, packetRates) }
func bitRate(bps float64) string    { return in(bps, bitRates) }
func nanoseconds(v float64) string  { return in(v, durations) }
func elapsed(d time.Duration) string {
	return in(float64(d), durations)
}

// lasting writes a length of time as people say it.
func lasting(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d <= 0:
		return "less than a second"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// percent writes a share of 0…1.
func percent(v float64) string {
	switch {
	case !finite(v):
		return none
	case v == 0:
		return "0 %"
	case v >= 0.1:
		return strings.TrimSuffix(strconv.FormatFloat(v*100, 'f', 1, 64), ".0") + " %"
	}
	return strconv.FormatFloat(v*100, 'g', 2, 64) + " %"
}

func ratio(v float64) string { return significant(v) + "×" }
