// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// pictures of a page, with what their tests need.
type drawn struct {
	title, description string
	shapes             int
}

var notNumber = regexp.MustCompile(`(?i)nan|inf`)

// inspect reads a page as XML, which its markup is too, and returns its pictures. It fails
// when tags don't balance, an id is there twice, or a shape has a coordinate that is no number.
func inspect(t *testing.T, page []byte) (out []drawn) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Entity = xml.HTMLEntity
	var stack []string
	ids := map[string]bool{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			stack = append(stack, e.Name.Local)
			hidden := false
			for _, a := range e.Attr {
				hidden = hidden || a.Name.Local == "aria-hidden"
				switch a.Name.Local {
				case "id":
					if ids[a.Value] {
						t.Errorf("id %q is there twice", a.Value)
					}
					ids[a.Value] = true
				case "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height", "viewBox":
					if notNumber.MatchString(a.Value) {
						t.Fatalf("%s %s=%q", e.Name.Local, a.Name.Local, a.Value)
					}
				}
			}
			if e.Name.Local == "svg" && !hidden {
				out = append(out, drawn{})
			}
			if len(out) > 0 && slices.Contains([]string{"path", "line", "circle", "rect"}, e.Name.Local) {
				out[len(out)-1].shapes++
			}
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) < 2 || stack[len(stack)-2] != "svg" {
				continue
			}
			switch last := &out[len(out)-1]; stack[len(stack)-1] {
			case "title":
				last.title += string(e)
			case "desc":
				last.description += string(e)
			}
		}
	}
	return out
}

func pageOf(t *testing.T, r *result.Result) []byte {
	t.Helper()
	return content(t, written(t, r), PageFile)
}

// TestPictures: every section that is drawn is there, and says in words what it shows.
func TestPictures(t *testing.T) {
	got := inspect(t, pageOf(t, fixture()))
	for _, p := range got {
		if p.title == "" || p.description == "" || p.shapes < 10 {
			t.Errorf("picture %q, described as %q, has %d shapes", p.title, p.description, p.shapes)
		}
	}
	for _, want := range []string{"Throughput against frame size: one flow, bit rate", "Throughput against frame size: one flow, packet rate", "Bounds of the throughput", "Forwarded rate against frame size: rDoS",
		"Ratios with their", "CPU time per packet", "Loss against load: one flow, 64 B", "Latency: kernel", "Latency: fast path", "Soak, forwarded rate: kernel", "Soak, median latency: fast path",
		"Power over load", "Energy per packet", "Latency idle and under load: kernel"} {
		if !slices.ContainsFunc(got, func(p drawn) bool { return strings.HasPrefix(p.title, want) }) {
			t.Errorf("there is no picture %q", want)
		}
	}
}

var loads = regexp.MustCompile(`(?i)\b(?:src|href|data|action|poster)\s*=\s*"([^"]*)"|url\(([^)]*)\)|@import|<script|<link|<iframe|<object|\bon[a-z]+\s*=`)

// TestPageStandsAlone: a browser has nothing to load and nothing to run.
func TestPageStandsAlone(t *testing.T) {
	r := fixture()
	evil := `"><script>alert(1)</script><img src="http://198.51.100.1/x.png" onerror=alert(1)>`
	r.Title, r.Devices[0].Name, r.Throughput[0].Device, r.Cost[0].Device, r.Notes[0] = evil, evil, evil, evil, evil
	r.Command = []string{evil}
	page := pageOf(t, r)
	inspect(t, page)
	for _, m := range loads.FindAllStringSubmatch(unescapedOnly(page), -1) {
		if target := m[1] + m[2]; !strings.HasPrefix(target, "#") {
			t.Errorf("the page loads or runs %q", m[0])
		}
	}
	if !bytes.Contains(page, []byte(`content="default-src 'none'; style-src 'unsafe-inline'"`)) {
		t.Error("the page does not forbid the browser to load anything")
	}
}

