// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"minne/internal/base/atomicfile"
)

// reportFile keeps what happened at this boot.
const reportFile = "/run/minne/boot.json"

// Times since the kernel started are in nanoseconds.

// Report is what happened at a boot.
type Report struct {
	Slot       string        `json:"slot"`             // "a" or "b"
	Trial      bool          `json:"trial"`            // this slot is tried
	Help       bool          `json:"help,omitempty"`   // both slots failed: nothing runs but a login
	Failed     string        `json:"failed,omitempty"` // slot that did not get well in three starts
	Sets       []string      `json:"sets,omitempty"`   // what is laid over the base
	Root       string        `json:"root"`             // "memory" when the medium may be pulled out, else "medium"
	Initramfs  time.Duration `json:"initramfs"`        // when the system was found, checked and mounted
	Steps      []Step        `json:"steps"`            // of "minne boot"
	Daemon     time.Duration `json:"daemon"`           // when the daemon had its configuration in place for the first time
	Forwarding time.Duration `json:"forwarding"`       // when packets were forwarded for the first time
	Warnings   []string      `json:"warnings"`         // what people must know
}

// Step is one step of the boot.
type Step struct {
	Name   string        `json:"name"`
	Began  time.Duration `json:"began"`
	Took   time.Duration `json:"took"`
	Failed string        `json:"failed,omitempty"`
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// initramfs takes over what the initramfs noted in /run.
func (r *Report) initramfs() {
	if text, err := os.ReadFile("/run/minne-uptime"); err == nil {
		seconds, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		r.Initramfs = time.Duration(seconds * float64(time.Second))
	}
	text, err := os.ReadFile("/run/minne-boot")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "slot":
			r.Slot = value
		case "try":
			r.Trial = value == "1"
		case "help":
			r.Help = value == "1"
		case "set":
			r.Sets = append(r.Sets, value)
		case "root":
			r.Root = value
		case "warning":
			r.Warnings = append(r.Warnings, value)
		}
	}
}

func (r *Report) store() error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(reportFile), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(reportFile, append(text, '\n'), 0o644, atomicfile.Fleeting)
}

// ErrNotImage is returned on a machine that did not boot from the router's image.
var ErrNotImage = errors.New("this machine was not booted from Minne's image: there is no boot report")

// ReadReport returns what happened at this boot.
func ReadReport() (Report, error) {
	text, err := os.ReadFile(reportFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, ErrNotImage
	}
	if err != nil {
		return Report{}, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", reportFile, err)
	}
	return r, nil
}
