// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Rules with a schedule hold by the clock on the wall, in whatever time zone it hangs.
func TestSchedule(t *testing.T) {
	b := newBed(t)
	b.web(&b.outside, ":80")
	b.web(&b.outside, ":81")
	defer func(zone *time.Location) { time.Local = zone }(time.Local)
	for _, hours := range []int{0, 9, -11} {
		time.Local = time.FixedZone("wall", hours*3600)
		schedule := func(from, to time.Duration) string {
			begin, end := time.Now().Add(from), time.Now().Add(to)
			return fmt.Sprintf("{days: %s, from: %s, to: %s}", strings.ToLower(begin.Format("Mon")), begin.Format("15:04"), end.Format("15:04"))
		}
		b.apply(fmt.Sprintf(`firewall:
  schedules:
    now: %s
    before: %s
  policies:
    - {from: dmz, to: wan, rules: [permit tcp any any 80 schedule now, permit tcp any any 81 schedule before]}
nat: [{from: dmz, to: wan, masquerade: true}]
`, schedule(-30*time.Minute, 30*time.Minute), schedule(-3*time.Hour, -2*time.Hour)))
		b.sees(&b.inside, "10.3.0.17", "http://203.0.113.9/", "203.0.113.1 to 203.0.113.9")
		b.unanswered(&b.inside, "http://203.0.113.9:81/")
	}
}
