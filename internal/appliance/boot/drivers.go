// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sensorModules are the drivers of sensors that no device asks for by an alias.
var sensorModules = []string{"coretemp", "k10temp", "drivetemp", "acpi_power_meter", "i2c-dev"}

// sensors loads the drivers of what measures, and of the watchdog.
func sensors(ctx context.Context, _ *Report) error {
	// What the machine does not have is not loaded: modprobe is quiet about it.
	_ = exec.CommandContext(ctx, "modprobe", append([]string{"-a", "-q", "-b"}, sensorModules...)...).Run()
	if err := load(ctx, func(alias string) bool { return !strings.Contains(alias, "c02sc00") }); err != nil {
		return err
	}
	if _, err := os.Stat("/dev/watchdog"); errors.Is(err, fs.ErrNotExist) {
		_ = exec.CommandContext(ctx, "modprobe", "-q", "softdog").Run()
	}
	return nil
}

// drivers loads the drivers of all devices: the network cards, once the filter stands.
func drivers(ctx context.Context, r *Report) error {
	return load(ctx, func(string) bool { return true })
}

// load loads the drivers that the devices ask for by their aliases. Drivers make
// further devices, so it goes on until no new alias turns up.
func load(ctx context.Context, wanted func(alias string) bool) error {
	seen := map[string]bool{}
	for range 5 {
		aliases, err := modaliases("/sys/devices")
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(aliases, func(a string) bool { return seen[a] || !wanted(a) })
		if len(fresh) == 0 {
			return nil
		}
		for _, a := range fresh {
			seen[a] = true
		}
		// An alias without a driver makes modprobe's exit code 1, which says nothing.
		err = exec.CommandContext(ctx, "modprobe", append([]string{"-a", "-q", "-b"}, fresh...)...).Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return fmt.Errorf("load drivers: %w", err)
		}
	}
	return nil
}

// modaliases returns the names that the devices below dir ask for their drivers by.
func modaliases(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // the device has gone
		}
		if d.Name() != "modalias" || d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		if alias := strings.TrimSpace(string(text)); err == nil && alias != "" {
			found = append(found, alias)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func setSysctl(name, value string) error {
	path := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}
