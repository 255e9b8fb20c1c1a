// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"html/template"
	"strconv"
	"strings"
	"unicode/utf8"
)

// canvas collects the elements of one SVG picture. Every number passes coordinate, so a
// picture can't hold one that browsers reject, and every text passes html.EscapeString.
type canvas struct {
	b strings.Builder
}

const (
	pictureWidth = 760.0
	textSize     = 12.5
	lineHeight   = 15.0
	ink          = "#222"
	pale         = "#ddd"
	grey         = "#666"
)

// look is how a series is drawn. Colours are those of Okabe and Ito, which colour-blind
// readers tell apart; dash and marker tell the series apart without any colour.
type look struct {
	colour string
	dash   string // stroke-dasharray; empty is a whole line
	marker string
}

var looks = []look{
	{"#0072B2", "", "disc"},
	{"#D55E00", "8 4", "square"},
	{"#009E73", "2 3", "triangle"},
	{"#CC79A7", "10 3 2 3", "diamond"},
	{"#000000", "5 2", "ring"},
	{"#E69F00", "12 3 2 3 2 3", "wedge"},
	{"#56B4E9", "4 4", "box"},
	{"#666666", "1 2", "cross"},
}

// reference is the look of what is not measured: limits and the tester's own share.
var reference = look{grey, "6 3", ""}

func style(i int) look { return looks[i%len(looks)] }

// coordinate writes a number of the picture with a tenth of a unit.
func coordinate(v float64) string {
	if !finite(v) {
		v = 0
	}
	v = max(-1e5, min(1e5, v))
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string, width float64, dash string) {
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%s"%s/>`,
		coordinate(x1), coordinate(y1), coordinate(x2), coordinate(y2), colour, coordinate(width), dashed(dash))
}

func dashed(dash string) string {
	if dash == "" {
		return ""
	}
	return ` stroke-dasharray="` + dash + `"`
}

// rect draws a filled rectangle, with an outline so that it shows in any print.
func (c *canvas) rect(x, y, w, h float64, fill, outline string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s" stroke="%s"/>`,
		coordinate(x), coordinate(y), coordinate(max(0, w)), coordinate(max(0, h)), fill, outline)
}

// text draws a line of text. anchor is start, middle or end; y is its base line.
func (c *canvas) text(x, y float64, anchor, colour, text string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" text-anchor="%s" fill="%s">%s</text>`, coordinate(x), coordinate(y), anchor, colour, html.EscapeString(clean(text)))
}

// clean drops what XML can't hold.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, text)
}

type point struct{ x, y float64 }

func (c *canvas) path(points []point, l look, width float64, clip string) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(&c.b, `<path d="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"%s%s/>`, outline(points), l.colour, coordinate(width), dashed(l.dash), clip)
}

// area fills what the points enclose.
func (c *canvas) area(points []point, fill, clip string) {
	if len(points) > 2 {
		fmt.Fprintf(&c.b, `<path d="%sZ" fill="%s" stroke="none"%s/>`, outline(points), fill, clip)
	}
}

func outline(points []point) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteByte("ML"[min(i, 1)])
		b.WriteString(coordinate(p.x) + " " + coordinate(p.y))
	}
	return b.String()
}

// mark draws a marker.
func (c *canvas) mark(x, y float64, l look) { c.markOf(x, y, 4, l) }

// markOf draws a marker of radius r.
func (c *canvas) markOf(x, y, r float64, l look) {
	shape := func(fill string, p ...point) {
		for i := range p {
			p[i].x, p[i].y = x+p[i].x*r, y+p[i].y*r
		}
		fmt.Fprintf(&c.b, `<path d="%sZ" fill="%s" stroke="%s" stroke-width="1.5"/>`, outline(p), fill, l.colour)
	}
	switch l.marker {
	case "disc", "ring":
		fill := l.colour
		if l.marker == "ring" {
			fill = "#fff"
		}
		fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s" stroke-width="1.5"/>`, coordinate(x), coordinate(y), coordinate(r), fill, l.colour)
	case "square":
		shape(l.colour, point{-.9, -.9}, point{.9, -.9}, point{.9, .9}, point{-.9, .9})
	case "box":
		shape("#fff", point{-.9, -.9}, point{.9, -.9}, point{.9, .9}, point{-.9, .9})
	case "triangle":
		shape(l.colour, point{0, -1.2}, point{1.1, .8}, point{-1.1, .8})
	case "wedge":
		shape("#fff", point{0, 1.2}, point{1.1, -.8}, point{-1.1, -.8})
	case "diamond":
		shape(l.colour, point{0, -1.3}, point{1.1, 0}, point{0, 1.3}, point{-1.1, 0})
	case "cross":
		c.line(x-r, y-r, x+r, y+r, l.colour, 1.8, "")
		c.line(x-r, y+r, x+r, y-r, l.colour, 1.8, "")
	}
}

// picture closes the canvas. title and description are for those who can't see it.
func (c *canvas) picture(id, title, description string, height float64) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" aria-labelledby="%s-title %s-desc" font-family="system-ui, 'DejaVu Sans', Verdana, Arial, sans-serif" font-size="%s"><title id="%s-title">%s</title><desc id="%s-desc">%s</desc>%s</svg>`,
		coordinate(pictureWidth), coordinate(height), id, id, coordinate(textSize), id, html.EscapeString(clean(title)), id, html.EscapeString(clean(description)), c.b.String()))
}

// textWidth estimates how wide a text is. Fonts differ; this is a wide one.
func textWidth(text string) float64 { return float64(utf8.RuneCountInString(text)) * textSize * 0.58 }

// wrapped breaks a text into lines of at most width letters, and cuts it after most lines.
func wrapped(text string, width, most int) []string {
	lines := []string{""}
	for _, word := range strings.Split(clean(text), " ") {
		for utf8.RuneCountInString(word) > width { // a word that no line can hold
			head := string([]rune(word)[:width-1])
			lines, word = append(lines, head+"-"), string([]rune(word)[width-1:])
		}
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	if len(lines) > 1 && lines[0] == "" {
		lines = lines[1:]
	}
	if len(lines) > most {
		lines = lines[:most]
		last := []rune(lines[most-1])
		lines[most-1] = string(last[:min(len(last), width-1)]) + "…"
	}
	return lines
}
