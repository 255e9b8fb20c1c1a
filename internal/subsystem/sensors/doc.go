// SPDX-License-Identifier: Apache-2.0

// Package sensors reads what the machine measures of itself: optics (the modules' own registers), temperatures, fans, voltages and
// power (hwmon), batteries and mains (power_supply), and how worn flash memory is. It changes nothing.
package sensors

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// State is how a reading is, against its limits.
type State string

// The states.
const (
	Fine    State = "ok"
	Warning State = "warning"
	Alarm   State = "alarm"
)

// Limits are what a reading should stay between; nil ones are not known.
type Limits struct {
	HighAlarm   *float64 `json:"high_alarm,omitempty"`
	LowAlarm    *float64 `json:"low_alarm,omitempty"`
	HighWarning *float64 `json:"high_warning,omitempty"`
	LowWarning  *float64 `json:"low_warning,omitempty"`
}

// judge is the state of a value.
func (l Limits) judge(value float64) State {
	above := func(limit *float64) bool { return limit != nil && value > *limit }
	below := func(limit *float64) bool { return limit != nil && value < *limit }
	switch {
	case above(l.HighAlarm) || below(l.LowAlarm):
		return Alarm
	case above(l.HighWarning) || below(l.LowWarning):
		return Warning
	}
	return Fine
}

// Reading is one value with its limits.
type Reading struct {
	Value float64 `json:"value"`
	State State   `json:"state"`
	Limits
}

func reading(value float64, l Limits) *Reading {
	return &Reading{Value: value, State: l.judge(value), Limits: l}
}

// rounded keeps three figures behind the point: what is measured is no better.
func rounded(value float64) float64 { return math.Round(value*1000) / 1000 }

// word reads a file of one word or line, "" when it is not there or can't be read, as files of a sensor that has no answer.
func word(path ...string) string {
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// number reads a file of one number.
func number(path ...string) (float64, bool) {
	n, err := strconv.ParseFloat(word(path...), 64)
	return n, err == nil
}
