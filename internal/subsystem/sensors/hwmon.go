// SPDX-License-Identifier: Apache-2.0

package sensors

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// Sensor is one reading of a chip.
type Sensor struct {
	Chip string `json:"chip"`
	Name string `json:"name"`
	Unit string `json:"unit"` // °C, RPM, V, A, W
	Reading
}

// kinds are what hwmon measures (Documentation/hwmon/sysfs-interface.rst), by how the files begin.
var kinds = []struct {
	begins, unit string
	scale        float64 // of the file's unit
}{{"temp", "°C", 1e-3}, {"fan", "RPM", 1}, {"in", "V", 1e-3}, {"curr", "A", 1e-3}, {"power", "W", 1e-6}}

// Hwmon reads all chips below a root directory, "/" outside of tests.
func Hwmon(root string) []Sensor {
	list := []Sensor{}
	chips, _ := filepath.Glob(filepath.Join(root, "sys/class/hwmon/hwmon*")) // the pattern is good
	for _, chip := range chips {
		name := cmp.Or(word(chip, "name"), filepath.Base(chip))
		for _, kind := range kinds {
			files, _ := filepath.Glob(filepath.Join(chip, kind.begins+"[0-9]*_input")) // the pattern is good
			for _, file := range files {
				value, ok := number(file)
				if !ok {
					continue
				}
				base := strings.TrimSuffix(file, "_input")
				limit := func(suffix string) *float64 {
					n, ok := number(base + suffix)
					if !ok || n <= 0 { // a limit of 0 is none
						return nil
					}
					n = rounded(n * kind.scale)
					return &n
				}
				l := Limits{HighAlarm: limit("_crit"), HighWarning: limit("_max")}
				if kind.begins == "fan" || kind.begins == "in" {
					l = Limits{LowAlarm: limit("_min")}
				}
				list = append(list, Sensor{Chip: name, Name: cmp.Or(word(base+"_label"), filepath.Base(base)), Unit: kind.unit, Reading: *reading(rounded(value*kind.scale), l)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Sensor) int { return strings.Compare(a.Chip, b.Chip) })
	return list
}

// Supply is a battery, or what feeds the machine.
type Supply struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`             // Battery, Mains, USB
	Online  *bool    `json:"online,omitempty"` // of mains
	Status  string   `json:"status,omitempty"` // Charging, Discharging, Full
	Charge  *float64 `json:"charge_percent,omitempty"`
	Voltage *float64 `json:"volts,omitempty"`
	Current *float64 `json:"amperes,omitempty"`
	Power   *float64 `json:"watts,omitempty"`
	Hours   *float64 `json:"hours_left,omitempty"` // at the power of now, while it discharges
}

// Supplies reads what the kernel knows of power supplies (Documentation/ABI/testing/sysfs-class-power).
func Supplies(root string) []Supply {
	list := []Supply{}
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/class/power_supply/*")) // the pattern is good
	for _, dir := range dirs {
		micro := func(file string) *float64 {
			n, ok := number(dir, file)
			if !ok {
				return nil
			}
			n = rounded(max(n, -n) / 1e6) // some drivers count what leaves as negative
			return &n
		}
		s := Supply{Name: filepath.Base(dir), Type: word(dir, "type"), Status: word(dir, "status"), Voltage: micro("voltage_now"), Current: micro("current_now"), Power: micro("power_now")}
		if n, ok := number(dir, "capacity"); ok {
			s.Charge = &n
		}
		if n, ok := number(dir, "online"); ok && s.Type != "Battery" {
			on := n > 0
			s.Online = &on
		}
		if s.Power == nil && s.Voltage != nil && s.Current != nil {
			watts := rounded(*s.Voltage * *s.Current)
			s.Power = &watts
		}
		energy, draw := micro("energy_now"), s.Power
		if energy == nil {
			energy, draw = micro("charge_now"), s.Current
		}
		if s.Status == "Discharging" && energy != nil && draw != nil && *draw > 0 {
			hours := rounded(*energy / *draw)
			s.Hours = &hours
		}
		list = append(list, s)
	}
	return list
}

// Disk is flash memory that says how worn it is.
type Disk struct {
	Name  string `json:"name"`
	Used  int    `json:"life_used_percent"` // upper end of the step of 10 that it tells; 110: more than it was made for
	State State  `json:"state"`
}

// Disks reads the wear of eMMC (JESD84-B51: DEVICE_LIFE_TIME_EST_TYP_A and _B, PRE_EOL_INFO).
func Disks(root string) []Disk {
	list := []Disk{}
	files, _ := filepath.Glob(filepath.Join(root, "sys/block/mmcblk*/device/life_time")) // the pattern is good
	for _, file := range files {
		worst := 0
		for _, step := range strings.Fields(word(file)) {
			worst = max(worst, hex(step))
		}
		if worst == 0 {
			continue // it does not say
		}
		d := Disk{Name: filepath.Base(filepath.Dir(filepath.Dir(file))), Used: 10 * worst, State: Fine}
		switch left := hex(word(filepath.Dir(file), "pre_eol_info")); {
		case left >= 3 || worst > 10:
			d.State = Alarm
		case left == 2 || worst > 8:
			d.State = Warning
		}
		list = append(list, d)
	}
	return list
}

// hex reads "0x0b"; 0 for what is none.
func hex(text string) (n int) {
	for _, c := range strings.TrimPrefix(text, "0x") {
		at := strings.IndexRune("0123456789abcdef", c)
		if at < 0 || n > 0xff {
			return 0
		}
		n = n<<4 | at
	}
	return n
}
