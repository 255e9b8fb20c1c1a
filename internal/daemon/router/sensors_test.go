// SPDX-License-Identifier: Apache-2.0

package router

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/subsystem/sensors"
)

// What is outside of its limits is told, and nothing else; each by a key of its own.
func TestSensorsTrouble(t *testing.T) {
	low, fine, hot := &sensors.Reading{Value: -26, State: sensors.Alarm}, &sensors.Reading{Value: 1, State: sensors.Fine}, &sensors.Reading{Value: 81, State: sensors.Warning}
	lane := func(rx *sensors.Reading) sensors.Lane { return sensors.Lane{Bias: fine, TX: fine, RX: rx} }
	found := opticsTrouble([]sensors.Optics{{Interface: "isp", Lanes: []sensors.Lane{lane(fine), lane(low)}, Temperature: hot}, {Interface: "core", Lanes: []sensors.Lane{lane(fine)}}, {Interface: "cable"}})
	if text := found["optics isp"]; len(found) != 1 || !strings.HasPrefix(text, "lane 1: warning: temperature 81 °C; lane 2: alarm: RX -26 dBm:") {
		t.Errorf("%q", found)
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"class/hwmon/hwmon0/name": "cpu", "class/hwmon/hwmon0/temp1_input": "105000", "class/hwmon/hwmon0/temp1_crit": "100000", "class/hwmon/hwmon0/temp2_input": "20000",
		"class/power_supply/BAT0/type": "Battery", "class/power_supply/BAT0/status": "Discharging", "class/power_supply/BAT0/capacity": "12",
		"block/mmcblk0/device/life_time": "0x0b 0x01",
	} {
		path := filepath.Join(root, "sys", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found = machineTrouble(root)
	for key, want := range map[string]string{"temperature cpu temp1": "105 °C", "power BAT0": "12 % left", "disk mmcblk0": "110 % of its life"} {
		if !strings.HasPrefix(found[key], want) {
			t.Errorf("%s: %q, want %q", key, found[key], want)
		}
	}
	if len(found) != 3 {
		t.Errorf("%q", found)
	}
}
