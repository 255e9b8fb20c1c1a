// SPDX-License-Identifier: Apache-2.0

package choice

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"minne/internal/base/machine"
	"minne/internal/subsystem/fastpath/fib"
)

// Key is what a measurement depends on.
type Key struct {
	CPU          string   `json:"cpu"`
	Architecture string   `json:"architecture"`
	Caches       []string `json:"caches"`
	Kernel       string   `json:"kernel"` // its release
	Minne        string   `json:"minne"`  // version
}

// Here is the key of this machine for a version of Minne, and its memory in bytes, 0 when it does not tell.
func Here(version string) (Key, uint64) {
	m := machine.Read()
	release, _, _ := strings.Cut(m.Kernel, " ")
	return Key{CPU: m.CPU, Architecture: m.Architecture, Caches: m.Caches, Kernel: release, Minne: version}, m.MemoryBytes
}

// sameMachine tells whether two keys are about the same hardware.
func (k Key) sameMachine(o Key) bool {
	return k.CPU == o.CPU && k.Architecture == o.Architecture && slices.Equal(k.Caches, o.Caches)
}

func (k Key) equal(o Key) bool { return k.sameMachine(o) && k.Kernel == o.Kernel && k.Minne == o.Minne }

// Interval is a median with its 95 % confidence interval.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Figure is what was measured of one structure.
type Figure struct {
	Structure string   `json:"structure"`
	Ns        float64  `json:"ns"`          // of a lookup that waits for the one before; median over rounds
	ToDefault Interval `json:"to-default"`  // its time by the default's of the same round
	Image     int      `json:"image-bytes"` // reserved
}

// Choice is a measurement and what follows from it.
type Choice struct {
	Schema    int       `json:"schema"`
	Measured  time.Time `json:"measured"`
	Key       Key       `json:"key"`
	Structure string    `json:"structure"`
	Routes    int       `json:"routes"`
	Figures   []Figure  `json:"figures"` // the default first
	Seconds   float64   `json:"seconds"` // that it took
}

// Schema is the version of the file's form.
const Schema = 1

// Candidates are the structures that a machine with so much memory may use, the default first.
func Candidates(memory uint64) []fib.Structure {
	return slices.DeleteFunc(slices.Clone(fib.Structures), func(s fib.Structure) bool {
		return s != fib.Default && memory > 0 && uint64(fib.Layout4(s, fib.Full).ImageBytes()) > memory/memoryShare
	})
}

// memoryShare is which part of the memory an image may take.
const memoryShare = 32

// Words say what was measured, for an operator.
func (c Choice) Words() string {
	figures := slices.Clone(c.Figures)
	slices.SortStableFunc(figures, func(a, b Figure) int {
		switch c.Structure { // the winner first
		case a.Structure:
			return -1
		case b.Structure:
			return 1
		}
		return 0
	})
	var all []string
	for _, f := range figures {
		all = append(all, fmt.Sprintf("%s %.0f ns", f.Structure, f.Ns))
	}
	return fmt.Sprintf("measured %s on this machine: %s", c.Measured.Format(time.DateOnly), strings.Join(all, ", "))
}
