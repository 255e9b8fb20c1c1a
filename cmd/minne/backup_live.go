// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"minne/internal/appliance/backup"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/subsystem/firewall"
)

// mostLive is how many live elements a backup takes; with more, a file of the configuration is the place for them.
const mostLive = 50_000

// live asks the daemon for what a backup takes beside the configuration.
func (a *app) live(ctx context.Context, cfg *config.Config) (l backup.Live, err error) {
	client, err := a.client()
	if err != nil {
		return l, err
	}
	leases, err := router.GetLeases.Ask(ctx, client, api.Empty{})
	if errors.Is(err, api.ErrNoDaemon) {
		fmt.Fprintln(a.err, "warning: the daemon does not run, so DHCP leases and live elements of sets are not in the backup")
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.Leases, l.VRFLeases = leases.Leases, leases.VRFs
	count := 0
	for _, name := range slices.Sorted(maps.Keys(cfg.Firewall.Sets)) {
		v, err := router.ListSet.Ask(ctx, client, router.SetQuestion{Name: name})
		if err != nil {
			return l, err
		}
		set := backup.LiveSet{Name: name}
		for _, e := range v.Elements {
			if !e.Live {
				continue
			}
			element := backup.LiveElement{Element: e.Element}
			if e.Expires != nil {
				element.Until = e.Expires.UTC()
			}
			set.Elements = append(set.Elements, element)
		}
		if len(set.Elements) == 0 {
			continue
		}
		if count += len(set.Elements); count > mostLive {
			fmt.Fprintf(a.err, "warning: the sets have more than %d live elements, so those of %s are not in the backup: put them into a file of the configuration\n", mostLive, name)
			count -= len(set.Elements)
			continue
		}
		l.Sets = append(l.Sets, set)
	}
	return l, nil
}

// putLive gives a router what its backup had beside the configuration. The configuration is in force by
// then, so what does not fit is said and left out.
func (r *restore) putLive(ctx context.Context, client *api.Client, l backup.Live, now time.Time) {
	if l.Leases != "" || len(l.VRFLeases) > 0 {
		done, err := router.AddLeases.Ask(ctx, client, router.LeaseFile{Leases: l.Leases, VRFs: l.VRFLeases})
		switch {
		case err != nil:
			fmt.Fprintln(r.err, "warning: the DHCP leases are not restored:", err)
		case done.Added > 0:
			fmt.Fprintf(r.err, "%d DHCP leases restored\n", done.Added)
		}
	}
	for _, set := range l.Sets {
		added := 0
		var failed []error
		for _, b := range set.Left(now) {
			done, err := router.ChangeSet.Ask(ctx, client, firewall.SetChange{Set: set.Name, Add: b.Elements, Timeout: b.Left})
			added += done.Added
			failed = append(failed, err)
		}
		if err := errors.Join(failed...); err != nil {
			fmt.Fprintf(r.err, "warning: set %s: not all live elements are restored: %v\n", set.Name, err)
		}
		if added > 0 {
			fmt.Fprintf(r.err, "%d live elements of set %s restored\n", added, set.Name)
		}
	}
}
