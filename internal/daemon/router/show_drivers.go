// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"

	"minne/internal/daemon/show"
	"minne/internal/model/drivers"
	"minne/internal/subsystem/ports"
)

// Drivers is show fast-path drivers.
var Drivers = View[Nothing, show.DriversView]{
	Text: Text{Path: "fast-path/drivers", Short: "Show what network drivers can do for the fast path",
		Long: `Show what this machine's ports can do for XDP, as the kernel reports it, and which drivers of
Linux run XDP programs themselves. It works without the daemon; the ports are then those of
the network namespace that the command runs in.`},
	Read:  func(context.Context, *Daemon, Nothing) (show.DriversView, error) { return ReadDrivers() },
	Print: only[Nothing](show.Drivers),
}

// ReadDrivers reads the ports of this process's network namespace.
func ReadDrivers() (show.DriversView, error) {
	v := show.DriversView{Ports: []show.DriverPort{}, Without: drivers.Generic(), Kernel: drivers.Kernel, Sources: drivers.Sources()}
	facts, err := ports.All()
	if err != nil {
		return v, err
	}
	for _, f := range facts {
		v.Ports = append(v.Ports, show.NewDriverPort(f))
	}
	for _, d := range drivers.All() {
		use, why := d.Use()
		v.Drivers = append(v.Drivers, show.DriverRow{Driver: d, Use: use, Why: why})
	}
	return v, nil
}
