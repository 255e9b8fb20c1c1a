// SPDX-License-Identifier: Apache-2.0

package sensors

import (
	"os"
	"path/filepath"
	"testing"
)

// tree writes files below a directory of the test.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestHwmon(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/class/hwmon/hwmon0/name": "coretemp", "sys/class/hwmon/hwmon0/temp1_input": "84500", "sys/class/hwmon/hwmon0/temp1_label": "Package id 0",
		"sys/class/hwmon/hwmon0/temp1_max": "80000", "sys/class/hwmon/hwmon0/temp1_crit": "100000", "sys/class/hwmon/hwmon0/temp2_input": "no answer",
		"sys/class/hwmon/hwmon1/name": "ina226", "sys/class/hwmon/hwmon1/power1_input": "18750000", "sys/class/hwmon/hwmon1/in1_input": "11400", "sys/class/hwmon/hwmon1/in1_min": "11500",
		"sys/class/hwmon/hwmon1/fan1_input": "1200", "sys/class/hwmon/hwmon1/fan1_min": "0",
	})
	list := Hwmon(root)
	if len(list) != 4 {
		t.Fatalf("%+v", list)
	}
	if s := list[0]; s.Chip != "coretemp" || s.Name != "Package id 0" || s.Unit != "°C" || s.Value != 84.5 || s.State != Warning || *s.HighAlarm != 100 {
		t.Errorf("%+v", s)
	}
	if s := list[1]; s.Name != "fan1" || s.Value != 1200 || s.State != Fine || s.LowAlarm != nil {
		t.Errorf("%+v", s)
	}
	if s := list[2]; s.Unit != "V" || s.Value != 11.4 || s.State != Alarm {
		t.Errorf("%+v", s)
	}
	if s := list[3]; s.Unit != "W" || s.Value != 18.75 {
		t.Errorf("%+v", s)
	}
	if list := Hwmon(t.TempDir()); list == nil || len(list) != 0 {
		t.Errorf("a machine without sensors: %v", list)
	}
}

func TestSupplies(t *testing.T) {
	list := Supplies(tree(t, map[string]string{
		"sys/class/power_supply/AC/type": "Mains", "sys/class/power_supply/AC/online": "0",
		"sys/class/power_supply/BAT0/type": "Battery", "sys/class/power_supply/BAT0/status": "Discharging", "sys/class/power_supply/BAT0/capacity": "62",
		"sys/class/power_supply/BAT0/voltage_now": "12400000", "sys/class/power_supply/BAT0/current_now": "-1500000", "sys/class/power_supply/BAT0/charge_now": "60000000",
	}))
	if len(list) != 2 || list[0].Name != "AC" || list[0].Online == nil || *list[0].Online {
		t.Fatalf("%+v", list)
	}
	if b := list[1]; b.Online != nil || *b.Charge != 62 || *b.Voltage != 12.4 || *b.Current != 1.5 || *b.Power != 18.6 || *b.Hours != 40 {
		t.Errorf("%+v", b)
	}
}

func TestDisks(t *testing.T) {
	list := Disks(tree(t, map[string]string{
		"sys/block/mmcblk0/device/life_time": "0x03 0x0a", "sys/block/mmcblk0/device/pre_eol_info": "0x01",
		"sys/block/mmcblk1/device/life_time": "0x02 0x01", "sys/block/mmcblk1/device/pre_eol_info": "0x03",
		"sys/block/mmcblk2/device/life_time": "0x00 0x00",
	}))
	if len(list) != 2 || list[0] != (Disk{"mmcblk0", 100, Warning}) || list[1] != (Disk{"mmcblk1", 20, Alarm}) {
		t.Errorf("%+v", list)
	}
}
