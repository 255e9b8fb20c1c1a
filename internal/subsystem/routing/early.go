// SPDX-License-Identifier: Apache-2.0

// Sessions that bgpd took before it knew an interface.
package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// resetEarly resets the sessions that came up before bgpd had found zebra. bgpd does not know that such a peer
// is on a link of its own, and never looks again. The mark: a session with an external neighbour one hop
// away, which can't be but on a shared network, and bgpd says it is on none.
func (r *Routing) resetEarly(ctx context.Context, vrf string) error {
	peers, err := r.neighbors(ctx, vrf)
	if err != nil {
		return err
	}
	for _, address := range slices.Sorted(maps.Keys(peers)) {
		var n struct {
			State      string `json:"bgpState"`
			External   bool   `json:"nbrExternalLink"`
			Hops       int    `json:"externalBgpNbrMaxHopsAway"`
			Connection string `json:"bgpConnection"`
		}
		if err := json.Unmarshal(peers[address], &n); err != nil {
			return fmt.Errorf("bgpd: show bgp neighbors: %w", err)
		}
		if n.State != "Established" || !n.External || n.Hops > 1 || n.Connection != "nonSharedNetwork" {
			continue
		}
		if err := r.enable(ctx, bgpd, "clear bgp"+behind(vrf)+" "+address); err != nil {
			return err
		}
		r.health.Repaired(healthKey(bgpd), "the session with "+r.called(vrf, address)+" had come up before bgpd knew its interface; it was reset")
	}
	return nil
}

// called returns the operator's name of a peer with its address.
func (r *Routing) called(vrf, address string) string {
	if name := r.known().peers[peerAt{vrf, address}]; name != "" {
		return name + " (" + address + ")" + behindWords(vrf)
	}
	return address + behindWords(vrf)
}

// enable runs commands of enable mode, which answer nothing.
func (r *Routing) enable(ctx context.Context, daemon string, commands ...string) error {
	v, err := dialVTY(ctx, daemon, r.host.socket(daemon))
	if err != nil {
		return err
	}
	defer v.close()
	for _, c := range commands {
		if _, err := v.command(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
