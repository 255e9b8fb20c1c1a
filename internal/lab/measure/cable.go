// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"

	"minne/internal/lab/device"
	"minne/internal/lab/histogram"
	"minne/internal/lab/openloop"
	"minne/internal/lab/pattern"
	"minne/internal/lab/session"
	"minne/internal/lab/trial"
)

// cable is the tester without a device: what it measures is the tester's own
// share of every latency. It is built when it is first needed.
type cable struct {
	plan    Plan
	session *session.Session
	rig     *openloop.Rig
	delays  histogram.Histogram // of the traffic that was asked for last
}

// tester returns the tester alone with this traffic, or nil where it can't be
// had: between network cards someone would have to plug a cable.
func (c *cable) tester(ctx context.Context, traffic pattern.Pattern) (trial.Tester, error) {
	if c.plan.Cards != nil {
		return nil, nil
	}
	if c.rig == nil {
		rig, err := c.plan.rig(ctx, device.Spec{Kind: device.None}, traffic)
		if err != nil {
			return nil, err
		}
		c.rig = rig
	}
	if err := c.rig.Load(traffic); err != nil {
		return nil, err
	}
	c.rig.Timed(true)
	c.delays.Reset()
	record := func(r trial.Result) {
		c.delays.Add(&r.Latency)
		c.session.Record(r)
	}
	return trial.NewEngine(c.rig, trial.Options{Record: record, Traffic: traffic.String(), Device: "cable"}), nil
}

func (c *cable) close() {
	if c.rig != nil {
		c.rig.Close() //nolint:errcheck // what is left is removed by the next lab
	}
}
