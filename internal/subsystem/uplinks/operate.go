// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"minne/internal/base/atomicfile"
)

// Observed is an uplink as operators see it.
type Observed struct {
	Name     string          `json:"name"`
	Priority int             `json:"priority"`
	State    string          `json:"state"`            // up, down, off
	Reason   string          `json:"reason,omitempty"` // why it is not used
	Since    time.Time       `json:"since,omitzero"`   // in this state
	Passed   bool            `json:"passed"`           // routes by it are passed over
	Backup   bool            `json:"backup"`           // packets leave by it instead of by one that is passed over
	Gateways []netip.Addr    `json:"gateways"`
	Routes   *[2]int         `json:"routes,omitempty"` // of IPv4 and IPv6 by it in the main table; absent: not known
	BFD      map[string]bool `json:"bfd,omitempty"`    // whether sessions are up
	Targets  []Target        `json:"targets,omitempty"`
}

// Observe reads all uplinks, the preferred ones first.
func (u *Uplinks) Observe() []Observed {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := []Observed{}
	grouped := map[string]bool{}
	for _, l := range u.all {
		grouped[l.Name] = l.grouped
	}
	backups := u.backups(grouped)
	for _, l := range u.all {
		o := Observed{Name: l.Name, Priority: l.Priority, State: "up", Reason: l.dead, Since: l.since, Passed: l.grouped, Gateways: []netip.Addr{}}
		switch {
		case u.off[l.Name]:
			o.State = "off"
		case l.dead != "":
			o.State = "down"
		}
		for which := range families {
			if g, ok := u.gateway(l, which); ok && g.IsValid() {
				o.Gateways = append(o.Gateways, g)
			}
			o.Backup = o.Backup || backups[which].Index == l.index && l.present
		}
		if l.present {
			if routes, known := u.host.FastPath.RoutesBy(l.index); known {
				o.Routes = &routes
			}
		}
		for p, up := range l.bfd {
			if o.BFD == nil {
				o.BFD = map[string]bool{}
			}
			o.BFD[p.String()] = up
		}
		if l.checks != nil {
			o.Targets = l.checks.targets()
		}
		list = append(list, o)
	}
	return list
}

// ErrNoUplink is that an uplink is not configured.
var ErrNoUplink = errors.New("no such uplink")

// Switch takes an uplink out of use, without losing a packet, or into use again.
func (u *Uplinks) Switch(ctx context.Context, name string, on bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := slices.IndexFunc(u.all, func(l *line) bool { return l.Name == name })
	if n < 0 {
		var names []string
		for _, l := range u.all {
			names = append(names, l.Name)
		}
		if names == nil {
			return fmt.Errorf("%w: %q: the configuration has no section uplinks", ErrNoUplink, name)
		}
		return fmt.Errorf("%w: %q: expected one of %s", ErrNoUplink, name, strings.Join(names, ", "))
	}
	if !on && !slices.ContainsFunc(u.all, func(l *line) bool { return l.Name != name && l.dead == "" }) {
		return fmt.Errorf("no other uplink works: %s stays on", name)
	}
	if u.off[name] == !on {
		return nil
	}
	if on {
		delete(u.off, name)
	} else {
		u.off[name] = true
	}
	if err := u.writeOff(); err != nil {
		return err
	}
	return u.settle(ctx)
}

// writeOff keeps what is switched off for the next daemon.
func (u *Uplinks) writeOff() error {
	text, err := json.Marshal(slices.Sorted(maps.Keys(u.off)))
	if err != nil {
		return err
	}
	return atomicfile.Write(u.host.File, text, 0o600, atomicfile.Fleeting)
}

func (u *Uplinks) readOff() {
	text, err := os.ReadFile(u.host.File)
	var names []string
	if err == nil {
		err = json.Unmarshal(text, &names)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		u.host.Log.Error("cannot read which uplinks are switched off: all are on", "error", err)
	}
	for _, name := range names {
		u.off[name] = true
	}
}
