// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"

	"minne/internal/model/drivers"
	"minne/internal/subsystem/ports"
)

// What the kernel says of a port stands beside the table; what it does not say is not made up.
func TestShowDrivers(t *testing.T) {
	reported := ports.Facts{
		Port: ports.Port{Name: "eth0", Driver: "igc"}, StripsTags: true, Queues: ports.Queues{Receive: 4},
		XDP:     ports.XDP{Known: true, Native: true, Redirect: true, ZeroCopy: true},
		Program: &ports.Program{ID: 7, Mode: "native"},
	}
	silent := ports.Facts{Port: ports.Port{Name: "eth1"}, Kind: "dummy"}
	answer := DriversView{
		Ports:   []DriverPort{NewDriverPort(reported), NewDriverPort(silent)},
		Drivers: []DriverRow{{drivers.Driver{Name: "new", Hardware: "a card", Tags: drivers.Kept, Transmit: drivers.Never}, drivers.In, "because"}},
		Without: map[string]string{"r8169": "Realtek"},
		Kernel:  drivers.Kernel, Sources: drivers.Sources(),
	}
	if !answer.Ports[0].Listed || answer.Ports[1].Listed {
		t.Errorf("listed: %+v", answer.Ports)
	}
	var out strings.Builder
	if err := Drivers(&out, answer); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"eth0 igc yes yes no no yes stripped now 4 native",
		"eth1 dummy ? ? ? ? ? kept ? -",
		"new ? in only: because no no no no kept a card",
		"r8169 Realtek",
		drivers.Read,
	} {
		found := false
		for line := range strings.Lines(text) {
			found = found || strings.Contains(strings.Join(strings.Fields(line), " "), want)
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
}
