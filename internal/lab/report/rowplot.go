// SPDX-License-Identifier: Apache-2.0

package report

import (
	"html/template"
	"math"
)

// rowPlot draws values with their intervals in rows below each other, on a common axis.
type rowPlot struct {
	id, title, description string
	x                      axis
	rows                   []row
	line                   float64 // a value with a line through all rows, such as 1 for ratios
	hasLine                bool
}

type row struct {
	label string
	items []item
}

// item is one value of a row: an interval, with a marker or as a bar from zero.
type item struct {
	low, high float64
	at        float64 // of the marker or the end of the bar
	bar       bool
	look      look
	text      string // stands to the right
}

const (
	itemHeight = 19.0
	rowLetters = 30
)

func (p rowPlot) draw() template.HTML {
	const top, gap = 8.0, 12.0
	left, right, height := 60.0, 30.0, gap/2
	for _, r := range p.rows {
		for _, line := range wrapped(r.label, rowLetters, 3) {
			left = max(left, textWidth(line)+16)
		}
		for _, i := range r.items {
			right = max(right, textWidth(i.text)+22)
		}
		height += r.height() + gap
	}
	frame := rectangle{left, top, max(120, pictureWidth-left-right), height}
	c := &canvas{}
	frame.axes(c, p.x, axis{})
	if p.hasLine {
		x := frame.x(p.x.at(p.line))
		c.line(x, top, x, top+height, ink, 1.4, "")
	}
	at := top + gap/2
	for n, r := range p.rows {
		if n > 0 {
			c.line(4, at-2, frame.left+frame.width, at-2, pale, 0.8, "")
		}
		middle := at + r.height()/2
		lines := wrapped(r.label, rowLetters, 3)
		for i, line := range lines {
			c.text(frame.left-12, middle+4.2+(float64(i)-float64(len(lines)-1)/2)*lineHeight, "end", ink, line)
		}
		for i, it := range r.items {
			p.item(c, frame, it, at+(r.height()-float64(len(r.items))*itemHeight)/2+(float64(i)+0.5)*itemHeight)
		}
		at += r.height() + gap
	}
	return c.picture(p.id, p.title, p.description, top+height+46)
}

func (r row) height() float64 {
	return math.Max(float64(len(r.items))*itemHeight, float64(len(wrapped(r.label, rowLetters, 3)))*lineHeight+2)
}

func (p rowPlot) item(c *canvas, frame rectangle, i item, y float64) {
	within := func(v float64) float64 { return frame.x(math.Max(0, math.Min(1, p.x.at(v)))) }
	low, high, at := within(i.low), within(i.high), within(i.at)
	if i.bar {
		zero := within(0)
		c.rect(min(zero, at), y-6, math.Abs(at-zero), 12, "#cfd8dc", ink)
		c.line(low, y, high, y, ink, 1.6, "")
	} else {
		c.line(low, y, high, y, i.look.colour, 2.2, i.look.dash)
	}
	if high-low > 1 {
		c.line(low, y-6, low, y+6, i.colour(), 1.4, "")
		c.line(high, y-6, high, y+6, i.colour(), 1.4, "")
	}
	if !i.bar {
		c.markOf(at, y, 3, i.look)
	}
	c.text(frame.left+frame.width+10, y+4.2, "start", ink, i.text)
}

func (i item) colour() string {
	if i.bar {
		return ink
	}
	return i.look.colour
}
