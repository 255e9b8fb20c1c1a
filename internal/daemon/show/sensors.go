// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"minne/internal/subsystem/sensors"
)

// OpticsView answers show optics.
type OpticsView struct {
	Optics []sensors.Optics `json:"optics"`
}

// SensorsView answers show sensors.
type SensorsView struct {
	Sensors []sensors.Sensor `json:"sensors"`
	Disks   []sensors.Disk   `json:"disks"`
}

// PowerView answers show power.
type PowerView struct {
	Supplies []sensors.Supply `json:"supplies"`
	Watts    []sensors.Sensor `json:"power_sensors"`
}

// Optics prints modules with what they measure.
func Optics(w io.Writer, v OpticsView) error {
	if len(v.Optics) == 0 {
		_, err := fmt.Fprintln(w, "no port has a pluggable module that can be read")
		return err
	}
	t := table{head: []string{"Interface", "Module", ">Lane", ">Temperature", ">Voltage", ">Bias", ">TX", ">RX", "!State"}}
	for _, o := range v.Optics {
		module := strings.TrimSpace(o.Vendor + " " + o.Part)
		if !o.Monitored {
			t.row(o.Interface, module, "-", "-", "-", "-", "-", "-", "does not measure")
			continue
		}
		for i, l := range o.Lanes {
			first := []string{o.Interface, module, strconv.Itoa(i + 1), measured(o.Temperature, "%.1f °C"), measured(o.Voltage, "%.2f V")}
			if i > 0 {
				first = []string{"", "", strconv.Itoa(i + 1), "", ""}
			}
			state := "ok"
			if bad := o.Wrong(i); len(bad) > 0 {
				state = strings.Join(bad, ", ")
			}
			t.row(append(first, measured(l.Bias, "%.1f mA"), measured(l.TX, "%.1f dBm"), measured(l.RX, "%.1f dBm"), state)...)
		}
	}
	return t.write(w)
}

func measured(r *sensors.Reading, format string) string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf(format, r.Value)
}

// Sensors prints what the chips measure, and how worn flash memory is.
func Sensors(w io.Writer, v SensorsView) error {
	if len(v.Sensors)+len(v.Disks) == 0 {
		_, err := fmt.Fprintln(w, "this machine has no sensors that the kernel knows (virtual machines seldom have)")
		return err
	}
	t := table{head: []string{"Chip", "Sensor", ">Value", "!State"}}
	for _, s := range v.Sensors {
		t.row(s.Chip, s.Name, value(s), string(s.State))
	}
	for _, d := range v.Disks {
		t.row(d.Name, "life used", fmt.Sprintf("%d %%", d.Used), string(d.State))
	}
	return t.write(w)
}

func value(s sensors.Sensor) string { return strconv.FormatFloat(s.Value, 'f', -1, 64) + " " + s.Unit }

// Power prints batteries, what feeds the machine, and what it draws.
func Power(w io.Writer, v PowerView) error {
	if len(v.Supplies)+len(v.Watts) == 0 {
		_, err := fmt.Fprintln(w, "this machine has no battery and no power sensor that the kernel knows")
		return err
	}
	t := table{head: []string{"Supply", "Type", "State", ">Charge", ">Voltage", ">Current", ">Power", ">Hours left"}}
	cell := func(n *float64, unit string) string {
		if n == nil {
			return "-"
		}
		return strconv.FormatFloat(*n, 'f', -1, 64) + unit
	}
	for _, s := range v.Supplies {
		state := s.Status
		if s.Online != nil {
			state = map[bool]string{true: "on", false: "off"}[*s.Online]
		}
		t.row(s.Name, s.Type, orDash(state), cell(s.Charge, " %"), cell(s.Voltage, " V"), cell(s.Current, " A"), cell(s.Power, " W"), cell(s.Hours, ""))
	}
	for _, s := range v.Watts {
		t.row(s.Chip+" "+s.Name, "sensor", "-", "-", "-", "-", value(s), "-")
	}
	return t.write(w)
}
