// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/flows"
)

// An alarm comes when the room is nearly used, goes well below that, and stays for a while after connections were lost. What
// was lost before the daemon began is no alarm, nor are two hosts that opened the same connection.
func TestRoomForConnections(t *testing.T) {
	used, room, counted := 0, 1000, flows.Trouble{EarlyDropped: 7, Dropped: 9}
	w := &roomWatch{read: func(context.Context) (int, int, flows.Trouble, error) { return used, room, counted, nil }}
	look := func(about, want string) {
		t.Helper()
		found := w.trouble(t.Context())
		if got := strings.Join(slices.Collect(maps.Keys(found)), ","); got != want || (w.told() != "") != (want != "") {
			t.Errorf("%s: %v, expected %q", about, found, want)
		}
	}
	look("the first look", "")
	used = 899
	look("below", "")
	used = 900
	look("nearly full", "room for connections")
	used = 801
	look("around the bound", "room for connections")
	used = 799
	look("enough", "")
	used = 801
	look("enough again", "")
	counted.Dropped, counted.InsertFailed = counted.Dropped+3, counted.InsertFailed+3
	look("clashes", "")
	counted.Dropped++
	look("dropped", "connections")
	look("a moment later", "connections")
	w.lost = time.Now().Add(-lostFor)
	look("long after", "")
	counted.EarlyDropped++
	look("ended early", "connections")
	room = 0
	look("no conntrack", "")
	room = 1000
	look("conntrack again", "")
}
