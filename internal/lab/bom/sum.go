// SPDX-License-Identifier: Apache-2.0

package bom

import (
	"fmt"

	"minne/internal/model/config"
)

// Result is what a sheet comes to. Pointers are nil where the sheet doesn't tell.
type Result struct {
	Name        string       `json:"name"`
	Year        int          `json:"year,omitempty"`
	Currency    string       `json:"currency,omitempty"`
	Source      string       `json:"source,omitempty"`
	With        string       `json:"measured-with,omitempty"`
	Lines       []Line       `json:"parts"`
	Pieces      int          `json:"pieces"`
	Price       *float64     `json:"price,omitempty"`
	Unpriced    int          `json:"parts-without-price,omitempty"` // then Price is an "at least"
	SumIdle     *float64     `json:"sum-idle-watts,omitempty"`
	SumLoad     *float64     `json:"sum-load-watts,omitempty"`
	Unpowered   int          `json:"parts-without-watts,omitempty"` // then the sums are
	Idle        *float64     `json:"idle-watts,omitempty"`          // measured, else the sum
	Load        *float64     `json:"load-watts,omitempty"`
	Metered     bool         `json:"metered"` // Idle and Load are a meter's
	Figures     []Step       `json:"figures,omitempty"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Supply      *Sized       `json:"supply,omitempty"`
	Assumptions []string     `json:"assumptions,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`
}

// Line is a part with its sums.
type Line struct {
	Part     string   `json:"part"`
	Quantity int      `json:"quantity"`
	Price    *float64 `json:"price,omitempty"` // of all pieces
	Idle     *float64 `json:"idle-watts,omitempty"`
	Load     *float64 `json:"load-watts,omitempty"`
	Note     string   `json:"note,omitempty"`
}

// Step is a figure and how it comes about.
type Step struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Formula string  `json:"formula"`          // in letters
	Numbers string  `json:"numbers"`          // with the numbers put in
	Source  string  `json:"source,omitempty"` // whose formula it is
}

// Comparison is the sheet's router beside another machine, as shares of the other's watts and price.
type Comparison struct {
	Name       string   `json:"name"`
	Watts      *float64 `json:"watts,omitempty"`
	Price      *float64 `json:"price,omitempty"`
	WattsShare *float64 `json:"share-of-watts,omitempty"`
	PriceShare *float64 `json:"share-of-price,omitempty"`
}

// Compute works a sheet out.
func Compute(s *Sheet) *Result {
	r := &Result{Name: s.Name, Year: s.Year, Currency: s.Currency, Source: s.Source}
	for _, p := range s.Parts {
		l := p.line()
		r.Lines = append(r.Lines, l)
		r.Pieces += l.Quantity
		if l.Price == nil {
			r.Unpriced++
		} else {
			r.Price = add(r.Price, *l.Price)
		}
		if l.Idle == nil {
			r.Unpowered++
		} else {
			r.SumIdle, r.SumLoad = add(r.SumIdle, *l.Idle), add(r.SumLoad, *l.Load)
		}
	}
	r.Idle, r.Load, r.Metered = s.sum()
	if s.Measured != nil {
		r.With = s.Measured.With
	}
	if r.Idle != nil {
		r.day(s)
	}
	r.perPort(s)
	r.perPacket(s)
	r.compare(s.Others)
	if s.Supply != nil {
		r.size(s)
	}
	return r
}

func (p Part) line() Line {
	l := Line{Part: p.Part, Quantity: 1, Note: p.Note}
	if p.Quantity != nil {
		l.Quantity = *p.Quantity
	}
	n := float64(l.Quantity)
	l.Price, l.Idle, l.Load = times(p.Price, n), times(p.Idle, n), times(p.Load, n)
	if l.Load == nil {
		l.Load = l.Idle
	}
	return l
}

// sum returns the watts of the whole: a meter's, else the parts' together. nil where nothing tells.
func (s *Sheet) sum() (idle, load *float64, metered bool) {
	if m := s.Measured; m != nil && m.Idle != nil {
		idle, load = times(m.Idle, 1), times(m.Load, 1)
		if load == nil {
			load = idle
		}
		return idle, load, true
	}
	for _, p := range s.Parts {
		if l := p.line(); l.Idle != nil {
			idle, load = add(idle, *l.Idle), add(load, *l.Load)
		}
	}
	return idle, load, false
}

