// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/services/ntp"
)

// NTP is show ntp: what chronyd says of the time.
var NTP = View[Nothing, show.NTPView]{
	Text: Text{Path: "ntp", Short: "Show the NTP status: servers and offsets",
		Long: `Show whether the clock follows a server, and all servers with how often they answered.
States are those of chronyd: selected (the clock follows it), combined with that one,
unusable (no answer yet, or none for long), false ticker (differs from the others).`},
	Read:  readNTP,
	Print: only[Nothing](show.NTP),
}

func readNTP(ctx context.Context, d *Daemon, _ Nothing) (show.NTPView, error) {
	s := d.parts.services
	daemon := find[*ntp.Daemon](s)
	state := daemon.State("")
	v := show.NTPView{On: state.Object != "", Running: state.Running, OwnClock: s.host.Own}
	if !v.Running {
		return v, nil
	}
	o, err := daemon.Observe(ctx, s.host.RunDir)
	v.Observed = &o
	return v, err
}
