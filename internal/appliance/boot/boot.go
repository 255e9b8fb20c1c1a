// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"fmt"
	"io"

	"minne/internal/base/boottime"
)

// A step is one thing that happens at boot.
type step struct {
	name string
	run  func(context.Context, *Report) error
}

// Setup makes the first configuration of a router that has none, or says why not.
type Setup func(ctx context.Context, console io.Writer) error

// Run makes the steps of the boot and says on the console what they found.
func Run(ctx context.Context, console io.Writer, setup Setup) error {
	r := &Report{}
	r.initramfs()
	said := 0
	steps := []step{
		{"file systems", fileSystems},
		{"medium", mountMedium},
		{"slots", slots},
		{"password", password},
		{"sensors", sensors},
		{"clock", clock},
		{"filter", filter},
		{"drivers", drivers},
		{"trial", trial},
		{"setup", func(ctx context.Context, r *Report) error { return first(ctx, console, setup) }},
	}
	if r.Help {
		steps = steps[:len(steps)-1] // nobody is asked
	}
	for _, s := range steps {
		began := boottime.Now()
		err := s.run(ctx, r)
		done := Step{Name: s.name, Began: began, Took: boottime.Now() - began}
		if err != nil {
			done.Failed = err.Error()
			fmt.Fprintf(console, "minne: %s: %v\n", s.name, err)
		}
		r.Steps = append(r.Steps, done)
		for _, w := range r.Warnings[said:] {
			fmt.Fprintln(console, "minne:", w)
		}
		said = len(r.Warnings)
	}
	return r.store()
}

// trial makes sure that a system which is tried does not stay when it does not work.
func trial(ctx context.Context, r *Report) error {
	if !r.Trial {
		return nil
	}
	return armTrial(ctx, r)
}