// unescapedOnly returns the tags of a page without its text.
func unescapedOnly(page []byte) string {
	return strings.Join(regexp.MustCompile(`(?s)<style>.*?</style>|<[^>]*>`).FindAllString(string(page), -1), "\n")
}

func TestPageSays(t *testing.T) {
	r := fixture()
	dir := written(t, r)
	page := string(content(t, dir, PageFile))
	for _, want := range []string{digest(content(t, dir, ResultFile)), "minne lab throughput --device kernel --device &#39;fast path&#39; --out report", "PC Engines apu4", "commit 4f2c9a1", "Void trials, which do not count: 1 of 12", "line rate of the ports: 1.00 Gbit/s"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page is without %q", want)
		}
	}
	r.Partial = "interrupted by the user"
	if page := string(pageOf(t, r)); !strings.Contains(page, "This report is partial: interrupted by the user.") {
		t.Error("a partial report does not say so")
	}
	r = fixture()
	r.Trials[4].Void, r.Tester.LineRate = "", 0
	page = string(pageOf(t, r))
	if !strings.Contains(page, "This report is complete") {
		t.Error("a complete report does not say so")
	}
	if !strings.Contains(page, "for reference:") || strings.Contains(page, "line rate of the ports:") {
		t.Error("ports without a line rate are not told from those with one")
	}
}

// TestEmptyResult: the first partial report of a run has nothing yet.
func TestEmptyResult(t *testing.T) {
	for _, r := range []*result.Result{{Schema: result.Schema}, {Schema: result.Schema, Throughput: make([]result.Throughput, 1), Loss: make([]result.LossCurve, 1), Latency: make([]result.Latency, 1), Soak: make([]result.Soak, 1),
		Cost: make([]result.Cost, 1), Comparisons: make([]result.Comparison, 1), Energy: make([]result.Energy, 1), Matrix: make([]result.Matrix, 1), MRR: make([]result.MRR, 1), BackToBack: make([]result.BackToBack, 1),
		Recovery: make([]result.Recovery, 1), Responsiveness: make([]result.Responsiveness, 1), Papers: make([]result.Paper, 1), Trials: make([]trial.Result, 1), Devices: make([]result.Device, 1)}} {
		inspect(t, pageOf(t, r))
		if err := WriteTables(io.Discard, r); err != nil {
			t.Error(err)
		}
	}
}

// hostile are values that break careless arithmetic.
var hostile = []float64{0, -1, 1, 1e308, -1e308, 5e-324, 1e-300, 1e30, math.MaxInt64, math.NaN(), math.Inf(1), math.Inf(-1), 0.1, 1e6}

// spoil replaces every figure of v by what pick returns.
func spoil(v reflect.Value, pick func() float64) {
	switch v.Kind() {
	case reflect.Float64:
		v.SetFloat(pick())
	case reflect.Int64:
		whole := int64(math.MaxInt64)
		if f := pick(); math.Abs(f) < 9e18 {
			whole = int64(f)
		}
		v.SetInt(whole)
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem(), pick)
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i), pick)
		}
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				spoil(v.Field(i), pick)
			}
		}
	}
}

