// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// Overruled says which configured static routes the kernel does not use, because somebody added a route by hand
// that it prefers ("ip route add" without protocol); "" when there is none. Such routes may be meant, so they
// stay, but whoever looks at the configuration would look for packets where they do not go.
func (k *Kernel) Overruled(ctx context.Context) (string, error) {
	if !k.mu.TryLock() {
		return "", nil // an apply is at work: next time
	}
	var wanted []DesiredRoute
	if k.last != nil {
		wanted = k.last.Routes
	}
	k.mu.Unlock()
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(w DesiredRoute) bool { return w.Metric >= metricOfHolds || w.Table != 0 })
	if len(wanted) == 0 {
		return "", nil
	}
	added, err := mainRoutes(ctx, unix.RTPROT_BOOT, "added")
	if err != nil {
		return "", err
	}
	return overruled(wanted, added), nil
}

// metricOfHolds is that of distance 254: what holds announced prefixes is there to be overruled.
const metricOfHolds = 254 << 24

func overruled(wanted []DesiredRoute, added []rib.Route) string {
	best := map[netip.Prefix]uint32{}
	for _, w := range wanted {
		if m, ok := best[w.Prefix]; !ok || w.Metric < m {
			best[w.Prefix] = w.Metric
		}
	}
	var found []string
	for _, a := range slices.SortedFunc(slices.Values(added), func(x, y rib.Route) int {
		return cmp.Or(x.Prefix.Addr().Compare(y.Prefix.Addr()), cmp.Compare(x.Prefix.Bits(), y.Prefix.Bits()))
	}) {
		if metric, ok := best[a.Prefix]; ok && a.Metric <= metric {
			found = append(found, a.Prefix.String())
		}
	}
	found = slices.Compact(found)
	const most = 5
	if len(found) > most {
		found = append(found[:most], "…")
	}
	if len(found) == 0 {
		return ""
	}
	return "not used, because the kernel prefers a route that was added by hand: " + strings.Join(found, ", ") + "; see it: ip route show proto boot; remove it: ip route del PREFIX proto boot"
}
