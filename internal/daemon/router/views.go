// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
)

// views is what can be shown, by the path below /v1/show/. A view reads the
// subsystems through d.parts and changes nothing.
var views = map[string]view{
	"interface":       viewInterface,
	"interfaces":      viewInterfaces,
	"routes":          viewRoutes,
	"neighbors":       viewNeighbors,
	"bgp":             viewBGP,
	"bgp/neighbors":   viewBGPNeighbors,
	"bgp/routes":      viewBGPRoutes,
	"bgp/paths":       viewBGPPaths,
	"ospf":            viewOSPF,
	"ospf/interfaces": viewOSPFInterfaces,
	"ospf/database":   viewOSPFDatabase,
	"fast-path":       viewFastPath,
	"drops":           viewDrops,
	"rates":           viewRates,
	"log":             viewLog,
	"nat":             viewNAT,
	"ntp":             viewNTP,
	"firewall":        viewFirewall,
	"set":             viewSet,
	"source":          viewSource,
	"flows":           viewFlows,
	"flows/summary":   viewFlowsSummary,
	"labels":          viewLabels,
	"services":        viewServices,
	"dhcp":            viewDHCP,
}

// LogView answers show log: lines, the oldest first.
type LogView struct {
	Lines []string `json:"lines"`
}

// viewLog is the end of the daemon's log: as many lines as the query asks for.
func viewLog(_ context.Context, d *Daemon, query url.Values) (any, error) {
	lines := 0
	if q := query.Get("lines"); q != "" {
		n, err := strconv.Atoi(q)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("lines %q: expected a number from 1", q)
		}
		lines = n
	}
	return LogView{d.journal.Tail(lines)}, nil
}

// LogFollow asks for the daemon's log as it is written.
type LogFollow struct {
	Lines int `json:"lines"` // that were written before, at most
}

// LogLine is a line of the log.
type LogLine struct {
	Line string `json:"line"`
}

// answerLogFollow says the log until the one who asked hangs up, or the daemon stops.
func (d *Daemon) answerLogFollow(ctx context.Context, q LogFollow, say func(LogLine) error) error {
	return d.journal.Follow(ctx, q.Lines, func(line string) error { return say(LogLine{line}) })
}
