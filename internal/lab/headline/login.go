// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"

	"minne/internal/lab/bench/loginbench"
	"minne/internal/lab/closedloop"
	"minne/internal/lab/statistics"
)

// logins are the figures of networks whose hosts have to log in.
var logins = []definition{
	{"login.kept", "packets per second of the fast path, 65,536 masqueraded flows of a host that has logged in, both ways", "×", "the same network without a login", admitted},
	{"login.rate", "logins per second with vouchers, page and form over TCP, 64 people at a time, the daemon on one processor", "/s", "the round before", entering},
}

// peopleARound is how many log in for each value.
const peopleARound = 300

// entering is the rate of rounds; against itself, each round less the one before.
func entering(ctx context.Context, bench *Bench) (Measured, error) {
	bench.release()
	rounds := max(2, min(bench.Rounds, 60))
	bench.Progress("building a router with a login, and people with vouchers")
	b, err := loginbench.New(ctx, bench.Means.Binary, (rounds+1)*peopleARound)
	if err != nil {
		return Measured{}, err
	}
	bench.teardowns = append(bench.teardowns, b.Close)
	var rates, same []float64
	for i := range rounds + 1 {
		took, err := b.Enter(ctx, peopleARound)
		if err != nil {
			return Measured{}, err
		}
		if i == 0 {
			continue // caches are cold
		}
		if rates = append(rates, peopleARound/took.Seconds()); i > 1 {
			same = append(same, rates[i-1]-rates[i-2])
		}
	}
	return measured(statistics.Interval(rates), statistics.Interval(same)), nil
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
