// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/sensors"
)

// Optics is show optics.
var Optics = View[Nothing, show.OpticsView]{
	Text: Text{Path: "optics", Short: "Show pluggable modules: temperature, voltage, laser current, light sent and received",
		Long: `Show the pluggable modules (SFP, QSFP, CMIS) with what they measure: temperature, voltage,
the current of each laser, light sent and received. States are by the limits that the
module itself has; --json has these, too.`},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.OpticsView, err error) {
		v.Optics, err = readOptics(ctx, d.parts.kernel)
		return v, err
	},
	Print: only[Nothing](show.Optics),
}

// Sensors is show sensors.
var Sensors = View[Nothing, show.SensorsView]{
	Text: Text{Path: "sensors", Short: "Show temperatures, fans, voltages, and how worn flash memory is"},
	Read: func(context.Context, *Daemon, Nothing) (show.SensorsView, error) {
		return show.SensorsView{Sensors: sensors.Hwmon("/"), Disks: sensors.Disks("/")}, nil
	},
	Print: only[Nothing](show.Sensors),
}

// Power is show power.
var Power = View[Nothing, show.PowerView]{
	Text: Text{Path: "power", Short: "Show batteries, mains, and the power that the machine draws"},
	Read: func(context.Context, *Daemon, Nothing) (show.PowerView, error) {
		watts := slices.DeleteFunc(sensors.Hwmon("/"), func(s sensors.Sensor) bool { return s.Unit != "W" })
		return show.PowerView{Supplies: sensors.Supplies("/"), Watts: watts}, nil
	},
	Print: only[Nothing](show.Power),
}

// readOptics reads the modules of all ports.
func readOptics(ctx context.Context, k *kernel.Kernel) ([]sensors.Optics, error) {
	list := []sensors.Optics{}
	interfaces, err := k.Interfaces(ctx)
	if err != nil {
		return nil, err
	}
	var modules *sensors.Modules
	for _, i := range interfaces {
		if i.Kind != "" || i.MAC == "" { // no hardware
			continue
		}
		if modules == nil {
			if modules, err = sensors.OpenModules(); err != nil {
				return nil, err
			}
			defer modules.Close()
		}
		o, ok, err := modules.Optics(ctx, i.Name, i.Index)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, o)
		}
	}
	return list, nil
}

// opticsEvery bounds how often the modules are asked without anybody looking: an answer takes their bus, and a lock of
// the kernel's, for some hundredths of a second.
const opticsEvery = time.Minute

// gauges watch what can be measured.
type gauges struct {
	kernel  *kernel.Kernel
	machine bool // the machine is ours: else its host watches it

	mu     sync.Mutex
	asked  time.Time // the modules
	optics map[string]string
}

// trouble says what is not within its limits.
func (g *gauges) trouble(ctx context.Context) map[string]string {
	found := map[string]string{}
	if g.machine {
		found = machineTrouble("/")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.asked) >= opticsEvery {
		g.asked = time.Now()
		list, err := readOptics(ctx, g.kernel)
		if err == nil {
			g.optics = opticsTrouble(list)
		}
	}
	for key, text := range g.optics {
		found[key] = text
	}
	return found
}

func opticsTrouble(list []sensors.Optics) map[string]string {
	found := map[string]string{}
	for _, o := range list {
		var wrong []string
		for i := range o.Lanes {
			for _, text := range o.Wrong(i) {
				if len(o.Lanes) > 1 {
					text = fmt.Sprintf("lane %d: %s", i+1, text)
				}
				wrong = append(wrong, text)
			}
		}
		if len(wrong) > 0 {
			found["optics "+o.Interface] = strings.Join(wrong, "; ") + ": clean the connectors, measure the fibre, replace the module"
		}
	}
	return found
}

// leastCharge is when a battery that is not being charged is told of, percent.
const leastCharge = 20

// machineTrouble says what chips, batteries and flash memory below a root directory tell.
func machineTrouble(root string) map[string]string {
	found := map[string]string{}
	for _, s := range sensors.Hwmon(root) {
		kind := map[string]string{"°C": "temperature", "RPM": "fan"}[s.Unit]
		if s.State == sensors.Fine {
			continue
		}
		if kind == "" {
			kind = "power"
		}
		found[kind+" "+s.Chip+" "+s.Name] = fmt.Sprintf("%v %s: outside of the limits that the chip has", s.Value, s.Unit)
	}
	for _, s := range sensors.Supplies(root) {
		if s.Status == "Discharging" && s.Charge != nil && *s.Charge < leastCharge {
			text := fmt.Sprintf("%v %% left", *s.Charge)
			if s.Hours != nil {
				text += fmt.Sprintf(", %.1f hours at the power of now", *s.Hours)
			}
			found["power "+s.Name] = text
		}
	}
	for _, d := range sensors.Disks(root) {
		if d.State != sensors.Fine {
			found["disk "+d.Name] = fmt.Sprintf("%d %% of its life is used: make a backup, and replace it", d.Used)
		}
	}
	return found
}
