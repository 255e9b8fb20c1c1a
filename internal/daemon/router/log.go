// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"

	"minne/internal/daemon/show"
	"minne/internal/model/api"
)

// LogQuestion asks for the end of the daemon's log.
type LogQuestion struct {
	Lines int `json:"lines" flag:"lines,n" default:"50" doc:"'number' of lines"`
}

// Log is show log.
var Log = View[LogQuestion, show.LogView]{
	Text: Text{Path: "log", Short: "Show the end of the daemon's log",
		Long: `Show the end of the daemon's log, and with --follow what is written to it, too, until
Ctrl-C or until the daemon stops.`},
	Read: func(_ context.Context, d *Daemon, q LogQuestion) (show.LogView, error) {
		if q.Lines < 1 {
			return show.LogView{}, api.Misused(errors.New("lines: expected a number from 1"))
		}
		return show.LogView{Lines: d.journal.Tail(q.Lines)}, nil
	},
	Print: only[LogQuestion](show.Log),
}

// FollowLog is the log as it is written, behind as many lines as are asked for.
var FollowLog = api.Operation[LogQuestion, LogLine]{Method: "POST", Path: "/v1/log/follow", Short: "Follow the daemon's log", Goes: true}

// LogLine is a line of the log.
type LogLine struct {
	Line string `json:"line"`
}

// answerLogFollow says the log until the one who asked hangs up, or the daemon stops.
func (d *Daemon) answerLogFollow(ctx context.Context, q LogQuestion, say func(LogLine) error) error {
	return d.journal.Follow(ctx, q.Lines, func(line string) error { return say(LogLine{line}) })
}
