// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"minne/internal/lab/report"
)

// families are what the report shows together, each with its unit.
var families = []struct {
	id, title, method string
	algorithms        []string
}{
	{"routes", "Longest prefix match", "Nanoseconds to find the next hop of an address. Random: public IPv4 addresses and IPv6 addresses of 2000::/3; in table: inside the table's prefixes. " +
		"All: about a million addresses one after the other, whose lookups touch more memory than the caches hold; hot: the same 2,048 again and again. Dependent: each address follows from the previous answer, as a chain; independent: the addresses are known beforehand, as those of packets are.",
		routeAlgorithms},
	{"filters", "Bloom filters", "Nanoseconds to find out whether a key is in a set. Random: keys that are not in it; in table: those that are. Update: a key is added and taken back.",
		[]string{BloomFilter, BlockedBloom, CountingBloom}},
	{"patterns", "Pattern matching", "Payload that is searched for all patterns at once, each record (what a packet carries) as a stream of its own.",
		[]string{D2FA, HybridFA}},
}

// Document is the result as a report; pictures are drawn only for a page.
func (r *Result) Document(pictures bool) *report.Document {
	d := &report.Document{
		Title: "Platform benchmark: " + r.Name, Facts: r.facts(), Summary: r.summary(), Notes: append([]string(nil), r.Notes...),
	}
	for _, f := range families {
		f.algorithms = append(slices.Clone(f.algorithms), r.peersOf(f.id)...)
		s := report.Section{ID: f.id, Title: f.title, Method: f.method, Tables: []report.Table{r.timesTable(f.algorithms), r.sizesTable(f.algorithms)}}
		if len(s.Tables[0].Rows) == 0 {
			continue
		}
		if pictures {
			s.Figures = r.figures(f.id, f.algorithms)
		}
		d.Sections = append(d.Sections, s)
	}
	if len(r.Matrix) > 0 {
		d.Sections = append(d.Sections, report.MatrixSection(r.Matrix, pictures))
	}
	if r.Estimate != nil {
		d.Sections = append([]report.Section{r.Estimate.section()}, d.Sections...)
	}
	for _, m := range r.Missing {
		d.Notes = append(d.Notes, "Not measured: "+m+".")
	}
	return d
}

// WriteTable prints the result for a terminal.
func (r *Result) WriteTable(w io.Writer) error { return r.Document(false).WriteTerminal(w) }

// WritePage writes the result as one HTML file.
func (r *Result) WritePage(w io.Writer) error { return r.Document(true).WritePage(w) }

func (r *Result) facts() (all []report.Fact) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, report.Fact{Name: name, Value: value})
		}
	}
	add("Measured", fmt.Sprintf("%s, %s", r.Started.Format("2 January 2006, 15:04 UTC"), time.Duration(r.Seconds*1e9).Round(time.Second)))
	add("Minne", strings.TrimSpace(r.Minne.Version+" "+r.Minne.Commit))
	for _, f := range report.MachineFacts(r.Machine) {
		switch f.Name {
		case "Model", "Virtual", "CPU", "Cores", "Frequency", "Caches", "Memory", "Kernel":
			add(f.Name, f.Value)
		}
	}
	for _, p := range r.Peers {
		add("Peer", p.Algorithm+", "+p.Version)
	}
	add("Figures", fmt.Sprintf("medians of %d repetitions in %d rounds, with the 95 %% interval of a bootstrap", r.Repetitions, r.Rounds))
	for _, n := range r.Noise {
		add("Same by same (A/A)", fmt.Sprintf("%.3f, 95 %% interval %.3f to %.3f: %s", n.Ratio.Median, n.Ratio.Low, n.Ratio.High, n.What))
	}
	if r.Clock.Missing != "" {
		add("Cycles", r.Clock.Missing)
	} else {
		add("Cycles", fmt.Sprintf("%.2f GHz, counted", r.Clock.GHz))
	}
	if r.Power.Missing != "" {
		add("Energy", r.Power.Missing)
	} else {
		add("Energy", fmt.Sprintf("%s, %.2f W idle; figures are what is taken over that", r.Power.Source, r.Power.Idle))
	}
	return all
}

// summary says the most important figures in words.
func (r *Result) summary() (all []string) {
	if r.Estimate != nil {
		all = append(all, r.Estimate.Text)
	}
	for _, f := range families {
		for _, holds := range r.holds(f.algorithms) {
			for _, where := range []string{Native, EBPF} {
				if best := r.best(f.algorithms, holds, where); best != nil {
					all = append(all, fmt.Sprintf("%s, %s, %s: the fastest is the %s with %s, %s.", f.title, holds, where, best.Algorithm, best.rate(), sizeText(best.Memory)))
				}
			}
		}
	}
	return all
}

// holds are what the tables of algorithms hold, each once.
func (r *Result) holds(algorithms []string) (all []string) {
	for _, row := range r.Rows {
		if slices.Contains(algorithms, row.Algorithm) && !slices.Contains(all, row.Holds) {
			all = append(all, row.Holds)
		}
	}
	return all
}

