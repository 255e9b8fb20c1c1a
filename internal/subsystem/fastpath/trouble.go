// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Trouble says where the configuration asks for the fast path and it does not run: what is wrong by
// what it is wrong with, nothing when all is as configured.
func (f *FastPath) Trouble() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	trouble := map[string]string{}
	if f.desired.Mode == "off" || f.desired.Interfaces == nil {
		return trouble
	}
	if f.broken != nil {
		trouble["fast path"] = "not running, the kernel forwards everything: " + f.broken.Error()
		return trouble
	}
	if f.tables == nil || !f.tables.complete {
		return trouble // starting
	}
	wanted := f.wantedPorts()
	for _, p := range f.observePorts() {
		d := f.desired.Interfaces[p.Name]
		if p.Mode != "off" || !d.FastPath || d.Evaluated && f.firewall.policy == nil {
			continue
		}
		if l := f.tables.links[p.Index]; l == nil || l.Loopback || l.Master != 0 && wanted[p.Index] == "" || len(l.MAC) == 0 {
			continue // absent, which is told elsewhere, or nothing that could have it
		}
		if f.desired.Mode == "auto" && f.tables.bridging.state.Bridges[p.Index] != nil {
			continue // a bridge of others' ports
		}
		if f.desired.Mode == "auto" && f.incapable[p.Name] && !f.offByHand() {
			continue // auto means where the driver can; show fast-path has the reason
		}
		trouble["fast path on "+p.Name] = "not running, the kernel forwards what arrives there: " + p.Why + " (fast-path: off for the interface, if that is meant)"
	}
	for _, family := range familyNames {
		if why := f.held["all "+family]; why != "" {
			trouble["fast path for "+family] = "the kernel forwards all " + family + ", because it does more than the fast path can: " + why
		}
	}
	var rules []string
	for which, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if why := f.tables.rulesWords(family); why != "" && why != ownPolicy {
			rules = append(rules, familyNames[which]+": "+why)
		}
	}
	if len(rules) > 0 {
		trouble["policy routing"] = "rules or routes that Minne did not make (" + strings.Join(rules, "; ") + ") decide about packets; their family passes through the kernel"
	}
	return trouble
}
