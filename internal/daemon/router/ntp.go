// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"net/url"

	"minne/internal/subsystem/services/ntp"
)

// NTPView answers show ntp.
type NTPView struct {
	On            bool `json:"on"`      // services.ntp is in the configuration
	Running       bool `json:"running"` // chronyd is
	OwnClock      bool `json:"own_clock"`
	*ntp.Observed      // nil when it does not run
}

// viewNTP answers with what chronyd says of the time.
func viewNTP(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	s := d.parts.services
	daemon := find[*ntp.Daemon](s)
	state := daemon.State()
	v := NTPView{On: state.Object != "", Running: state.Running, OwnClock: s.host.Own}
	if !v.Running {
		return v, nil
	}
	o, err := daemon.Observe(ctx, s.host.RunDir)
	v.Observed = &o
	return v, err
}
