// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Reading is what a source tells at one moment: either the energy used since
// some time in the past, or the power now.
type Reading struct {
	Cumulative bool
	Joules     float64 // since the source was opened, when cumulative
	Watts      float64 // otherwise
}

// Source tells power or energy. It is used by one goroutine.
type Source interface {
	Name() string  // "RAPL package-0 + package-1"
	Scope() string // what its figures contain, in words
	Read(ctx context.Context) (Reading, error)
}

// none stands where there is no source, and knows why.
type none struct{ why string }

func (n none) Name() string  { return "none" }
func (n none) Scope() string { return "nothing" }
func (n none) Read(context.Context) (Reading, error) {
	return Reading{}, errors.New(n.Missing())
}

// Missing says why there is no figure.
func (n none) Missing() string { return "not measurable on this machine: " + n.why }

// readNumber reads a sysfs file that holds one number.
func readNumber(root fs.FS, name string) (float64, error) {
	text, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrPermission) {
		return 0, fmt.Errorf("/%s may only be read by root: run as root", name)
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return 0, fmt.Errorf("/%s holds %.20q, expected a number", name, text)
	}
	return n, nil
}

// readText reads a small text file; a missing one is empty.
func readText(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
