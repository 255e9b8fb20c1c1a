// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
)

// hwmon is one power sensor of the board: a chip that tells power itself (µW), or
// one of TI's INA family that tells current (mA) and bus voltage (mV) per channel.
type hwmon struct {
	root           fs.FS
	name           string
	power          string // file in µW; or both of:
	current, volts string // in mA and mV
}

func findHwmon(root fs.FS) (found []Source, refused []string) {
	dirs, _ := fs.Glob(root, "sys/class/hwmon/hwmon*")
	slices.Sort(dirs)
	for _, dir := range dirs {
		for _, s := range chipSensors(root, dir) {
			if _, err := s.Read(context.Background()); err != nil {
				refused = append(refused, s.name+": "+err.Error())
				continue
			}
			found = append(found, s)
		}
	}
	return found, refused
}

// chipSensors returns the power sensors of one chip.
func chipSensors(root fs.FS, dir string) (all []*hwmon) {
	entries, _ := fs.ReadDir(root, dir)
	has := map[string]bool{}
	for _, e := range entries {
		has[e.Name()] = true
	}
	chip := readText(root, dir+"/name")
	label := func(sensor string) string {
		text := fmt.Sprintf("hwmon %s %s", chip, sensor)
		if l := readText(root, dir+"/"+sensor+"_label"); l != "" {
			text += " " + l
		}
		return text + " (" + path.Base(dir) + ")"
	}
	for n := 1; n <= 16; n++ {
		power, current, volts := fmt.Sprintf("power%d", n), fmt.Sprintf("curr%d", n), fmt.Sprintf("in%d", n)
		s := &hwmon{root: root}
		switch {
		case has[power+"_input"]:
			s.name, s.power = label(power), dir+"/"+power+"_input"
		case has[power+"_average"]:
			s.name, s.power = label(power), dir+"/"+power+"_average"
		case strings.HasPrefix(chip, "ina") && has[current+"_input"] && has[volts+"_input"]:
			s.name, s.current, s.volts = label(volts), dir+"/"+current+"_input", dir+"/"+volts+"_input"
		default:
			continue
		}
		all = append(all, s)
	}
	return all
}

func (h *hwmon) Name() string  { return h.name }
func (h *hwmon) Scope() string { return "what hangs on this sensor: see the board's schematic" }

func (h *hwmon) Read(context.Context) (Reading, error) {
	if h.power != "" {
		microwatts, err := readNumber(h.root, h.power)
		return Reading{Watts: microwatts / 1e6}, err
	}
	milliamperes, err := readNumber(h.root, h.current)
	if err != nil {
		return Reading{}, err
	}
	millivolts, err := readNumber(h.root, h.volts)
	// A shunt that is soldered the other way round counts backwards.
	return Reading{Watts: math.Abs(milliamperes * millivolts / 1e6)}, err
}
