// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"net/url"

	"minne/internal/subsystem/fastpath/match"
	"minne/internal/subsystem/flows"
)

// viewFlows answers with connections. The query is that of flows.Parse.
func viewFlows(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	q, err := flows.Parse(query)
	if err != nil {
		return nil, err
	}
	return d.parts.flows.List(ctx, q)
}

// viewFlowsSummary answers with counts of connections and what the fast path's flow table does.
func viewFlowsSummary(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	return d.parts.flows.Summarize(ctx)
}

// LabelsView answers show labels.
type LabelsView struct {
	On              bool `json:"on"` // there are patterns
	*match.Observed      // nil without
}

// viewLabels answers with flows by label.
func viewLabels(_ context.Context, d *Daemon, _ url.Values) (any, error) {
	o, err := d.parts.fastpath.Recognised()
	return LabelsView{o != nil, o}, err
}
