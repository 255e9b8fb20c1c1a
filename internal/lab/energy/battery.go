// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
)

// battery is a fuel gauge. It tells the whole machine's power, but only while the
// machine lives on the battery alone.
type battery struct {
	root fs.FS
	dir  string
}

func findBattery(root fs.FS) (found []Source, refused []string) {
	dirs, _ := fs.Glob(root, "sys/class/power_supply/*")
	slices.Sort(dirs)
	for _, dir := range dirs {
		// A scope of "Device" is the battery of a mouse.
		if readText(root, dir+"/type") != "Battery" || readText(root, dir+"/scope") == "Device" {
			continue
		}
		b := &battery{root, dir}
		if _, err := b.Read(context.Background()); err != nil {
			refused = append(refused, err.Error())
			continue
		}
		found = append(found, b)
	}
	return found, refused
}

func (b *battery) Name() string  { return "battery " + path.Base(b.dir) }
func (b *battery) Scope() string { return "the whole machine, while it runs on this battery" }

func (b *battery) Read(context.Context) (Reading, error) {
	if status := readText(b.root, b.dir+"/status"); status != "Discharging" {
		return Reading{}, fmt.Errorf("%s is %q and shows the machine's power only while discharging: unplug the charger", b.Name(), strings.ToLower(status))
	}
	// Some drivers give what flows out a negative sign.
	microwatts, err := readNumber(b.root, b.dir+"/power_now")
	if err == nil {
		return Reading{Watts: math.Abs(microwatts) / 1e6}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Reading{}, fmt.Errorf("%s: %w", b.Name(), err)
	}
	microamperes, err := readNumber(b.root, b.dir+"/current_now")
	if err != nil {
		return Reading{}, fmt.Errorf("%s: %w", b.Name(), err)
	}
	microvolts, err := readNumber(b.root, b.dir+"/voltage_now")
	if err != nil {
		return Reading{}, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return Reading{Watts: math.Abs(microamperes) * microvolts / 1e12}, nil
}
