// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
)

// linePlot draws series over a common axis. Every series is labelled at its end, so
// that no reader has to match a legend by colour.
type linePlot struct {
	id, title, description string
	x, y                   axis
	height                 float64 // of the frame; 0 is the usual one
	series                 []series
	levels                 []level
	troubles               []float64 // places on the x axis that are marked at the top
	trouble                string    // what the marks mean
	left, right            float64   // least margins, for plots that stand below each other
}

type series struct {
	label  string
	points []point
	low    []float64 // of the band around the points, if it has one
	high   []float64
	look   look
	dots   []point // where markers stand; nil is at every point
}

// level is a line across the plot at a value.
type level struct {
	label string
	at    float64
}

// markersApart is the most markers that a line can carry without becoming a string of beads.
const markersApart = 40

const (
	labelLetters = 26   // of a line of a label
	swatch       = 34.0 // width of the piece of line before it
	leader       = 60.0 // a label farther from the end of its line has no stroke to it
)

type endLabel struct {
	lines  []string
	want   float64 // where the series ends
	at     float64 // top
	look   look
	height float64
}

func (p linePlot) draw() template.HTML {
	height := p.height
	height = cmp.Or(height, 330)
	const top = 34.0
	labels := p.labels(top, height)
	left, right := p.margins()
	width := pictureWidth - left - right
	needed := 0.0
	for _, l := range labels {
		needed += l.height
	}
	height = max(height, needed)
	frame := rectangle{left, top, width, height}
	c := &canvas{}
	clip := fmt.Sprintf(` clip-path="url(#%s-clip)"`, p.id)
	fmt.Fprintf(&c.b, `<clipPath id="%s-clip"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath>`, p.id, coordinate(left), coordinate(top), coordinate(width), coordinate(height))
	frame.axes(c, p.x, p.y)
	for _, s := range p.series {
		p.band(c, frame, s, clip)
	}
	for _, l := range p.levels {
		y := frame.y(p.y.at(l.at))
		c.line(left, y, left+width, y, reference.colour, 1.2, reference.dash)
	}
	for _, s := range p.series {
		p.line(c, frame, s, clip)
	}
	for _, x := range p.troubles {
		c.mark(frame.x(p.x.at(x)), top+7, troubled)
	}
	spread(labels, top, height)
	for _, l := range labels {
		p.label(c, frame, l)
	}
	return c.picture(p.id, p.title, p.description, top+height+46)
}

// troubled is the look of marks at the top.
var troubled = look{"#D55E00", "", "cross"}

// margins are the room that the labels need on both sides.
func (p linePlot) margins() (left, right float64) {
	left, right = max(p.left, 24), max(p.right, 24)
	for _, t := range p.y.ticks {
		left = max(left, textWidth(t.label)+16)
	}
	for _, l := range p.labels(0, 1) {
		for _, text := range l.lines {
			right = max(right, textWidth(text)+swatch+24)
		}
	}
	return left, right
}

// alike gives plots that stand below each other the same margins.
func alike(plots ...*linePlot) {
	for range plots {
		for i := range plots {
			left, right := plots[i].margins()
			for _, p := range plots {
				p.left, p.right = max(p.left, left), max(p.right, right)
			}
		}
	}
}

// rectangle is where the data are.
type rectangle struct{ left, top, width, height float64 }

func (r rectangle) x(share float64) float64 { return r.left + share*r.width }
func (r rectangle) y(share float64) float64 { return r.top + (1-share)*r.height }

// axes draws frame, grid, ticks and titles.
func (r rectangle) axes(c *canvas, x, y axis) {
	bottom := r.top + r.height
	edge := -1e9
	for _, t := range x.ticks {
		share := x.at(t.at)
		if share < -1e-9 || share > 1+1e-9 {
			continue
		}
		at, length := r.x(share), 3.0
		if t.label != "" {
			c.line(at, r.top, at, bottom, pale, 0.8, "")
			length = 6
			if half := textWidth(t.label) / 2; at-half > edge { // labels never run into each other
				c.text(at, bottom+19, "middle", ink, t.label)
				edge = at + half + 4
			}
		}
		c.line(at, bottom, at, bottom+length, ink, 1, "")
	}
	edge = 1e9
	for _, t := range y.ticks {
		share := y.at(t.at)
		if share < -1e-9 || share > 1+1e-9 {
			continue
		}
		at, length := r.y(share), 3.0
		if t.label != "" {
			c.line(r.left, at, r.left+r.width, at, pale, 0.8, "")
			length = 6
			if math.Abs(at-edge) >= lineHeight-1 {
				c.text(r.left-9, at+4.2, "end", ink, t.label)
				edge = at
			}
		}
		c.line(r.left-length, at, r.left, at, ink, 1, "")
	}
	c.line(r.left, r.top, r.left, bottom, ink, 1, "")
	c.line(r.left, bottom, r.left+r.width, bottom, ink, 1, "")
	c.text(r.left+r.width/2, bottom+39, "middle", ink, x.label)
	c.text(2, 14, "start", ink, y.label)
}

