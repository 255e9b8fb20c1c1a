// SPDX-License-Identifier: Apache-2.0

package search

import "math"

// none stands for a load that does not exist: a bound not found yet.
const none = -1

// grid is the set of loads that a search may use. Loads are whole numbers of
// steps, 0 for the least load and last for the greatest, and equal steps are equal
// ratios of loads: a relative width is the same number of steps everywhere, and
// halving and doubling of widths is exact, which it would not be in fractions.
//
// The step is chosen such that each goal's width is a whole number of steps, short
// of the width by at most 1 % and never beyond it. With that, the bounds that a
// search returns are never wider than the goal.
type grid struct {
	least, greatest float64 // frames per second
	last            int
}

// Least and greatest share of a goal's width that its whole number of steps may have.
const (
	sharpest = 0.99
	loosest  = 0.999999 // a rounding error must not make it 1
)

// newGrid makes the coarsest grid for some relative widths, each in 0…1.
func newGrid(least, greatest float64, widths []float64) grid {
	g := grid{least: least, greatest: greatest, last: 1}
	fits := func(width float64) bool {
		exact := g.steps(width)
		share := math.Floor(exact) / exact
		return share >= sharpest && share <= loosest
	}
	for {
		all := true
		for _, w := range widths {
			all = all && fits(w)
		}
		if all {
			return g
		}
		g.last++
	}
}

// steps is how many steps a relative width has, exactly. The width is relative to
// the upper end, as that of a goal is: 1 − lower ÷ upper.
func (g grid) steps(width float64) float64 {
	return -math.Log1p(-width) / math.Log(g.greatest/g.least) * float64(g.last)
}

// width is a goal's width in whole steps.
func (g grid) width(relative float64) int { return int(g.steps(relative)) }

// load is the load of a step in frames per second.
func (g grid) load(step int) float64 {
	switch {
	case step <= 0:
		return g.least
	case step >= g.last:
		return g.greatest
	}
	return g.least * math.Exp(math.Log(g.greatest/g.least)*float64(step)/float64(g.last))
}

// below is the last step whose load is not above the given one.
func (g grid) below(load float64) int {
	if load <= g.least {
		return 0
	}
	step := math.Log(load/g.least) / math.Log(g.greatest/g.least) * float64(g.last)
	return min(int(step+1e-9), g.last)
}

// middle divides an interval of more than one width. One part becomes the width
// times a power of two, so that later halvings come out even and none is wasted;
// of the ways to do so the most even one is taken, with the smaller part below:
// lower loads are the safer guess.
func middle(lower, upper, width int) int {
	size := upper - lower
	if size < 2*width {
		if width%2 == 0 {
			return middle(lower, upper, width/2)
		}
		return lower + size/2
	}
	if size == 2*width {
		return lower + width
	}
	part := width
	for 4*part < size {
		part *= 2
	}
	if rest := size - 2*part; part*(size-part) <= 2*part*rest {
		return lower + rest
	}
	return lower + part
}

// between moves a load that someone would like to try to where trying it is worth
// the time: not closer than a width to either end of the interval, unless it is an
// end itself. An end that is a known bound must not be tried again (excluded).
// It returns none when the interval is narrow enough as it is.
func between(load, width int, lower, upper int, lowerExcluded, upperExcluded bool) int {
	if width >= upper-lower {
		switch {
		case !lowerExcluded:
			return lower
		case !upperExcluded:
			return upper
		}
		return none
	}
	first, last := lower+width, upper-width
	if first > last {
		first = middle(lower, upper, width)
		last = first
	}
	switch {
	case load < first && lowerExcluded:
		return first
	case load < first:
		return lower
	case load > last && upperExcluded:
		return last
	case load > last:
		return upper
	}
	return load
}

// inside is between, for an interval whose ends are the bounds known so far, or
// the ends of the grid where there is none.
func (g grid) inside(load, width int, known bounds) int {
	lower, upper := 0, g.last
	if known.lower != none {
		lower = known.lower
	}
	if known.upper != none {
		upper = known.upper
	}
	load = max(0, min(load, g.last))
	if known.lower != none && load <= lower || known.upper != none && load >= upper {
		return none
	}
	return between(load, width, lower, upper, known.lower != none, known.upper != none)
}
