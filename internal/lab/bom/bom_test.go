// SPDX-License-Identifier: Apache-2.0

package bom

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/model/config"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within || math.IsNaN(got) {
		t.Errorf("%s: %.4f, expected %.4f ± %g", what, got, want, within)
	}
}

func parse(t *testing.T, text string) *Result {
	t.Helper()
	s, err := Parse("sheet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return Compute(s)
}

func (r *Result) value(t *testing.T, name string) float64 {
	t.Helper()
	steps := r.Figures
	if r.Supply != nil {
		steps = append(steps[:len(steps):len(steps)], r.Supply.Steps...)
	}
	for _, s := range steps {
		if strings.HasPrefix(s.Name, name) {
			return s.Value
		}
	}
	t.Fatalf("no figure %q", name)
	return 0
}

// The sheet of the paper: its table 1 sums to 1111.6, 21.65 W at 0.223 Mpps, its comparison says
// 7 to 17 % with the round 25 W, a third of the price of the dearest and half of the other open one.
func TestPaper(t *testing.T) {
	s, err := Load("../../../docs/examples/bom/minne-2009.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := Compute(s)
	near(t, "price", *r.Price, 1111.6, 1e-9)
	near(t, "sum of the parts, W", *r.SumIdle, 17.9, 1e-9) // 8.4 + 7.5 + 1.5 + 0.5
	near(t, "idle", *r.Idle, 18.75, 0)
	near(t, "load", *r.Load, 21.65, 0)
	near(t, "a day", r.value(t, "energy of a day"), 519.6, 1e-9)
	near(t, "µJ for a packet", r.value(t, "power of a million"), 21.65/0.223, 1e-9)
	near(t, "W for a Gbit/s", r.value(t, "power of a Gbit"), 11.64, 0.005)
	near(t, "price of a port", r.value(t, "price of a port"), 277.9, 1e-9)
	if len(r.Comparisons) != 4 || r.Comparisons[3].PriceShare != nil {
		t.Fatalf("comparisons %+v", r.Comparisons)
	}
	near(t, "watts beside the J4350", *r.Comparisons[2].WattsShare*25/21.65, 0.175, 0.001)
	near(t, "watts beside the AR49", *r.Comparisons[3].WattsShare*25/21.65, 0.0714, 0.001)
	near(t, "price beside the J4350", *r.Comparisons[2].PriceShare, 0.298, 0.001)
	near(t, "price beside the 2501", *r.Comparisons[1].PriceShare, 0.481, 0.001)
	if !r.Metered || r.Unpriced != 0 || r.Unpowered != 0 {
		t.Errorf("metered %t, without price %d, without watts %d", r.Metered, r.Unpriced, r.Unpowered)
	}
}

// Worked by hand: 10 W, 3 days.
//
//	E_b = 240 Wh / (90 % · 96 %) = 277.78 Wh
//	k_T = 100 % − 1 % · 15 = 85 %;  C = 277.78 · 3 / (12 · 0.5 · 0.85 · 0.8) = 204.25 Ah
//	E_p = 277.78 · (1 + 3/15) / (0.8 · 0.9 · 0.95) = 487.33 Wh
//	cable of the load: I = 0.8333 A;  A = 2 · 0.0175 · 10 · 0.8333 / (4 % · 12 V) = 0.6076 mm², sold: 0.75 mm² with 3.24 %
func TestSupplyByHand(t *testing.T) {
	r := parse(t, `
version: 1
name: by hand
parts:
  - {part: box, idle: 10}
supply:
  autonomy: 3
  converter: 90
  battery: {chemistry: lead-acid, coldest: 10}
  panel: {latitude: 0, tilt: 0, clearness: [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], regulator: 90, performance: 75, recharge: 15}
  cables:
    - {name: a, carries: load, length: 10, drop: 4}
    - {name: b, carries: panel, length: 5, drop: 5, voltage: 20}
`)
	near(t, "from the battery", r.value(t, "energy that the battery"), 277.78, 0.01)
	near(t, "cold", r.value(t, "capacity in the cold"), 85, 1e-9)
	near(t, "Ah", r.Supply.AmpHours, 204.25, 0.01)
	near(t, "from the panel", r.value(t, "energy that the panel"), 487.33, 0.01)
	// At the equator the least light above the air is in June, 0.967 · 24/π · 1367 · cos 23.1° = 9,290 Wh/m²; half of it lands.
	if r.Supply.Worst != "June" {
		t.Errorf("worst month %s", r.Supply.Worst)
	}
	near(t, "hours of full sun", r.value(t, "hours of full sun"), 9.290/2, 0.01)
	near(t, "Wp", r.Supply.PanelPeak, 487.33/(4.645*0.75), 0.5)
	near(t, "mm² wanted", r.value(t, "cross-section, a"), 0.6076, 0.0001)
	if c := r.Supply.Cables[0]; c.Area != 0.75 || math.Abs(c.Drop-3.24) > 0.01 {
		t.Errorf("cable %+v", c)
	}
	near(t, "current of the panel", r.value(t, "current, b"), r.Supply.PanelPeak/20, 1e-9)
}

func TestSums(t *testing.T) {
	r := parse(t, "version: 1\nname: x\ncurrency: EUR\nload-share: 25\nparts:\n- {part: a, quantity: 3, price: 2.5, idle: 1, load: 2}\n- {part: b, idle: 4}\n- {part: c, price: 1}\n")
	near(t, "price", *r.Price, 8.5, 0)
	near(t, "idle", *r.Idle, 7, 0)
	near(t, "load", *r.Load, 10, 0)
	near(t, "mean", r.value(t, "mean power"), 7.75, 1e-9)
	if r.Unpriced != 1 || r.Unpowered != 1 || r.Pieces != 5 {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"≥ 8.50", "≥ 7", "1 of the parts have no price"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	// Nothing known: nothing made up.
	r = parse(t, "version: 1\nname: x\nparts:\n- {part: a}\n")
	if r.Price != nil || r.Idle != nil || r.Load != nil || len(r.Figures) != 0 || len(r.Assumptions) != 0 {
		t.Errorf("%+v", r)
	}
}

const head = "version: 1\nname: x\nparts: [{part: a, idle: 10}]\nsupply:\n  autonomy: 2\n"

func TestWarnings(t *testing.T) {
	const k = "clearness: [0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4]"
	for text, want := range map[string]string{
		"  battery: {chemistry: lifepo4, coldest: -5}\n":                                                                                                   "must not be charged below 0 °C",
		"  battery: {chemistry: lead-acid, coldest: -20, discharge: 70}\n":                                                                                 "may freeze",
		"  battery: {chemistry: lifepo4, coldest: 5}\n  panel: {latitude: 60, " + k + "}\n":                                                                "only 6.9",
		"  battery: {chemistry: lifepo4, coldest: 5}\n  panel: {latitude: 40, clear-sky: true}\n":                                                          "clouds are not counted",
		"  battery: {chemistry: lifepo4, coldest: 5}\n  cables: [{name: long, carries: load, length: 500, drop: 0.5}]\n":                                   "more than any cable",
		"  battery: {chemistry: lead-acid, coldest: 25}\n  panel: {latitude: 40, " + k + "}\n":                                                             "",
		"  battery: {chemistry: lead-acid, coldest: 30}\n  panel: {latitude: 40, tilt: 55, " + k + "}\n  cables: [{name: c, carries: panel, length: 2}]\n": "",
	} {
		r := parse(t, head+text)
		all := strings.Join(r.Warnings, "\n")
		if want == "" && all != "" || !strings.Contains(all, want) {
			t.Errorf("%s warns %q, expected %q", text, all, want)
		}
	}
}

// Twelve months of PVGIS come to the indices that they are made of; in the south the worst month is June.
func TestIrradiation(t *testing.T) {
	r := parse(t, head+"  battery: {chemistry: lead-acid, coldest: 20}\n  panel: {latitude: -33.9, irradiation: [245, 200, 180, 125, 90, 75, 92, 118, 145, 195, 225, 250]}\n")
	if r.Supply.Worst != "June" {
		t.Errorf("worst month %s", r.Supply.Worst)
	}
	june := r.Supply.Months[5]
	near(t, "H", june.Horizontal, 75_000.0/30, 1e-6)
	near(t, "K", june.Clearness*june.AboveAir, 2500, 1e-6)
	if r.Supply.Tilt < 45 || r.Supply.Tilt > 75 {
		t.Errorf("tilt %g° for the winter at −33.9°", r.Supply.Tilt)
	}
	if june.Tilted <= june.Horizontal {
		t.Error("the panel looks away from the sun")
	}
}

func TestRefused(t *testing.T) {
	const battery = "  battery: {chemistry: lead-acid, coldest: 10}\n"
	for text, want := range map[string]string{
		"":                                 "the file is empty",
		"version: 1\nname: x\nparts: []\n": "a sheet without parts",
		"version: 2\nname: x\nparts: [{part: a}]\n":                                        "version can't be \"2\"",
		"version: 1\nname: x\nparts: [{part: a, price: 5}]\n":                              "prices without a currency",
		"version: 1\nname: x\nparts: [{part: a, idle: \"8,4\"}]\n":                         "did you mean 8.4?",
		"version: 1\nname: x\nparts: [{part: a, watts: 8}]\n":                              "unknown key \"watts\"",
		"version: 1\nname: x\nparts: [{part: a, idle: -1}]\n":                              "idle -1 is out of range",
		"version: 1\nname: x\nparts: [{part: a, idle: 5, load: 3}]\n":                      "less than idle 5 W",
		"version: 1\nname: x\nparts: [{part: a, load: 3}]\n":                               "load without idle",
		"version: 1\nname: x\nparts: [{part: a, quantity: 0}]\n":                           "quantity 0 is out of range",
		"version: 1\nname: x\nparts: [{part: a}]\nmeasured: {idle: 5, load: 6, mpps: 0}\n": "220 kpps are 0.22",
		"version: 1\nname: x\nparts: [{part: a}]\nmeasured: {load: 6}\n":                   "load without idle",
		"version: 1\nname: x\nparts: [{part: a}]\nload-share: 130\n":                       "0 to 100 %",
		"version: 1\nname: x\nparts: [{part: a}]\nsupply:\n  autonomy: 2\n" + battery:      "a router of unknown watts",
		head: "lacks battery",
		head + "  battery: {chemistry: nicd, coldest: 10}\n":                                              "lead-acid or lifepo4",
		head + "  battery: {chemistry: lifepo4}\n":                                                        "lacks coldest",
		head + "  battery: {chemistry: lifepo4, coldest: 10, discharge: 120}\n":                           "discharge 120 is out of range",
		head + battery + "  panel: {latitude: 95, clear-sky: true}\n":                                     "-90 to 90",
		head + battery + "  panel: {latitude: 50}\n":                                                      "0 descriptions of the sky",
		head + battery + "  panel: {latitude: 50, clear-sky: true, clearness: [0.5]}\n":                   "2 descriptions of the sky",
		head + battery + "  panel: {latitude: 50, clearness: [0.5, 0.5]}\n":                               "clearness of 2 months",
		head + battery + "  panel: {latitude: 50, clearness: [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]}\n":     "January has 5.00 of the light",
		head + battery + "  panel: {latitude: 50, irradiation: [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 900]}\n": "has the place this latitude?",
		head + battery + "  panel: {latitude: 70, clear-sky: true}\n":                                     "no sun to live on at 70° in January, November, December",
		head + battery + "  panel: {latitude: -80, clear-sky: true}\n":                                    "no sun to live on at -80°",
		head + battery + "  cables: [{name: c, carries: panel, length: 2}]\n":                             "a panel that is not in the sheet",
		head + battery + "  cables: [{name: c, carries: load, length: 0}]\n":                              "length 0 is out of range",
		strings.Replace(head, "autonomy: 2", "autonomy: 0", 1) + battery:                                  "autonomy 0 is out of range",
		head + battery + "  voltage: 230\n":                                                               "voltage 230 is out of range",
	} {
		_, err := Parse("sheet.yaml", []byte(text))
		var wrong *config.Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v\nexpected %q", text, err, want)
		}
	}
	if _, err := Load("missing.yaml"); err == nil || !strings.Contains(err.Error(), "read the sheet") {
		t.Errorf("a missing file: %v", err)
	}
}

// All examples are read and printed, and the JSON has no figure that JSON can't hold.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../../docs/examples/bom/*.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("examples: %v, %v", paths, err)
	}
	for _, path := range paths {
		s, err := Load(path)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		r := Compute(s)
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		var out bytes.Buffer
		if err := r.Print(&out); err != nil || !strings.Contains(out.String(), s.Name) {
			t.Errorf("%s: %v\n%s", path, err, out.String())
		}
		for _, bad := range []string{"NaN", "Inf", "%!"} {
			if strings.Contains(out.String(), bad) {
				t.Errorf("%s prints %s", path, bad)
			}
		}
	}
}

// Sheets with a few wrong characters are refused or worked out, never the end of the program.
func TestSpoiledSheets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const letters = "0123456789.-:[]{},a \n"
	for _, name := range []string{"minne-2009", "board-10w"} {
		whole, err := os.ReadFile("../../../docs/examples/bom/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			text := bytes.Clone(whole)
			for range 1 + random.IntN(4) {
				text[random.IntN(len(text))] = letters[random.IntN(len(letters))]
			}
			s, err := Parse("spoiled", text)
			if err != nil {
				continue
			}
			if _, err := json.Marshal(Compute(s)); err != nil {
				t.Errorf("%v of\n%s", err, text)
			}
		}
	}
}

func TestNum(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 21.65: "21.65", 10149.3: "10149", 0.5262: "0.526", -23.049: "−23.05", 100: "100", 5.4125: "5.412", -0.0001: "0", 1234567: "1234567"} {
		if got := num(v); got != want {
			t.Errorf("%v: %s, expected %s", v, got, want)
		}
	}
}
