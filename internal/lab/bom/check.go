// SPDX-License-Identifier: Apache-2.0

package bom

import (
	"fmt"
	"io"
	"os"
	"strings"

	"minne/internal/lab/bom/solar"
	"minne/internal/model/config"
)

const maxFile = 1 << 20 // bytes; a sheet of a hundred parts has 10 KB

// Load reads a sheet. The error of a wrong one is a *config.Error with all that is wrong.
func Load(path string) (*Sheet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the sheet: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the sheet: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read the sheet: %s has more than %d MB: is it the right file?", path, maxFile>>20)
	}
	return Parse(path, data)
}

// Parse reads the text of a sheet; file is its name in messages.
func Parse(file string, data []byte) (*Sheet, error) {
	s := new(Sheet)
	d, err := config.ReadDocument(file, data, s, "version: 1, a name and parts")
	if err != nil {
		return nil, err
	}
	c := checker{d}
	c.parts(s)
	c.measured(s)
	if s.Supply != nil {
		c.supply(s)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

type checker struct{ *config.Document }

// within refuses a number outside of its bounds. An absent one passes.
func (c checker) within(path string, d *config.Decimal, least, most float64, unit string) {
	if d == nil || float64(*d) >= least && float64(*d) <= most {
		return
	}
	key := path[strings.LastIndex(path, ".")+1:]
	c.Refuse(path, fmt.Sprintf("%s %s is out of range", key, d), fmt.Sprintf("%g to %g %s", least, most, unit), "")
}

const (
	mostWatts = 100_000
	mostPrice = 1e9
)

func (c checker) parts(s *Sheet) {
	if len(s.Parts) == 0 {
		c.Refuse("parts", "a sheet without parts", "a list of parts, each with a dash: - part: board", "")
	}
	priced := false
	for i, p := range s.Parts {
		at := fmt.Sprintf("parts[%d].", i)
		c.within(at+"price", p.Price, 0, mostPrice, "")
		c.within(at+"idle", p.Idle, 0, mostWatts, "W")
		c.within(at+"load", p.Load, 0, mostWatts, "W")
		switch {
		case p.Load != nil && p.Idle == nil:
			c.Refuse(at+"load", "load without idle", "idle: watts without traffic; what takes nothing then has idle: 0", "")
		case p.Load != nil && *p.Load < *p.Idle:
			c.Refuse(at+"load", fmt.Sprintf("load %s W is less than idle %s W", p.Load, p.Idle), "more watts at load; are the two exchanged?", "")
		}
		priced = priced || p.Price != nil
	}
	for i, o := range s.Others {
		at := fmt.Sprintf("others[%d].", i)
		c.within(at+"watts", o.Watts, 0.001, mostWatts, "W")
		c.within(at+"price", o.Price, 0, mostPrice, "")
		priced = priced || o.Price != nil
	}
	if priced && s.Currency == "" {
		c.Refuse("currency", "prices without a currency", "currency: USD, or what they are in", "")
	}
	c.within("load-share", s.LoadShare, 0, 100, "%")
}

func (c checker) measured(s *Sheet) {
	m := s.Measured
	if m == nil {
		return
	}
	c.within("measured.idle", m.Idle, 0.001, mostWatts, "W")
	c.within("measured.load", m.Load, 0.001, mostWatts, "W")
	c.within("measured.mpps", m.Mpps, 0.000001, 1e6, "Mpps; 220 kpps are 0.22")
	c.within("measured.mbit", m.Mbit, 0.001, 1e8, "Mbit/s")
	if m.Idle != nil && m.Load != nil && *m.Load < *m.Idle {
		c.Refuse("measured.load", fmt.Sprintf("load %s W is less than idle %s W", m.Load, m.Idle), "more watts at load; are the two exchanged?", "")
	}
	if m.Load != nil && m.Idle == nil {
		c.Refuse("measured.load", "load without idle", "idle: watts without traffic, of the same meter", "")
	}
}

func (c checker) supply(s *Sheet) {
	u := s.Supply
	if idle, _, _ := s.sum(); idle == nil {
		c.Refuse("supply", "a supply for a router of unknown watts", "idle and load of the parts, or of the whole under measured; minne lab energy measures what a machine takes", "")
	}
	c.within("supply.autonomy", &u.Autonomy, 0.1, 60, "days")
	c.within("supply.voltage", u.Voltage, 5, 60, "V (safe extra-low voltage)")
	c.within("supply.converter", u.Converter, 20, 100, "%")
	c.within("supply.battery.coldest", &u.Battery.Coldest, -40, 60, "°C")
	c.within("supply.battery.discharge", u.Battery.Discharge, 5, 95, "%")
	c.within("supply.battery.ageing", u.Battery.Ageing, 30, 100, "%")
	if u.Panel != nil {
		c.panel(u.Panel)
	}
	for i, k := range u.Cables {
		at := fmt.Sprintf("supply.cables[%d].", i)
		c.within(at+"length", &k.Length, 0.05, 500, "m")
		c.within(at+"drop", k.Drop, 0.1, 20, "%")
		c.within(at+"voltage", k.Voltage, 5, 600, "V")
		if k.Carries == "panel" && u.Panel == nil {
			c.Refuse(at+"carries", "a cable of a panel that is not in the sheet", "a section panel in supply, or carries: load", "")
		}
	}
}

var months = [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}

func (c checker) panel(p *Panel) {
	const at = "supply.panel."
	c.within(at+"latitude", &p.Latitude, -90, 90, "degrees, south negative")
	c.within(at+"tilt", p.Tilt, 0, 90, "degrees from the horizontal")
	c.within(at+"altitude", &p.Altitude, -430, 6000, "m")
	c.within(at+"regulator", p.Regulator, 20, 100, "%")
	c.within(at+"performance", p.Performance, 20, 100, "%")
	c.within(at+"recharge", p.Recharge, 1, 365, "days")
	skies := 0
	for _, given := range []bool{p.Clearness != nil, p.Irradiation != nil, p.ClearSky} {
		if given {
			skies++
		}
	}
	if skies != 1 {
		c.Refuse("supply.panel", fmt.Sprintf("%d descriptions of the sky", skies),
			"one of irradiation (12 months in kWh/m² from PVGIS, for any place of the world but the poles), clearness (12 indices), clear-sky: true", "")
		return
	}
	for key, list := range map[string][]config.Decimal{"clearness": p.Clearness, "irradiation": p.Irradiation} {
		if list != nil && len(list) != 12 {
			c.Refuse(at+key, fmt.Sprintf("%s of %d months", key, len(list)), "twelve numbers, January to December", "")
			return
		}
	}
	if p.Latitude < -90 || p.Latitude > 90 || p.Tilt != nil && (*p.Tilt < 0 || *p.Tilt > 90) {
		return // what follows would blame the sky
	}
	c.sky(p)
}

// sky refuses months that have more light than there is, and places with months that have none.
func (c checker) sky(p *Panel) {
	const clearest = 0.85 // of a month; days on mountains come to 0.8
	wrong := false
	for i, k := range p.clearness() {
		path, expected := fmt.Sprintf("supply.panel.clearness[%d]", i), "an index from 0.05 to 0.85: the share of the light above the air that reaches the ground"
		if p.Irradiation != nil {
			path, expected = fmt.Sprintf("supply.panel.irradiation[%d]", i), "kWh/m² in the whole month on the horizontal; has the place this latitude?"
		}
		dark := solar.AboveAir(float64(p.Latitude), solar.MeanDays[i]) < darkness
		if !dark && (k > clearest || k < 0.05) && !p.ClearSky {
			c.Refuse(path, fmt.Sprintf("%s has %.2f of the light above the air", months[i], k), expected, "")
			wrong = true
		}
	}
	if wrong {
		return
	}
	var without []string
	_, list := p.months()
	for i, m := range list {
		if m.Tilted < darkness {
			without = append(without, months[i])
		}
	}
	if without != nil {
		c.Refuse("supply.panel.latitude", fmt.Sprintf("no sun to live on at %s° in %s", p.Latitude, strings.Join(without, ", ")),
			"a place nearer to the equator, or a supply without panel: wind, a generator, the grid", "")
	}
}
