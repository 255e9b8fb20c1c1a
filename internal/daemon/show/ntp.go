// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	"minne/internal/subsystem/services/ntp"
)

// NTPView answers show ntp.
type NTPView struct {
	On            bool `json:"on"`      // services.ntp is in the configuration
	Running       bool `json:"running"` // chronyd is
	OwnClock      bool `json:"own_clock"`
	*ntp.Observed      // nil when it does not run
}

// NTP prints how the clock is kept.
func NTP(w io.Writer, v NTPView) error {
	switch {
	case !v.On:
		_, err := fmt.Fprintln(w, "NTP: off (there is no section services.ntp in the configuration)")
		return err
	case !v.Running || v.Observed == nil:
		_, err := fmt.Fprintln(w, "NTP: not running; for the reason see minne show services")
		return err
	case v.Synchronised:
		fmt.Fprintf(w, "NTP: ready, synchronised to %s; stratum %d, offset %s, frequency error %.3f ppm\n",
			v.Reference, v.Stratum, seconds(v.Offset), v.Frequency)
	default:
		fmt.Fprintln(w, "NTP: starting: not synchronised yet")
	}
	if !v.OwnClock {
		fmt.Fprintln(w, "This router does not set the clock: it is not the host's own (it has an instance name, or a network namespace)")
	}
	if v.Leap != "Normal" && v.Synchronised {
		fmt.Fprintf(w, "Leap second: %s\n", v.Leap)
	}
	if len(v.Sources) == 0 {
		_, err := fmt.Fprintln(w, "no NTP server: none is configured, or its name does not resolve")
		return err
	}
	fmt.Fprintln(w)
	t := table{head: []string{"Server", "!State", ">Stratum", ">Poll interval", ">Reach of 8", ">Last answer", ">Offset", ">Max error"}}
	for _, s := range v.Sources {
		answers, last := 0, "never"
		for bit := range 8 {
			answers += int(s.Reach>>bit) & 1
		}
		if s.Last >= 0 {
			last = fmt.Sprintf("%d s", s.Last)
		}
		t.row(s.Address, s.State, fmt.Sprint(s.Stratum), fmt.Sprintf("%d s", s.Poll), fmt.Sprint(answers), last, seconds(s.Offset), seconds(s.Error))
	}
	return t.write(w)
}

// seconds prints a time difference with three figures or so.
func seconds(s float64) string { return short(time.Duration(s * float64(time.Second))).String() }
