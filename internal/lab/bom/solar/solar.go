// SPDX-License-Identifier: Apache-2.0

// Package solar says how much sun falls on a panel: day by day above the air from the geometry of the
// Earth's way, and from that, with a clearness of the air, on a plane that is tilted towards the equator.
//
// The formulae are those of Duffie and Beckman, Solar Engineering of Thermal Processes, chapters 1 and 2:
// declination by Cooper (1969), the mean day of each month by Klein (1977), the share of diffuse
// light by Erbs, Klein and Duffie (1982), the tilted plane by Liu and Jordan (1962), for the hemisphere of the
// place as Klein (1977) gives it. A clear sky is what FAO Irrigation and Drainage Paper 56 (1998, equation 37) makes of
// Ångström's formula. Angles are in degrees, north positive; energy in Wh/m² and day.
package solar

import "math"

const (
	// Constant is the sun's power above the air at the mean distance, W/m².
	Constant = 1367
	// Albedo is the share of light that the ground throws back, where nobody knows better.
	Albedo = 0.2
	// Winter is the sunset angle up to which Erbs, Klein and Duffie call it winter.
	Winter = 81.4
)

// MeanDays are the days of the year, from 1, on which the sun above the air is nearest to its month's mean
// (Klein 1977).
var MeanDays = [12]int{17, 47, 75, 105, 135, 162, 198, 228, 258, 288, 318, 344}

func rad(degrees float64) float64 { return degrees * math.Pi / 180 }
func deg(radians float64) float64 { return radians * 180 / math.Pi }

// Declination is the angle of the sun over the equator at noon (Cooper 1969).
func Declination(day int) float64 {
	return 23.45 * math.Sin(rad(360*float64(284+day)/365))
}

// SunsetAngle is the hour angle of the sunset: 0 where the sun doesn't rise, 180 where it doesn't set.
func SunsetAngle(latitude, declination float64) float64 {
	return angleOf(-math.Tan(rad(latitude)) * math.Tan(rad(declination)))
}

// angleOf is the arc cosine, held to what an hour angle can be.
func angleOf(cosine float64) float64 { return deg(math.Acos(min(1, max(-1, cosine)))) }

// DayLength is the time from sunrise to sunset in hours, of the sun's middle and without refraction.
func DayLength(latitude float64, day int) float64 {
	return SunsetAngle(latitude, Declination(day)) * 2 / 15
}

// AboveAir is the day's energy on a horizontal plane above the air.
func AboveAir(latitude float64, day int) float64 {
	d := Declination(day)
	w := SunsetAngle(latitude, d)
	distance := 1 + 0.033*math.Cos(rad(360*float64(day)/365))
	return max(0, 24/math.Pi*Constant*distance*
		(math.Cos(rad(latitude))*math.Cos(rad(d))*math.Sin(rad(w))+rad(w)*math.Sin(rad(latitude))*math.Sin(rad(d))))
}

// ClearSky is the share of the light above the air that reaches the ground without clouds, at an altitude in metres.
func ClearSky(altitude float64) float64 { return 0.75 + 2e-5*altitude }

// Diffuse is the share of a month's light that comes from the whole sky, by its clearness, for days whose
// sunset angle is given (Erbs, Klein and Duffie 1982, for 0.3…0.8). Clearer skies have what holds at 0.8; for
// duller ones the curve goes on, up to 1: less beam, which a tilted panel could use, is on the safe side.
func Diffuse(clearness, sunset float64) float64 {
	k := min(0.8, clearness)
	if sunset <= Winter {
		return min(1, 1.391-3.560*k+4.189*k*k-2.137*k*k*k)
	}
	return min(1, 1.311-3.022*k+3.427*k*k-1.821*k*k*k)
}

// Noon is the sun's height over the horizon at noon.
func Noon(latitude, declination float64) float64 { return 90 - math.Abs(latitude-declination) }

// BeamRatio is how much more of the sun's beam falls on a plane tilted towards the equator than on a
// horizontal one, over a day. 0 where the sun doesn't rise.
func BeamRatio(latitude, tilt, declination float64) float64 {
	// Seen from the southern hemisphere all is mirrored.
	if latitude < 0 {
		latitude, declination = -latitude, -declination
	}
	w := SunsetAngle(latitude, declination)
	flat := math.Cos(rad(latitude))*math.Cos(rad(declination))*math.Sin(rad(w)) + rad(w)*math.Sin(rad(latitude))*math.Sin(rad(declination))
	if w == 0 || flat <= 0 {
		return 0
	}
	facing := latitude - tilt // the latitude where the ground lies as the plane does
	wt := min(w, angleOf(-math.Tan(rad(facing))*math.Tan(rad(declination))))
	return (math.Cos(rad(facing))*math.Cos(rad(declination))*math.Sin(rad(wt)) + rad(wt)*math.Sin(rad(facing))*math.Sin(rad(declination))) / flat
}

// Month is the mean day of a month.
type Month struct {
	Day         int     `json:"day"` // of the year
	Declination float64 `json:"declination"`
	Sunset      float64 `json:"sunset-angle"`
	Hours       float64 `json:"day-length"` // h
	AboveAir    float64 `json:"above-air"`  // Wh/m², horizontal
	Clearness   float64 `json:"clearness"`
	Horizontal  float64 `json:"horizontal"` // Wh/m², at the ground
	Diffuse     float64 `json:"diffuse"`    // share of Horizontal
	BeamRatio   float64 `json:"beam-ratio"`
	Tilted      float64 `json:"tilted"` // Wh/m² on the panel
}

// NewMonth computes a month from 0 at a place for a plane that is tilted towards the equator.
func NewMonth(month int, latitude, tilt, clearness float64) Month {
	n := MeanDays[month]
	m := Month{Day: n, Declination: Declination(n), Hours: DayLength(latitude, n), AboveAir: AboveAir(latitude, n), Clearness: clearness}
	m.Sunset = SunsetAngle(latitude, m.Declination)
	m.Horizontal = clearness * m.AboveAir
	m.Diffuse = Diffuse(clearness, m.Sunset)
	m.BeamRatio = BeamRatio(latitude, tilt, m.Declination)
	sky, ground := (1+math.Cos(rad(tilt)))/2, (1-math.Cos(rad(tilt)))/2
	m.Tilted = m.Horizontal * ((1-m.Diffuse)*m.BeamRatio + m.Diffuse*sky + Albedo*ground)
	return m
}
