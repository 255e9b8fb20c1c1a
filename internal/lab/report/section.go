// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"minne/internal/lab/result"
)

// section is one kind of measurement, as terminal and page show it.
type section struct {
	ID      string
	Title   string
	Method  string // what was done, with the sections of the standards
	Figures []figure
	Tables  []table
}

// figure is one or more pictures under one caption.
type figure struct {
	Title    string
	Caption  string
	Pictures []template.HTML
}

// table is figures in rows, written out for people.
type table struct {
	Title   string
	Columns []column
	Rows    [][]string
	Bars    [][]float64 // 0…1 beside the text, where a table has bars
	Notes   []string    // stand below
}

type column struct {
	Name    string
	Numbers bool // stand to the right
}

// left and right make columns.
func left(names ...string) (out []column) {
	for _, n := range names {
		out = append(out, column{n, false})
	}
	return out
}

func right(names ...string) (out []column) {
	for _, n := range names {
		out = append(out, column{n, true})
	}
	return out
}

func columns(groups ...[]column) (out []column) {
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// sections returns what the result has, most telling first. Pictures are drawn only for the page.
func sections(r *result.Result, draw bool) (out []section) {
	for _, kind := range []func(*result.Result, bool) section{
		throughputSection, mrrSection, comparisonSection, costSection, lossSection, latencySection, backToBackSection,
		recoverySection, soakSection, energySection, matrixSection, responsivenessSection, paperSection,
	} {
		if s := kind(r, draw); len(s.Tables) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// size names the frame size of a subject.
func size(s result.Subject) string {
	switch {
	case s.FrameSize > 0:
		return fmt.Sprintf("%d B", s.FrameSize)
	case s.Mix != "":
		return s.Mix
	}
	return "mix"
}

// meanSize is the mean frame size with FCS in bytes.
func meanSize(s result.Subject) float64 {
	if s.MeanSize > 0 {
		return s.MeanSize
	}
	return float64(s.FrameSize)
}

// carried is the bit rate of so many frames per second, FCS included, without preamble and gap.
func carried(s result.Subject, fps float64) float64 { return fps * meanSize(s) * 8 }

// subjectOf is the subject's name in rows and captions.
func subjectOf(s result.Subject) string { return joined(s.Device, s.Traffic, size(s)) }

func joined(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, ", ")
}

var notInIDs = regexp.MustCompile(`[^a-z0-9]+`)

// pictureID makes an XML id that no other picture of the page has.
func pictureID(kind string, number int, part string) string {
	return strings.Trim(notInIDs.ReplaceAllString(strings.ToLower(fmt.Sprintf("%s-%d-%s", kind, number, part)), "-"), "-")
}

// bundle is what one picture shows together.
type bundle[T any] struct {
	title   string
	members []T
	names   []string // of each member within the bundle
}

// most is how many series a picture holds before they can't be told apart.
const most = 8

// bundles sorts figures into pictures: devices beside each other with the same
// traffic and size; where there is but one device, its sizes beside each other.
func bundles[T any](all []T, subject func(T) result.Subject) (out []bundle[T]) {
	devices := map[string]bool{}
	for _, t := range all {
		devices[subject(t).Device] = true
	}
	index := map[string]int{}
	for _, t := range all {
		s := subject(t)
		title, name := joined(s.Traffic, size(s)), s.Device
		if len(devices) == 1 {
			title, name = joined(s.Device, s.Traffic), size(s)
		}
		i, known := index[title]
		if !known || len(out[i].members) >= most {
			i = len(out)
			index[title] = i
			out = append(out, bundle[T]{title: title})
		}
		out[i].members = append(out[i].members, t)
		out[i].names = append(out[i].names, name)
	}
	return out
}
