// SPDX-License-Identifier: Apache-2.0

package bom

import (
	"fmt"
	"math"

	"minne/internal/lab/bom/solar"
)

// What is known of batteries, for sheets that say nothing better. They are rules of thumb of the trade and
// are listed as assumptions wherever they are taken.
type chemistry struct {
	cell       float64 // V of a battery "of 12 V"
	discharge  float64 // % that may be taken
	efficiency float64 // % of what is put in that comes out
	cold       float64 // % of capacity lost for each degree below 25 °C
}

var chemistries = map[string]chemistry{
	"lead-acid": {12, 50, 80, 1},
	"lifepo4":   {12.8, 80, 95, 0.5},
}

const (
	warm       = 25.0   // °C at which capacities are rated
	darkness   = 50.0   // Wh/m² and day: less than this nobody lives on
	rated      = 1000.0 // W/m²: the sun under which a panel gives its rated watts
	copper     = 0.0175 // Ω·mm²/m at 20 °C
	low        = 15.0   // ° over the horizon: what stands around matters
	panelVolts = 18.0   // of a panel for batteries of 12 V, at its best
)

// crossSections are those that are sold, mm² (IEC 60228).
var crossSections = []float64{0.5, 0.75, 1, 1.5, 2.5, 4, 6, 10, 16, 25, 35, 50, 70, 95, 120}

// Sized is a supply that is enough.
type Sized struct {
	Chemistry string        `json:"chemistry"`
	Volts     float64       `json:"battery-volts"`
	AmpHours  float64       `json:"battery-ah"`
	PanelPeak float64       `json:"panel-wp,omitempty"`
	Latitude  float64       `json:"latitude,omitempty"`
	Tilt      float64       `json:"tilt,omitempty"`
	Worst     string        `json:"worst-month,omitempty"`
	Months    []solar.Month `json:"months,omitempty"`
	Cables    []SizedCable  `json:"cables,omitempty"`
	Steps     []Step        `json:"steps"`
}

// SizedCable is a cable of a cross-section that is sold; 0 when none is thick enough.
type SizedCable struct {
	Name string  `json:"name"`
	Area float64 `json:"mm2"`
	Drop float64 `json:"drop-percent"` // with that cross-section
}

func (z *Sized) step(name string, value float64, unit, formula, numbers, source string) float64 {
	z.Steps = append(z.Steps, Step{name, value, unit, formula, numbers, source})
	return value
}

// size adds the supply to the result. The mean power and the energy of a day are there.
func (r *Result) size(s *Sheet) {
	u := s.Supply
	kind := chemistries[u.Battery.Chemistry]
	z := &Sized{Chemistry: u.Battery.Chemistry, Volts: r.assume(u.Voltage, kind.cell, "voltage: ", " V, the battery's")}
	r.Supply = z

	day, converter, wires := r.figure("energy of a day"), or(u.Converter, 100), dropOf(u.Cables, "load")
	out := z.step("energy that the battery gives in a day", day/(converter/100*(1-wires/100)), "Wh", "E_b = E / (η_conv · (1 − u_load))",
		fmt.Sprintf("%s Wh / (%s %% · (1 − %s %%))", num(day), num(converter), num(wires)), "")
	r.sizeBattery(u, kind, out)
	if u.Panel != nil {
		r.sizePanel(u, kind, out)
	}
	for _, c := range u.Cables {
		r.sizeCable(c)
	}
}

