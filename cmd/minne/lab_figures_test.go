// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// Wrong command lines end before anything is built or measured, and say what was expected.
func TestLabFlags(t *testing.T) {
	for _, c := range []struct {
		line, expected string
		code           int
	}{
		{"lab energy --watts idle=3", "expected both idle and load", exitUsage},
		{"lab energy --watts idle=x,load=3", "not a number of watts", exitUsage},
		{"lab energy --meter=echo --source rapl", "exclude each other", exitUsage},
		{"lab energy --idle -3s", "expected a positive time", exitUsage},
		{"lab energy --source no-such-sensor", "no-such-sensor", exitFailed},
		{"lab matrix --path sideways", "expected routed, bridged or both", exitUsage},
		{"lab matrix --path bridged --device minne", "measures a bridge", exitUsage},
		{"lab matrix --device bridge", "does not route", exitUsage},
		{"lab matrix --device cisco", "expected one of", exitUsage},
		{"lab matrix --seconds 0", "expected 1 to 3600", exitUsage},
		{"lab matrix --server --client x", "exclude each other", exitUsage},
		{"lab matrix --client x --path both", "not for --server and --client", exitUsage},
	} {
		var out, errOut bytes.Buffer
		args := strings.Fields(c.line)
		if args[1] == "matrix" {
			args = append(args, "--out", "none")
		}
		code := run(t.Context(), args, &out, &errOut)
		if code != c.code || !strings.Contains(errOut.String(), c.expected) {
			t.Errorf("minne %s: code %d, %q; expected code %d and %q", c.line, code, errOut.String(), c.code, c.expected)
		}
	}
}

// A meter's watts are those of the table, of the idle step, and of nothing else.
func TestLabEnergyMeter(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"lab", "energy", "--meter", "echo 18.75 W", "--idle", "50ms", "--json"}, &out, &errOut); code != exitOK {
		t.Fatalf("code %d: %s", code, errOut.String())
	}
	var got powerReport
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Sources) == 0 || math.Abs(got.Sources[0].Watts-18.75) > 0.01 || got.Missing != "" {
		t.Errorf("sources %+v", got)
	}
	if got.Idle == nil || got.Idle.Source != "meter: echo 18.75 W" || len(got.Idle.Steps) != 1 || got.Idle.Steps[0].Watts < 18.74 || got.Idle.Steps[0].Watts > 18.76 {
		t.Errorf("idle %+v", got.Idle)
	}
}
