// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/model/config"
	"minne/internal/subsystem/flows"
)

// Connections is show connections.
var Connections = View[Nothing, show.ConnectionsView]{
	Text: Text{Path: "connections", Short: "Show how much room there is for connections, what was lost for want of it, and the timeouts",
		Long: `Show how many connections the kernel keeps and may keep (conntrack), what was lost because
there was no room, and after how long silent ones are forgotten. "minne show flows" shows
the connections themselves.`},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (show.ConnectionsView, error) {
		return readConnections(ctx, d.parts.inst.OwnsHost(), d.parts.connections.told())
	},
	Print: only[Nothing](show.Connections),
}

func readConnections(ctx context.Context, own bool, warning string) (v show.ConnectionsView, err error) {
	if v.Used, v.Max, err = conntrackRoom(); err != nil || v.Max == 0 {
		return v, err
	}
	v.Machine, v.Warning = own, warning
	if v.Buckets, err = conntrackSetting("nf_conntrack_buckets"); err != nil {
		return v, err
	}
	for _, t := range (config.ConnectionTimes{}).All() {
		seconds, err := conntrackSetting(t.Settings[0])
		if os.IsNotExist(err) {
			continue // an older kernel
		}
		if err != nil {
			return v, err
		}
		v.Timeouts = append(v.Timeouts, show.ConnectionTimeout{Key: t.Key, Seconds: seconds})
	}
	v.Trouble, err = flows.Troubles(ctx)
	return v, err
}

// conntrackRoom is how many connections there are in this network namespace, and may be; 0 when conntrack is not loaded.
func conntrackRoom() (used, room int, err error) {
	if used, err = conntrackSetting("nf_conntrack_count"); err == nil {
		room, err = conntrackSetting("nf_conntrack_max")
	}
	if os.IsNotExist(err) {
		return 0, 0, nil
	}
	return used, room, err
}

func conntrackSetting(name string) (int, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/" + name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// An alarm is raised when so many percent of the room are used, and goes below the other: use that swings around one of them
// is one alarm.
const (
	roomShort  = 90
	roomEnough = 80
)

// roomWatch says when there is no room for connections, or soon will be none.
type roomWatch struct {
	read    func(context.Context) (used, room int, t flows.Trouble, err error)
	mu      sync.Mutex
	known   bool
	last    flows.Trouble
	lost    time.Time // when connections were last lost for want of room
	short   bool
	warning string
}

// lostFor is how long an alarm stays after the last loss.
const lostFor = 10 * time.Minute

func readRoom(ctx context.Context) (used, room int, t flows.Trouble, err error) {
	if used, room, err = conntrackRoom(); err == nil && room > 0 {
		t, err = flows.Troubles(ctx)
	}
	return used, room, t, err
}

// told is the warning of the last look.
func (w *roomWatch) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.warning
}

// trouble looks.
func (w *roomWatch) trouble(ctx context.Context) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	used, room, t, err := w.read(ctx)
	if err != nil || room == 0 {
		w.known, w.short, w.warning, w.lost = false, false, "", time.Time{}
		return nil
	}
	// A connection that lost against another with the same addresses and ports counts as dropped, too (nf_ct_resolve_clash).
	full := func(t flows.Trouble) int64 { return int64(t.Dropped) - int64(t.InsertFailed) }
	if w.known && (t.EarlyDropped > w.last.EarlyDropped || full(t) > full(w.last)) {
		w.lost = time.Now()
	}
	w.known, w.last = true, t
	percent := used * 100 / room
	w.short = percent >= roomShort || w.short && percent >= roomEnough
	key := ""
	switch {
	case !w.lost.IsZero() && time.Since(w.lost) < lostFor:
		key = "connections"
		w.warning = fmt.Sprintf("new connections were lost, or others ended early, because there was no room for more than %d: raise connections.max, or look for the host that fills it", room)
	case w.short:
		key = "room for connections"
		w.warning = fmt.Sprintf("more than %d %% of the room for %d connections is used: raise connections.max, or look for the host that fills it", roomEnough, room)
	default:
		w.warning = ""
		return nil
	}
	return map[string]string{key: w.warning}
}