// TestHostileFigures: whatever the figures are, page, tables and pictures are sound.
func TestHostileFigures(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	picks := []func() float64{func() float64 { return hostile[random.IntN(len(hostile))] }, func() float64 { return random.NormFloat64() * math.Pow(10, float64(random.IntN(40)-20)) }}
	for _, v := range hostile {
		picks = append(picks, func() float64 { return v })
	}
	for _, pick := range append(picks, picks[:2]...) {
		r := fixture()
		r.Trials = r.Trials[:2]
		spoil(reflect.ValueOf(r).Elem(), pick)
		var page bytes.Buffer
		if err := writePage(&page, r, ""); err != nil { // without the care of Write for what is not a number
			t.Fatal(err)
		}
		inspect(t, page.Bytes())
		if err := WriteTables(io.Discard, r); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(written(t, r)); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzAxes: any two values make an axis on which both have a place and whose ticks lie on it in order.
func FuzzAxes(f *testing.F) {
	for _, a := range hostile {
		for _, b := range hostile {
			f.Add(a, b)
		}
	}
	write := func(v float64) string { return significant(v) }
	f.Fuzz(func(t *testing.T, a, b float64) {
		for name, x := range map[string]axis{"linear": linear("", a, b), "between": between("", a, b), "logarithmic": logarithmic("", write, a, b), "loss": lossRatios(), "nines": nines(""), "frame sizes": frameSizes("", a, b), "ratio": ratioAxis("", []float64{a, b})} {
			for _, v := range []float64{a, b, 0} {
				if p := x.at(v); !(p >= -0.5 && p <= 1.5) {
					t.Fatalf("%s axis of %v and %v: %v stands at %v", name, a, b, v, p)
				}
			}
			if len(x.ticks) > 700 {
				t.Fatalf("%s axis of %v and %v has %d ticks", name, a, b, len(x.ticks))
			}
			for i, tick := range x.ticks {
				if !finite(tick.at) || notNumber.MatchString(tick.label) || i > 0 && tick.at <= x.ticks[i-1].at {
					t.Fatalf("%s axis of %v and %v: tick %v %q", name, a, b, tick.at, tick.label)
				}
			}
		}
	})
}

// TestAxisHolds: values lie within their axis.
func TestAxisHolds(t *testing.T) {
	for _, c := range [][]float64{{1, 2}, {0, 1488095}, {5, 5}, {0.001}, {3, 99, 1000}, {12345.6, 12345.7}, {-9, 1640}} {
		for name, x := range map[string]axis{"between": between("", c...), "logarithmic": logarithmic("", significant, c...)} {
			labelled := 0
			for _, tick := range x.ticks {
				if p := x.at(tick.at); tick.label != "" && p >= 0 && p <= 1 {
					labelled++
				}
			}
			for _, v := range c {
				if p := x.at(v); p < 0 || p > 1 {
					t.Errorf("%s of %v: %v lies at %v", name, c, v, p)
				}
			}
			if labelled < 2 && name == "between" || labelled > 12 {
				t.Errorf("%s of %v has %d labels", name, c, labelled)
			}
		}
	}
}

// TestLabelsApart: labels of lines that end together don't lie on each other and stay in the picture.
func TestLabelsApart(t *testing.T) {
	var labels []*endLabel
	for range 8 {
		labels = append(labels, &endLabel{lines: []string{"a", "b"}, want: 300, height: 2*lineHeight + 6})
	}
	spread(labels, 34, 330)
	for i, l := range labels {
		if l.at < 34-1e-9 || l.at+l.height > 364+1e-9 || i > 0 && l.at < labels[i-1].at+labels[i-1].height-1e-9 {
			t.Errorf("label %d stands from %v to %v", i, l.at, l.at+l.height)
		}
	}
}

// TestVoidReasons: reasons that differ in their figures only are one reason.
func TestVoidReasons(t *testing.T) {
	r := fixture()
	r.Trials[1].Void, r.Trials[2].Void = "the core was away for 1.013661s in 22 gaps, which explain 2107166 frames", "the core was away for 136.5 ms in 3 gaps, which explain 1 frames"
	n, reasons := voided(r.Trials)
	if want := "the core was away for … in … gaps, which explain … frames"; n != 3 || len(reasons) != 2 || reasons[0] != want {
		t.Errorf("%d void: %q", n, reasons)
	}
}

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		packetRate(1488095): "1.49 Mpps", bitRate(941e6): "941 Mbit/s", nanoseconds(5200): "5.20 µs", span(291400, 292857, packetRates): "291.4 to 292.9 kpps", percent(0.005): "0.5 %", percent(1): "100 %", percent(0.00003): "0.003 %",
		significant(0): "0", significant(1234567): "1,234,567", significant(-12.345): "-12.3", significant(math.NaN()): none, powerOfTen(-6): "10⁻⁶", lasting(11220 * time.Second): "3 h 7 min",
		shellWords([]string{"minne", "a b", "it's", ""}): `minne 'a b' 'it'\''s' ''`,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
