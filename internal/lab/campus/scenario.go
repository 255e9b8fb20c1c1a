// SPDX-License-Identifier: Apache-2.0

package campus

import (
	"context"
	"errors"
)

// Step is one part of the scenario.
type Step func(context.Context) error

// Run builds the campus and goes through the whole scenario. extra steps come
// before the failures. The report has what was found, also when Run fails; an
// error means that the scenario could not go on.
func Run(ctx context.Context, o Options, report *Report, extra ...Step) (err error) {
	c, err := Build(ctx, o, report)
	if ctx.Err() != nil && err != nil {
		return errors.New("interrupted")
	} else if err != nil {
		return err
	}
	defer func() {
		report.Step("removing namespaces and processes")
		err = errors.Join(err, c.Close())
	}()
	steps := []Step{
		c.Apply,
		c.AwaitSessions,
		c.AwaitTable,
		c.AwaitFastPath,
		c.Reach,
		func(ctx context.Context) error { return c.Transfer(ctx, 3) },
	}
	steps = append(steps, extra...)
	for _, step := range append(steps, c.FailISP, c.RestartDaemon) {
		if err := step(ctx); ctx.Err() != nil {
			return errors.New("interrupted")
		} else if err != nil {
			return err
		}
	}
	return nil
}