func add(sum *float64, more float64) *float64 {
	if sum != nil {
		more += *sum
	}
	return &more
}

func times(d *config.Decimal, n float64) *float64 {
	if d == nil {
		return nil
	}
	v := float64(*d) * n
	return &v
}

// or returns a number of the sheet, or what is taken where it has none.
func or(d *config.Decimal, taken float64) float64 {
	if d == nil {
		return taken
	}
	return float64(*d)
}

// assume is or, and notes what was taken.
func (r *Result) assume(d *config.Decimal, taken float64, before, after string) float64 {
	if d == nil {
		r.Assumptions = append(r.Assumptions, before+num(taken)+after)
	}
	return or(d, taken)
}

func (r *Result) step(name string, value float64, unit, formula, numbers, source string) float64 {
	r.Figures = append(r.Figures, Step{name, value, unit, formula, numbers, source})
	return value
}

// day tells the mean watts and the energy of a day.
func (r *Result) day(s *Sheet) {
	share := 100.0
	if *r.Load > *r.Idle {
		share = r.assume(s.LoadShare, 100, "load-share: ", " % of the day at full load")
	}
	mean := r.step("mean power", *r.Idle+share/100*(*r.Load-*r.Idle), "W", "P = P_idle + s · (P_load − P_idle)",
		fmt.Sprintf("%s W + %s %% · (%s W − %s W)", num(*r.Idle), num(share), num(*r.Load), num(*r.Idle)), "")
	day := r.step("energy of a day", mean*24, "Wh", "E = P · 24 h", num(mean)+" W · 24 h", "")
	r.step("energy of a year", day*365/1000, "kWh", "E · 365 d", num(day)+" Wh · 365 d", "")
}

func (r *Result) perPort(s *Sheet) {
	if s.Ports == 0 {
		return
	}
	if r.Price != nil {
		r.step("price of a port", *r.Price/float64(s.Ports), r.Currency, "price / ports", fmt.Sprintf("%s %s / %d", money(*r.Price), r.Currency, s.Ports), "")
	}
	if r.Load != nil {
		r.step("power of a port", *r.Load/float64(s.Ports), "W", "P_load / ports", fmt.Sprintf("%s W / %d", num(*r.Load), s.Ports), "")
	}
}

func (r *Result) perPacket(s *Sheet) {
	if s.Measured == nil {
		return
	}
	if m := s.Measured.Mpps; m != nil {
		if r.Load != nil {
			r.step("power of a million packets a second, which is the energy of a packet", *r.Load/float64(*m), "W/Mpps = µJ", "P_load / rate",
				fmt.Sprintf("%s W / %s Mpps", num(*r.Load), m), "")
		}
		if r.Price != nil {
			r.step("price of a million packets a second", *r.Price/float64(*m), r.Currency+"/Mpps", "price / rate", fmt.Sprintf("%s %s / %s Mpps", money(*r.Price), r.Currency, m), "")
		}
	}
	if m := s.Measured.Mbit; m != nil && r.Load != nil {
		r.step("power of a Gbit/s", *r.Load/float64(*m)*1000, "W", "P_load / rate", fmt.Sprintf("%s W / %s Gbit/s", num(*r.Load), num(float64(*m)/1000)), "")
	}
}

func (r *Result) compare(others []Other) {
	for _, o := range others {
		c := Comparison{Name: o.Name, Watts: times(o.Watts, 1), Price: times(o.Price, 1)}
		if c.Watts != nil && r.Load != nil {
			share := *r.Load / *c.Watts
			c.WattsShare = &share
		}
		if c.Price != nil && *c.Price > 0 && r.Price != nil && r.Unpriced == 0 {
			share := *r.Price / *c.Price
			c.PriceShare = &share
		}
		r.Comparisons = append(r.Comparisons, c)
	}
}
