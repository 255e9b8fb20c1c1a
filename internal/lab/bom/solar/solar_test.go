// SPDX-License-Identifier: Apache-2.0

package solar

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within || math.IsNaN(got) {
		t.Errorf("%s: %.4f, expected %.4f ± %g", what, got, want, within)
	}
}

// The declinations of the mean days, as Duffie and Beckman print them (table 1.6.1).
func TestDeclinationTable(t *testing.T) {
	for month, want := range [12]float64{-20.9, -13.0, -2.4, 9.4, 18.8, 23.1, 21.2, 13.5, 2.2, -9.6, -18.9, -23.0} {
		near(t, "declination", Declination(MeanDays[month]), want, 0.06)
	}
	near(t, "13 February (example 1.6.1)", Declination(44), -14, 0.1)
}

// Duffie and Beckman, example 1.10.1: latitude 43° on 15 April, sunset at 98.9°, 33.8 MJ/m² above the air.
func TestMadisonInApril(t *testing.T) {
	near(t, "sunset", SunsetAngle(43, Declination(105)), 98.9, 0.1)
	near(t, "above the air, MJ/m²", AboveAir(43, 105)*3600/1e6, 33.8, 0.1)
}

// FAO paper 56, examples 8 and 9: 20° south on 3 September, 32.2 MJ/m² above the air, a day of 11.7 hours. FAO takes
// another formula for the declination.
func TestFAOExample(t *testing.T) {
	near(t, "above the air, MJ/m²", AboveAir(-20, 246)*3600/1e6, 32.2, 0.2)
	near(t, "day, h", DayLength(-20, 246), 11.7, 0.05)
}

func TestDayLengths(t *testing.T) {
	near(t, "equator", DayLength(0, 172), 12, 1e-9)
	near(t, "equinox anywhere", DayLength(60, 81), 12, 0.01)
	near(t, "59.4° at midsummer", DayLength(59.4, 172), 18.3, 0.2) // almanacs: 18.6, with refraction and the sun's upper edge
	near(t, "59.4° at midwinter", DayLength(59.4, 355), 5.7, 0.2)  // almanacs: 6.1
	near(t, "polar night", DayLength(70, 355), 0, 0)
	near(t, "polar day", DayLength(70, 172), 24, 0)
	near(t, "the pole", DayLength(90, 172), 24, 0)
	near(t, "the pole's night has no light", AboveAir(90, 355), 0, 0)
	near(t, "noon at 59.4° at midwinter", Noon(59.4, -23.45), 7.15, 1e-9)
	near(t, "noon at the zenith", Noon(-10, -10), 90, 0)
	near(t, "mirrored", DayLength(-33, 15)+DayLength(33, 15), 24, 1e-9)
}

// The ratio for the beam against the plain way: the cosine of the angle between the sun and each plane, summed
// over the day by vectors.
func TestBeamRatioBySumming(t *testing.T) {
	for _, latitude := range []float64{-65, -33, -2.15, 2, 23, 43, 59.4, 66} {
		for _, tilt := range []float64{0, 15, 43, 60, 75, 90} {
			for _, day := range MeanDays {
				d := Declination(day)
				if SunsetAngle(latitude, d) == 0 {
					continue
				}
				near(t, "beam ratio", BeamRatio(latitude, tilt, d), summedRatio(latitude, tilt, d), 0.02+0.01*BeamRatio(latitude, tilt, d))
			}
		}
	}
	near(t, "no sun", BeamRatio(80, 60, -23), 0, 0)
}

// summedRatio integrates in steps of a tenth of a degree. The frame: up, east, north.
func summedRatio(latitude, tilt, declination float64) float64 {
	phi, delta, beta := rad(latitude), rad(declination), rad(tilt)
	towards := -1.0 // a panel of the north looks south
	if latitude < 0 {
		towards = 1
	}
	var plane, flat float64
	for w := -179.95; w < 180; w += 0.1 {
		up := math.Sin(phi)*math.Sin(delta) + math.Cos(phi)*math.Cos(delta)*math.Cos(rad(w))
		north := math.Cos(phi)*math.Sin(delta) - math.Sin(phi)*math.Cos(delta)*math.Cos(rad(w))
		if up <= 0 {
			continue
		}
		flat += up
		plane += max(0, up*math.Cos(beta)+towards*north*math.Sin(beta))
	}
	return plane / flat
}

// By hand, from the polynomials: K = 0.5 gives 0.391 in winter and 0.429 in summer.
func TestDiffuse(t *testing.T) {
	near(t, "winter", Diffuse(0.5, 70), 1.391-1.780+1.04725-0.267125, 1e-9)
	near(t, "summer", Diffuse(0.5, 90), 1.311-1.511+0.85675-0.227625, 1e-9)
	near(t, "a dull month", Diffuse(0.2, 70), 1.391-0.712+0.16756-0.017096, 1e-9)
	near(t, "all is diffuse at last", Diffuse(0.05, 70)+Diffuse(0, 90), 2, 0)
	near(t, "a clear one too", Diffuse(0.95, 90), Diffuse(0.8, 90), 0)
}

// A horizontal panel gets what falls on the ground, whatever the shares.
func TestHorizontalPanel(t *testing.T) {
	for month := range 12 {
		m := NewMonth(month, 40, 0, 0.5)
		near(t, "flat", m.Tilted, m.Horizontal, 1e-6)
		near(t, "half the light", m.Horizontal*2, m.AboveAir, 1e-9)
	}
	near(t, "clear sky at the sea", ClearSky(0), 0.75, 0)
	near(t, "clear sky at 2,000 m", ClearSky(2000), 0.79, 1e-12)
}
