// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// meterTimeout is how long a meter's command may take to answer.
const meterTimeout = 5 * time.Second

// meter is an external meter: a command whose last printed number is watts.
type meter struct{ command string }

// Meter returns the source that runs a shell command for each reading.
func Meter(command string) (Source, error) {
	if strings.TrimSpace(command) == "" {
		return nil, errors.New("the meter's command is empty: expected a command whose last printed number is watts")
	}
	return &meter{command}, nil
}

func (m *meter) Name() string  { return "meter: " + m.command }
func (m *meter) Scope() string { return "what hangs on the meter" }

func (m *meter) Read(ctx context.Context) (Reading, error) {
	limited, cancel := context.WithTimeout(ctx, meterTimeout)
	defer cancel()
	cmd := exec.CommandContext(limited, "/bin/sh", "-c", m.command)
	// A group of its own: what the shell has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return Reading{}, ctx.Err()
	case limited.Err() != nil:
		return Reading{}, fmt.Errorf("meter %q did not answer within %s", m.command, meterTimeout)
	case err != nil:
		return Reading{}, fmt.Errorf("meter %q: %w: %.200s", m.command, err, strings.TrimSpace(stderr.String()))
	}
	watts, err := lastWatts(stdout.String())
	if err != nil {
		return Reading{}, fmt.Errorf("meter %q: %w", m.command, err)
	}
	return Reading{Watts: watts}, nil
}

// printedNumber is a number with the unit that may stand behind it.
var printedNumber = regexp.MustCompile(`[-+]?[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?[ \t]*[A-Za-z]*`)

// lastWatts returns the last number of a text. It takes no other unit than watts.
func lastWatts(text string) (float64, error) {
	all := printedNumber.FindAllString(text, -1)
	if len(all) == 0 {
		return 0, fmt.Errorf("printed %.60q, expected a number of watts", text)
	}
	last := all[len(all)-1]
	number := strings.TrimRight(last, " \tABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
	switch unit := strings.ToLower(strings.TrimSpace(last[len(number):])); unit {
	case "", "w", "watt", "watts":
	default:
		return 0, fmt.Errorf("the last number printed is %q, expected watts", last)
	}
	return watts(number)
}

func watts(text string) (float64, error) {
	w, err := strconv.ParseFloat(text, 64)
	if err != nil || w < 0 || math.IsInf(w, 0) || math.IsNaN(w) {
		return 0, fmt.Errorf("%q is not a number of watts, expected one such as 18.75", text)
	}
	return w, nil
}

// typed is what somebody read off a meter, for the idle machine and under the greatest load.
type typed struct{ idle, load float64 }

// Typed reads "idle=18.75,load=21.65".
func Typed(text string) (Source, error) {
	var t typed
	have := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		w, err := watts(value)
		switch {
		case !ok || key != "idle" && key != "load":
			return nil, fmt.Errorf("watts %q: expected idle=WATTS,load=WATTS, such as idle=18.75,load=21.65", text)
		case err != nil:
			return nil, fmt.Errorf("watts: %s: %w", key, err)
		case have[key]:
			return nil, fmt.Errorf("watts %q: %s is there twice", text, key)
		}
		have[key] = true
		if key == "idle" {
			t.idle = w
		} else {
			t.load = w
		}
	}
	if !have["idle"] || !have["load"] {
		return nil, fmt.Errorf("watts %q: expected both idle and load, such as idle=18.75,load=21.65", text)
	}
	return t, nil
}

func (t typed) Name() string  { return "meter, read by a person" }
func (t typed) Scope() string { return "what hung on the meter" }

// Read can't know the load; Measure asks at instead.
func (t typed) Read(context.Context) (Reading, error) {
	return Reading{}, errors.New("typed watts hold for the idle and the loaded steps of a measurement, not for now")
}

// at returns the watts at a share of the greatest load; there are none in between.
func (t typed) at(share float64) (float64, bool) {
	switch share {
	case 0:
		return t.idle, true
	case 1:
		return t.load, true
	}
	return 0, false
}
