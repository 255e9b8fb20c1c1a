// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"

	"minne/internal/lab/closedloop"
)

// logins are the figures of networks whose hosts have to log in.
var logins = []definition{
	{"login.kept", "packets per second of the fast path, 65,536 masqueraded flows of a host that has logged in, both ways", "×", "the same network without a login", admitted},
}

func admitted(ctx context.Context, bench *Bench) (Measured, error) {
	bench.release()
	bench.Progress("building two routers that masquerade, one with a login, with 65,536 connections each")
	r, err := closedloop.NewAdmitted(ctx, bench.Means, closedloop.Flows)
	if err != nil {
		return Measured{}, err
	}
	bench.teardowns = append(bench.teardowns, r.Close)
	open, login := r.Sides()
	c, err := closedloop.Compare(ctx, open, login, max(1, bench.Rounds/3)) // all flows go ahead of each trial
	return measured(c.Ratio, c.SameSame), err
}
