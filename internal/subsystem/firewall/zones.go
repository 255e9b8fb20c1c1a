// SPDX-License-Identifier: Apache-2.0

package firewall

import "minne/internal/model/policy"

// Zones returns the zone of each interface by name; none without a policy.
func (f *Firewall) Zones() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.desired.Policy
	if p == nil {
		return nil
	}
	zones := map[string]string{}
	for id, z := range p.Zones {
		if policy.ZoneID(id) == policy.Self {
			continue
		}
		for _, name := range z.Interfaces {
			zones[name] = z.Name
		}
	}
	return zones
}