func (r *Result) figure(name string) float64 {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// dropOf is the greatest share of the voltage that cables of a kind may lose, %.
func dropOf(cables []Cable, carries string) (drop float64) {
	for _, c := range cables {
		if c.Carries == carries {
			drop = max(drop, or(c.Drop, usualDrop))
		}
	}
	return drop
}

const usualDrop = 3.0 // % of the voltage

func (r *Result) sizeBattery(u *Supply, kind chemistry, out float64) {
	z := r.Supply
	discharge := r.assume(u.Battery.Discharge, kind.discharge, "discharge: ", " % of "+u.Battery.Chemistry+" may be taken")
	ageing := r.assume(u.Battery.Ageing, 80, "ageing: the battery is replaced at ", " % of its capacity")
	coldest, lost := float64(u.Battery.Coldest), 0.0
	if coldest < warm {
		lost = min(80, kind.cold*(warm-coldest))
		r.Assumptions = append(r.Assumptions, fmt.Sprintf("cold: %s loses %g %% of its capacity for each degree below %g °C (a rule of thumb; the maker's curve is better)", u.Battery.Chemistry, kind.cold, warm))
	}
	cold := z.step("capacity in the cold", 100-lost, "%", "k_T = 100 % − c · (25 °C − T)",
		fmt.Sprintf("100 %% − %g %%/K · %s K", kind.cold, num(max(0, warm-coldest))), "")
	n := float64(u.Autonomy)
	z.AmpHours = z.step("battery", out*n/(z.Volts*discharge/100*cold/100*ageing/100), "Ah", "C = E_b · n / (U · d · k_T · k_age)",
		fmt.Sprintf("%s Wh/d · %s d / (%s V · %s %% · %s %% · %s %%)", num(out), num(n), num(z.Volts), num(discharge), num(cold), num(ageing)), "")
	switch {
	case u.Battery.Chemistry == "lifepo4" && coldest < 0:
		r.Warnings = append(r.Warnings, fmt.Sprintf("lifepo4 must not be charged below 0 °C, and the coldest week has %s °C: put it where it stays warm, take one with a heater, or lead-acid", num(coldest)))
	case u.Battery.Chemistry == "lead-acid" && coldest < -10 && discharge > 50:
		r.Warnings = append(r.Warnings, fmt.Sprintf("a lead-acid battery that is discharged by %s %% may freeze at %s °C: take less out of it, or keep it warm", num(discharge), num(coldest)))
	}
}

// clearness returns the share of light that reaches the ground in each month.
func (p *Panel) clearness() (k [12]float64) {
	for i := range k {
		switch {
		case p.Clearness != nil:
			k[i] = float64(p.Clearness[i])
		case p.Irradiation != nil:
			if above := solar.AboveAir(float64(p.Latitude), solar.MeanDays[i]); above >= darkness {
				k[i] = float64(p.Irradiation[i]) * 1000 / daysOf[i] / above
			}
		default:
			k[i] = solar.ClearSky(float64(p.Altitude))
		}
	}
	return k
}

var daysOf = [12]float64{31, 28.25, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// months returns the light on the panel, and its tilt: the sheet's, or the one that is best for the worst month.
func (p *Panel) months() (tilt float64, list [12]solar.Month) {
	k := p.clearness()
	at := func(tilt float64) (list [12]solar.Month) {
		for i := range list {
			list[i] = solar.NewMonth(i, float64(p.Latitude), tilt, k[i])
		}
		return list
	}
	if p.Tilt != nil {
		return float64(*p.Tilt), at(float64(*p.Tilt))
	}
	list = at(0)
	for t := 1.0; t <= 90; t++ {
		if other := at(t); other[worst(other)].Tilted > list[worst(list)].Tilted {
			tilt, list = t, other
		}
	}
	return tilt, list
}

// worst returns the month with the least light on the panel.
func worst(list [12]solar.Month) (month int) {
	for i, m := range list {
		if m.Tilted < list[month].Tilted {
			month = i
		}
	}
	return month
}

func (r *Result) sizePanel(u *Supply, kind chemistry, out float64) {
	z, p := r.Supply, u.Panel
	var list [12]solar.Month
	z.Tilt, list = p.months()
	z.Latitude, z.Months = float64(p.Latitude), list[:]
	dark := worst(list)
	z.Worst = months[dark]
	if p.Tilt == nil {
		r.Assumptions = append(r.Assumptions, fmt.Sprintf("tilt: %g°, the best for the worst month", z.Tilt))
	}
	if p.ClearSky {
		r.Warnings = append(r.Warnings, "clouds are not counted (clear-sky): the panel is the smallest that could ever be enough; PVGIS has what the sky of the place really gives")
	}
	r.Assumptions = append(r.Assumptions, fmt.Sprintf("efficiency of %s: %g %% of what is put in comes out", u.Battery.Chemistry, kind.efficiency), fmt.Sprintf("albedo of the ground: %g", solar.Albedo))
	z.sky(p, dark, list[dark])
	if noon := solar.Noon(z.Latitude, list[dark].Declination); noon < low {
		r.Warnings = append(r.Warnings, fmt.Sprintf("at noon in %s the sun is only %s° high: a hill, a house or a forest can shade the panel, and the calculation includes none", z.Worst, num(noon)))
	}

	regulator := r.assume(p.Regulator, 95, "regulator: ", " % efficient, as those that follow the maximum power point")
	performance := r.assume(p.Performance, 80, "performance: ", " % of the rated watts, for heat, dirt, age")
	recharge := r.assume(p.Recharge, 10, "recharge: an empty battery is full again in ", " days of the worst month")
	n, wires := float64(u.Autonomy), dropOf(u.Cables, "panel")
	in := z.step("energy that the panel is to give in a day", out*(1+n/recharge)/(kind.efficiency/100*regulator/100*(1-wires/100)), "Wh",
		"E_p = E_b · (1 + n / r) / (η_bat · η_reg · (1 − u_panel))",
		fmt.Sprintf("%s Wh · (1 + %s / %s) / (%g %% · %s %% · (1 − %s %%))", num(out), num(n), num(recharge), kind.efficiency, num(regulator), num(wires)), "")
	sun := z.step("hours of full sun in "+z.Worst, list[dark].Tilted/rated, "h", "h = H_T / 1000 W/m²", num(list[dark].Tilted)+" Wh/m² / 1000 W/m²", "")
	z.PanelPeak = z.step("panel", in/(sun*performance/100), "Wp", "P_p = E_p / (h · PR)", fmt.Sprintf("%s Wh / (%s h · %s %%)", num(in), num(sun), num(performance)), "")
}

// sky shows how the light of the worst month comes about.
func (z *Sized) sky(p *Panel, month int, m solar.Month) {
	const book = "Duffie and Beckman, Solar Engineering of Thermal Processes"
	phi, delta := angle(float64(p.Latitude)), angle(m.Declination)
	z.step("declination on the mean day of "+z.Worst+", day "+fmt.Sprint(m.Day), m.Declination, "°", "δ = 23.45° · sin(360° · (284 + n) / 365)",
		fmt.Sprintf("23.45° · sin(360° · (284 + %d) / 365)", m.Day), "Cooper 1969; mean days of Klein 1977")
	z.step("hour angle of the sunset", m.Sunset, "°", "ω = arccos(−tan φ · tan δ)", fmt.Sprintf("arccos(−tan %s · tan %s)", phi, delta), book)
	z.step("length of the day", m.Hours, "h", "N = ω · 2 / 15", num(m.Sunset)+"° · 2 / 15", book)
	z.step("light above the air", m.AboveAir, "Wh/m²", "H_0 = 24/π · G · (1 + 0.033 · cos(360° · n / 365)) · (cos φ · cos δ · sin ω + ω · π/180 · sin φ · sin δ)",
		fmt.Sprintf("24/π · %d · %.4f · (cos %s · cos %s · sin %s° + %s · π/180 · sin %s · sin %s)", solar.Constant,
			1+0.033*math.Cos(2*math.Pi*float64(m.Day)/365), phi, delta, num(m.Sunset), num(m.Sunset), phi, delta), book)
	switch {
	case p.Irradiation != nil:
		z.step("clearness", m.Clearness, "", "K = H / H_0", fmt.Sprintf("%s kWh/m² / %g d / %s Wh/m²", p.Irradiation[month], daysOf[month], num(m.AboveAir)), "Liu and Jordan 1960; H given")
	case p.Clearness != nil:
		z.step("clearness", m.Clearness, "", "K", "given for "+z.Worst, "Liu and Jordan 1960")
	default:
		z.step("clearness", m.Clearness, "", "K = 0.75 + 2 · 10⁻⁵ · z", fmt.Sprintf("0.75 + 2 · 10⁻⁵ · %s m", p.Altitude), "FAO 56 (1998), equation 37, after Ångström: a sky without clouds")
	}
	z.step("light on the ground", m.Horizontal, "Wh/m²", "H = K · H_0", fmt.Sprintf("%.3f · %s Wh/m²", m.Clearness, num(m.AboveAir)), "")
	formula, numbers := "D = 1.391 − 3.560 K + 4.189 K² − 2.137 K³, at most 1 (ω ≤ 81.4°)", "1.391 − 3.560 · %[1]s + 4.189 · %[1]s² − 2.137 · %[1]s³"
	if m.Sunset > solar.Winter {
		formula, numbers = "D = 1.311 − 3.022 K + 3.427 K² − 1.821 K³, at most 1 (ω > 81.4°)", "1.311 − 3.022 · %[1]s + 3.427 · %[1]s² − 1.821 · %[1]s³"
	}
	z.step("diffuse share", m.Diffuse, "", formula, fmt.Sprintf(numbers, num(min(0.8, m.Clearness))), "Erbs, Klein and Duffie 1982, for K from 0.3 to 0.8")
	z.step("beam on the tilted plane, over that on the horizontal", m.BeamRatio, "", "R = (cos ψ · cos δ · sin ω' + ω' · π/180 · sin ψ · sin δ) / (cos φ · cos δ · sin ω + ω · π/180 · sin φ · sin δ), ψ = φ − β, ω' = min(ω, arccos(−tan ψ · tan δ))",
		beam(m, float64(p.Latitude), z.Tilt), "Liu and Jordan 1962, Klein 1977")
	z.step("light on the panel", m.Tilted, "Wh/m²", "H_T = H · ((1 − D) · R + D · (1 + cos β) / 2 + ρ · (1 − cos β) / 2)",
		fmt.Sprintf("%s Wh/m² · ((1 − %.3f) · %.3f + %.3f · (1 + cos %g°) / 2 + %g · (1 − cos %g°) / 2)", num(m.Horizontal), m.Diffuse, m.BeamRatio, m.Diffuse, z.Tilt, solar.Albedo, z.Tilt), "Liu and Jordan 1962")
}

// angle writes degrees, those below 0 in brackets.
func angle(v float64) string {
	if v < 0 {
		return "(" + num(v) + "°)"
	}
	return num(v) + "°"
}

// beam puts numbers into the ratio of the beam. South of the equator the signs of latitude and declination
// are turned round.
func beam(m solar.Month, latitude, tilt float64) string {
	south := ""
	declination := m.Declination
	if latitude < 0 {
		latitude, declination, south = -latitude, -declination, "; south of the equator the signs of φ and δ are turned round"
	}
	phi, delta, psi := angle(latitude), angle(declination), angle(latitude-tilt)
	set := min(m.Sunset, solar.SunsetAngle(latitude-tilt, declination))
	return fmt.Sprintf("(cos %[1]s · cos %[2]s · sin %[3]s° + %[3]s · π/180 · sin %[1]s · sin %[2]s) / (cos %[4]s · cos %[2]s · sin %[5]s° + %[5]s · π/180 · sin %[4]s · sin %[2]s)%[6]s",
		psi, delta, num(set), phi, num(m.Sunset), south)
}

func (r *Result) sizeCable(c Cable) {
	z := r.Supply
	drop := r.assume(c.Drop, usualDrop, "drop: "+c.Name+" may lose ", " % of its voltage")
	volts, power, letter := z.Volts, *r.Load, "P_load"
	if c.Carries == "panel" {
		volts, power, letter = panelVolts*math.Max(1, math.Round(z.Volts/12)), z.PanelPeak, "P_p"
	}
	volts = r.assume(c.Voltage, volts, "voltage on "+c.Name+": ", " V")
	current := z.step("current, "+c.Name, power/volts, "A", "I = "+letter+" / U", fmt.Sprintf("%s W / %s V", num(power), num(volts)), "")
	length := float64(c.Length)
	area := z.step("cross-section, "+c.Name, 2*copper*length*current/(volts*drop/100), "mm²", "A = 2 · ρ · l · I / (u · U)",
		fmt.Sprintf("2 · %g Ω·mm²/m · %s m · %s A / (%s %% · %s V)", copper, num(length), num(current), num(drop), num(volts)), "copper at 20 °C; there and back")
	k := SizedCable{Name: c.Name}
	for _, sold := range crossSections {
		if sold >= area {
			k.Area = sold
			k.Drop = 2 * copper * length * current / sold / volts * 100
			break
		}
	}
	if k.Area == 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s needs %s mm², more than any cable of this table: make it shorter, or the voltage higher", c.Name, num(area)))
	}
	z.Cables = append(z.Cables, k)
}
