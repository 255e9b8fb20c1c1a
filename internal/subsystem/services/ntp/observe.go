// SPDX-License-Identifier: Apache-2.0

package ntp

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"minne/internal/subsystem/services/program"
)

// Observed is how chronyd keeps the clock, in the words of `chronyc tracking` and `chronyc sources`.
type Observed struct {
	Synchronised bool     `json:"synchronised"`
	Reference    string   `json:"reference,omitempty"` // the server that the clock follows
	Stratum      int      `json:"stratum"`
	Offset       float64  `json:"offset_seconds"` // of the clock from the servers' time
	Frequency    float64  `json:"frequency_ppm"`  // error of the clock that chronyd makes up for
	Leap         string   `json:"leap"`
	Sources      []Source `json:"sources"`
}

// Source is a server that is asked for the time.
type Source struct {
	Address string  `json:"address"`
	State   string  `json:"state"` // see sourceStates
	Stratum int     `json:"stratum"`
	Poll    int     `json:"poll_seconds"`
	Reach   uint8   `json:"reach"`        // a bit for each of the last eight questions that was answered, the last is 1
	Last    int     `json:"last_seconds"` // since the last answer; -1: there was none
	Offset  float64 `json:"offset_seconds"`
	Error   float64 `json:"error_seconds"` // at most
}

// sourceStates are the signs of chronyc sources.
var sourceStates = map[string]string{
	"*": "selected", "+": "combined", "-": "not combined", "?": "unusable", "x": "false ticker", "~": "too variable",
}

// askLimit bounds how long chronyd may take to answer.
const askLimit = 5 * time.Second

// Observe asks chronyd.
func (s *Daemon) Observe(ctx context.Context, runDir string) (o Observed, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	tracking, err := chronyc(ctx, runDir, "tracking")
	if err != nil {
		return o, err
	}
	sources, err := chronyc(ctx, runDir, "sources")
	if err != nil {
		return o, err
	}
	return read(tracking, sources)
}

// chronyc asks one question over chronyd's socket.
func chronyc(ctx context.Context, runDir, question string) ([][]string, error) {
	at := filepath.Join(program.Dir(runDir, Name), "var", socket)
	out, err := exec.CommandContext(ctx, "chronyc", "-h", at, "-n", "-c", question).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("chronyc %s: %w: %s", question, err, strings.TrimSpace(string(out)))
	}
	r := csv.NewReader(strings.NewReader(string(out)))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("chronyc %s: %w", question, err)
	}
	return rows, nil
}

// read takes what chronyc -c prints: columns as in its man page.
func read(tracking, sources [][]string) (o Observed, err error) {
	f := fields{}
	if len(tracking) != 1 || len(tracking[0]) < 14 {
		return o, fmt.Errorf("chronyc tracking: expected one line with 14 fields, got %q", tracking)
	}
	t := tracking[0]
	o = Observed{Reference: t[1], Stratum: f.number(t[2]), Offset: f.float(t[4]), Frequency: f.float(t[7]), Leap: t[13], Sources: []Source{}}
	o.Synchronised = o.Leap != "Not synchronised"
	for _, s := range sources {
		if len(s) < 10 {
			return o, fmt.Errorf("chronyc sources: expected 10 fields, got %q", s)
		}
		state, ok := sourceStates[s[1]]
		if !ok {
			state = s[1]
		}
		o.Sources = append(o.Sources, Source{Address: s[2], State: state, Stratum: f.number(s[3]), Poll: pollSeconds(f.number(s[4])),
			Reach: f.octal(s[5]), Last: f.since(s[6]), Offset: f.float(s[7]), Error: f.float(s[9])})
	}
	return o, f.failed
}

// pollSeconds turns the logarithm of base 2 into seconds.
func pollSeconds(log int) int {
	if log < 0 {
		return 1
	}
	return 1 << min(log, 30)
}

// fields reads figures and keeps the first that is none.
type fields struct{ failed error }

func (f *fields) keep(err error) {
	if f.failed == nil && err != nil {
		f.failed = fmt.Errorf("answer of chronyc: %w", err)
	}
}

func (f *fields) number(text string) int {
	n, err := strconv.Atoi(text)
	f.keep(err)
	return n
}

// since reads seconds; chronyd has the largest number for never.
func (f *fields) since(text string) int {
	n, err := strconv.ParseUint(text, 10, 32) // an int has 32 bits on some processors
	f.keep(err)
	if n == math.MaxUint32 {
		return -1
	}
	return int(min(n, math.MaxInt32))
}

func (f *fields) float(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	f.keep(err)
	return n
}

func (f *fields) octal(text string) uint8 {
	n, err := strconv.ParseUint(text, 8, 8)
	f.keep(err)
	return uint8(n)
}
