// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"minne/internal/lab/report"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

// Merged are many platforms in one table.
type Merged struct {
	Schema    string     `json:"schema"`
	Platforms []Platform `json:"platforms"`
	Lines     []Line     `json:"lines"`
	Notes     []string   `json:"notes,omitempty"`
}

// MergedSchema names the version of a merged table's JSON.
const MergedSchema = "minne-platforms/1"

// Platform is a row of the table of platforms.
type Platform struct {
	Name        string   `json:"name"`
	Model       string   `json:"model,omitempty"`
	CPU         string   `json:"cpu"`
	Arch        string   `json:"architecture"`
	Cores       int      `json:"cores"`
	MHz         float64  `json:"mhz,omitempty"`
	Caches      []string `json:"caches,omitempty"`
	MemoryBytes uint64   `json:"memory_bytes"`
	Kernel      string   `json:"kernel"`
	Estimate    float64  `json:"estimate_pps,omitempty"`
}

// Line is one way to search one table, on all platforms.
type Line struct {
	Algorithm string `json:"algorithm"`
	Holds     string `json:"holds"`
	Where     string `json:"where"`
	Keys      string `json:"keys"`
	Access    string `json:"access"`
	Order     string `json:"order"`
	Per       string `json:"per"`
	Cells     []Cell `json:"cells"` // of each platform, in their order
}

// Cell is what one platform makes of it.
type Cell struct {
	Ns     *result.Interval `json:"ns,omitempty"` // nothing: it was not measured there
	Rate   float64          `json:"rate,omitempty"`
	Memory int              `json:"memory_bytes,omitempty"`
	Cycles float64          `json:"cycles,omitempty"`
	// Other data than on the first platform: the answers' checksums differ.
	Other bool `json:"other_data,omitempty"`
}

// Merge puts results into one table. Platforms of the same name are told apart by a number.
func Merge(all []*Result) *Merged {
	m := &Merged{Schema: MergedSchema}
	names := map[string]int{}
	at := map[string]int{}
	checksums := map[string]string{}
	for n, r := range all {
		m.Platforms = append(m.Platforms, r.platform(names))
		for _, row := range r.Rows {
			id := row.id()
			i, known := at[id]
			if !known {
				i = len(m.Lines)
				at[id], checksums[id] = i, row.Checksum
				m.Lines = append(m.Lines, Line{row.Algorithm, row.Holds, row.Where, row.Keys, row.Access, row.Order, row.Per, make([]Cell, len(all))})
			}
			ns := row.Ns
			m.Lines[i].Cells[n] = Cell{&ns, row.Rate, row.Memory, row.Cycles, row.Checksum != checksums[id]}
		}
	}
	for n, p := range m.Platforms {
		other := 0
		for _, l := range m.Lines {
			if l.Cells[n].Other {
				other++
			}
		}
		if other > 0 {
			m.Notes = append(m.Notes, fmt.Sprintf("%s: %d lines are about other data than on the first platform, or its answers are wrong: their checksums differ.", p.Name, other))
		}
	}
	return m
}

func (r *Result) platform(names map[string]int) Platform {
	name := r.Name
	if names[r.Name]++; names[r.Name] > 1 {
		name = fmt.Sprintf("%s (%d)", r.Name, names[r.Name])
	}
	c := r.Machine
	p := Platform{Name: name, Model: c.Model, CPU: c.CPU, Arch: c.Architecture, Cores: c.Cores, MHz: statistics.Median(c.MHz), Caches: c.Caches, MemoryBytes: c.MemoryBytes, Kernel: c.Kernel}
	if r.Clock.GHz > 0 {
		p.MHz = r.Clock.GHz * 1e3
	}
	if r.Estimate != nil {
		p.Estimate = r.Estimate.Native
	}
	return p
}

// Document is the table as a report.
func (m *Merged) Document(pictures bool) *report.Document {
	d := &report.Document{Title: fmt.Sprintf("%d platforms", len(m.Platforms)), Notes: m.Notes}
	d.Sections = append(d.Sections, report.Section{ID: "platforms", Title: "Platforms", Method: "What the machines report about themselves.", Tables: []report.Table{m.platforms()}})
	for _, f := range families {
		s := report.Section{ID: f.id, Title: f.title, Method: f.method}
		for _, where := range []string{Native, EBPF} {
			t := m.table(f.algorithms, where)
			if len(t.Rows) == 0 {
				continue
			}
			s.Tables = append(s.Tables, t)
			if pictures {
				s.Figures = append(s.Figures, m.figure(f.id, f.algorithms, where))
			}
		}
		if len(s.Tables) > 0 {
			d.Sections = append(d.Sections, s)
		}
	}
	return d
}

func (m *Merged) platforms() report.Table {
	t := report.Table{Columns: columns([]string{"platform", "CPU", "architecture"}, "cores", "MHz")}
	t.Columns = append(t.Columns, columns([]string{"caches"}, "RAM", "routes, estimated")...)
	for _, p := range m.Platforms {
		estimate := ""
		if p.Estimate > 0 {
			estimate = millions(p.Estimate)
		}
		t.Rows = append(t.Rows, []string{p.Name, p.CPU, p.Arch, strconv.Itoa(p.Cores), known(p.MHz), strings.Join(p.Caches, ", "), report.Bytes(float64(p.MemoryBytes)), estimate})
	}
	return t
}

// mainLine tells whether a line is about a whole table: what hot keys make of it is in the JSON.
func (l Line) mainLine() bool { return l.Access == "all" }

// table has a line for each way and a column for each platform.
func (m *Merged) table(algorithms []string, where string) report.Table {
	unit := "M/s"
	t := report.Table{Columns: columns([]string{"algorithm", "table", "keys", "order"})}
	for _, p := range m.Platforms {
		t.Columns = append(t.Columns, report.Column{Name: p.Name, Numbers: true})
	}
	for _, l := range m.Lines {
		if l.Where != where || !l.mainLine() || !slices.Contains(algorithms, l.Algorithm) {
			continue
		}
		if l.Per == "byte" {
			unit = "MB/s"
		}
		cells := []string{l.Algorithm, l.Holds, l.Keys, l.Order}
		for _, c := range l.Cells {
			text := known(c.Rate)
			if c.Other {
				text += " *"
			}
			cells = append(cells, text)
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Title = where + ", " + unit
	return t
}

// figure shows the usual keys over all of each table.
func (m *Merged) figure(id string, algorithms []string, where string) report.Figure {
	title := "Nanoseconds, independent, " + where
	var bars []report.Bar
	for _, l := range m.Lines {
		if l.Where != where || !l.mainLine() || !usual(l.Holds, l.Keys) || l.Order != "independent" && l.Order != "stream" || !slices.Contains(algorithms, l.Algorithm) {
			continue
		}
		for n, c := range l.Cells {
			if c.Ns != nil {
				bars = append(bars, report.Bar{Label: l.Algorithm + ", " + l.Holds, Value: *c.Ns, Text: m.Platforms[n].Name + " " + report.Significant(c.Ns.Median) + " ns"})
			}
		}
	}
	return report.Figure{Title: title, Caption: "Random keys; of IPv6 routes addresses inside the table's prefixes. Shorter is better.", Pictures: []template.HTML{report.Bars(id+" "+where, title, "ns", bars)}}
}
