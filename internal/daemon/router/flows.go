// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"minne/internal/model/api"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/flows"
)

// Flows is show flows.
var Flows = View[flows.Query, flows.Answer]{
	Text: Text{Path: "flows", Args: "[FILTER…]", Short: "Show connections, hosts or zones by traffic",
		Long: `Show the connections that go through the router and to it, those of the kernel and those
that the fast path forwards in one table: packets and bytes are the sums of both. Without
a filter, the twenty that have transferred most.

The filter is words that must all match:
src PREFIX, dst PREFIX (who opened the connection, who answers; on either side of a
translation), host PREFIX (either), port N, proto tcp|udp|icmp|N, vrf NAME, zone NAME, state WORD
(established, time-wait, … of TCP; unreplied, replied, assured of others), fast-path, kernel,
label LABEL (of the section labels).`},
	Read: func(ctx context.Context, d *Daemon, asked flows.Query) (flows.Answer, error) {
		q, err := asked.Question()
		if err != nil {
			return flows.Answer{}, api.Misused(err)
		}
		return d.parts.flows.List(ctx, q)
	},
	Print: only[flows.Query](show.Flows),
}

// FlowsSummary is show flows summary.
var FlowsSummary = View[Nothing, flows.Summary]{
	Text: Text{Path: "flows/summary", Short: "Show the number of connections by kind, and the use of the tables"},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (flows.Summary, error) {
		return d.parts.flows.Summarize(ctx)
	},
	Print: only[Nothing](show.FlowsSummary),
}

// Labels is show labels.
var Labels = View[Nothing, show.LabelsView]{
	Text: Text{Path: "labels", Short: "Show flows, packets and drops by label", Aliases: []string{"match"}, // its name before
		Long: `Show what the patterns of the section labels have matched: flows by label and by pattern, the traffic of these flows, and
what was dropped above their rate limit. Counters restart with the daemon and with a change of the patterns.`},
	Read: func(_ context.Context, d *Daemon, _ Nothing) (show.LabelsView, error) {
		o, err := d.parts.fastpath.ObserveLabels()
		return show.LabelsView{On: o != nil, Observed: o}, err
	},
	Print: only[Nothing](show.Labels),
}