func (p linePlot) line(c *canvas, frame rectangle, s series, clip string) {
	l := s.look
	places := make([]point, 0, len(s.points))
	for _, v := range s.points {
		places = append(places, point{frame.x(p.x.at(v.x)), frame.y(p.y.at(v.y))})
	}
	c.path(places, l, 1.8, clip)
	if l.marker == "" {
		return
	}
	dots := s.dots
	if dots == nil {
		dots = s.points
		if len(dots) > markersApart {
			dots = every(dots, markersApart/4)
		}
	}
	for _, v := range dots {
		x, y := p.x.at(v.x), p.y.at(v.y)
		if x >= -0.001 && x <= 1.001 && y >= -0.001 && y <= 1.001 {
			c.mark(frame.x(x), frame.y(y), l)
		}
	}
}

// every returns about n of the points, the last among them.
func every(points []point, n int) (out []point) {
	step := max(1, len(points)/n)
	for i := step / 2; i < len(points); i += step {
		out = append(out, points[i])
	}
	return out
}

func (p linePlot) band(c *canvas, frame rectangle, s series, clip string) {
	if len(s.low) != len(s.points) || len(s.high) != len(s.points) {
		return
	}
	var edge []point
	for i, v := range s.points {
		edge = append(edge, point{frame.x(p.x.at(v.x)), frame.y(p.y.at(s.high[i]))})
	}
	for i, v := range slices.Backward(s.points) {
		edge = append(edge, point{frame.x(p.x.at(v.x)), frame.y(p.y.at(s.low[i]))})
	}
	c.area(edge, "#e4e4e4", clip)
}

// labels returns the labels of all series and levels, with the places where their lines end.
func (p linePlot) labels(top, height float64) (out []*endLabel) {
	add := func(text string, y float64, l look) {
		if text == "" {
			return
		}
		lines := wrapped(text, labelLetters, 3)
		want := top + (1-math.Max(0, math.Min(1, p.y.at(y))))*height
		out = append(out, &endLabel{lines: lines, want: want, look: l, height: float64(len(lines))*lineHeight + 6})
	}
	for _, s := range p.series {
		if len(s.points) > 0 {
			add(s.label, s.points[len(s.points)-1].y, s.look)
		}
	}
	for _, l := range p.levels {
		add(l.label, l.at, reference)
	}
	if len(p.troubles) > 0 {
		out = append(out, &endLabel{lines: wrapped(p.trouble, labelLetters, 3), want: top + 7, look: troubled, height: lineHeight + 6})
	}
	slices.SortStableFunc(out, func(a, b *endLabel) int { return int(math.Round(a.want - b.want)) })
	return out
}

// spread moves labels apart that would lie on each other, as little as needed.
func spread(labels []*endLabel, top, height float64) {
	bottom := top
	for _, l := range labels {
		l.at = max(l.want-lineHeight/2, bottom)
		bottom = l.at + l.height
	}
	limit := top + height
	for _, l := range slices.Backward(labels) {
		l.at = min(l.at, limit-l.height)
		limit = l.at
	}
}

// label draws one: a piece of the line with its marker, and the text.
func (p linePlot) label(c *canvas, frame rectangle, l *endLabel) {
	x, y := frame.left+frame.width+12, l.at+lineHeight/2
	if math.Abs(y-l.want) < leader {
		c.line(x-10, l.want, x-2, y, pale, 1, "")
	}
	if l.look.marker != "cross" || l.look.dash != "" {
		c.line(x, y, x+swatch-6, y, l.look.colour, 1.8, l.look.dash)
	}
	c.mark(x+swatch/2-3, y, l.look)
	for i, text := range l.lines {
		c.text(x+swatch, y+4.2+float64(i)*lineHeight, "start", ink, text)
	}
}