// best is the fastest of the algorithms for the usual keys over all of the table, each by itself.
func (r *Result) best(algorithms []string, holds, where string) (best *Row) {
	for i, row := range r.Rows {
		if row.Where != where || row.Holds != holds || row.Access != "all" || !usual(row.Holds, row.Keys) ||
			row.Order != "independent" && row.Order != "stream" || !slices.Contains(algorithms, row.Algorithm) {
			continue
		}
		if best == nil || row.Ns.Median < best.Ns.Median {
			best = &r.Rows[i]
		}
	}
	return best
}

// usual tells whether keys are those that plots and summary are about: random ones, but for IPv6 routes, of which
// hardly any random address has one, those inside the table's prefixes.
func usual(holds, keys string) bool {
	if strings.HasPrefix(holds, "IPv6") {
		return keys != "random"
	}
	return keys != "in table"
}

func (row Row) rate() string {
	if row.Per == "byte" {
		return report.Significant(row.Rate) + " MB/s"
	}
	return report.Significant(row.Rate) + " M/s"
}

func columns(left []string, right ...string) (all []report.Column) {
	for _, n := range left {
		all = append(all, report.Column{Name: n})
	}
	for _, n := range right {
		all = append(all, report.Column{Name: n, Numbers: true})
	}
	return all
}

func (r *Result) timesTable(algorithms []string) report.Table {
	t := report.Table{Columns: columns([]string{"algorithm", "table", "where", "keys", "access", "order"}, "ns", "95 % interval", "M/s", "MB/s", "memory", "cycles", "nJ")}
	for _, row := range r.Rows {
		if !slices.Contains(algorithms, row.Algorithm) {
			continue
		}
		mops, mbps := report.Significant(row.Rate), ""
		if row.Per == "byte" {
			mops, mbps = "", mops
		}
		t.Rows = append(t.Rows, []string{row.Algorithm, row.Holds, row.Where, row.Keys, row.Access, row.Order,
			report.Significant(row.Ns.Median), report.Significant(row.Ns.Low) + " to " + report.Significant(row.Ns.High), mops, mbps,
			sizeText(row.Memory), known(row.Cycles), known(row.NanoJoules)})
	}
	return t
}

// sizeText writes bytes of memory, which the kernel does not tell of its own table.
func sizeText(bytes int) string {
	if bytes == 0 {
		return "?"
	}
	return report.Bytes(float64(bytes))
}

// known writes a figure, or nothing when there is none.
func known(v float64) string {
	if v == 0 {
		return ""
	}
	return report.Significant(v)
}

func (r *Result) sizesTable(algorithms []string) report.Table {
	t := report.Table{Title: "Tables", Columns: columns([]string{"algorithm", "table"}, "in use", "allocated", "built in Go")}
	t.Columns = append(t.Columns, report.Column{Name: "what it is made of"})
	for _, b := range r.Tables {
		if slices.Contains(algorithms, b.Algorithm) {
			t.Rows = append(t.Rows, []string{b.Algorithm, b.Holds, sizeText(b.Used), sizeText(b.Memory), report.Nanoseconds(b.BuildMs * 1e6), b.Detail})
		}
	}
	return t
}

// figures draw what stands for packets: the usual keys over all of the table, each by itself; then what their chain takes.
func (r *Result) figures(id string, algorithms []string) (all []report.Figure) {
	for _, c := range []struct{ order, title, caption string }{
		{"independent", "Independent lookups", "Random keys; of IPv6 routes addresses inside the table's prefixes. Shorter is better. The line at a bar's end is the 95 % interval."},
		{"dependent", "Dependent lookups", "The same keys. Each lookup waits for the one before: what the memory's latency makes of it."},
		{"stream", "Searching payload", "Nanoseconds per byte."},
	} {
		var bars []report.Bar
		for _, row := range r.Rows {
			if row.Access == "all" && usual(row.Holds, row.Keys) && row.Order == c.order && slices.Contains(algorithms, row.Algorithm) {
				bars = append(bars, report.Bar{Label: row.Algorithm + ", " + row.Holds, Value: row.Ns, Text: row.Where + " " + report.Significant(row.Ns.Median) + " ns, " + row.rate()})
			}
		}
		bars = together(bars)
		if len(bars) > 0 {
			picture := report.Bars(id+" "+c.order, c.title, "ns", bars)
			all = append(all, report.Figure{Title: c.title, Caption: c.caption, Pictures: []template.HTML{picture}})
		}
	}
	return all
}

// together puts bars of the same label beside each other, in the order of their first ones.
func together(bars []report.Bar) (out []report.Bar) {
	done := map[string]bool{}
	for _, b := range bars {
		if done[b.Label] {
			continue
		}
		done[b.Label] = true
		for _, same := range bars {
			if same.Label == b.Label {
				out = append(out, same)
			}
		}
	}
	return out
}
