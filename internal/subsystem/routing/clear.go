// SPDX-License-Identifier: Apache-2.0

// Sessions begun anew: by an operator's word, or because a commit took away what had ended them.
package routing

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// AllPeers is the word for every BGP peer; a peer can't be called so by mistake: its name is looked up first.
const AllPeers = "all"

// ClearBGP resets the session with a peer, named as in the configuration or by its address, or all sessions. A
// soft reset asks for the peer's routes again and tells ours again, and the session stays. It returns the peers.
func (r *Routing) ClearBGP(ctx context.Context, vrf, peer string, soft bool) ([]string, error) {
	addresses, err := r.peerAddresses(ctx, vrf, peer)
	if err != nil {
		return nil, err
	}
	var cleared, commands []string
	for _, a := range addresses {
		command := "clear bgp" + behind(vrf) + " " + a
		if soft {
			command += " soft"
		}
		commands = append(commands, command)
		cleared = append(cleared, r.called(vrf, a))
	}
	return cleared, r.enable(ctx, bgpd, commands...)
}

// BGPPeer returns the address of a peer by its name or address.
func (r *Routing) BGPPeer(ctx context.Context, vrf, peer string) (string, error) {
	addresses, err := r.peerAddresses(ctx, vrf, peer)
	if err != nil {
		return "", err
	}
	if len(addresses) != 1 {
		return "", fmt.Errorf("%q is not one peer", peer)
	}
	return addresses[0], nil
}

// peerAddresses returns the addresses of one peer, or of all.
func (r *Routing) peerAddresses(ctx context.Context, vrf, peer string) ([]string, error) {
	running, err := r.neighbors(ctx, vrf)
	if err != nil {
		return nil, err
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("no BGP peers%s: none is configured, or bgpd is not running", behindWords(vrf))
	}
	names := r.known()
	var known []string
	for _, address := range sortedKeys(running) {
		name := names.peers[peerAt{vrf, address}]
		if name == peer {
			return []string{address}, nil
		}
		if name != "" {
			known = append(known, name)
		}
	}
	if a, err := netip.ParseAddr(peer); err == nil && running[a.WithZone("").Unmap().String()] != nil {
		return []string{a.WithZone("").Unmap().String()}, nil
	}
	if peer == AllPeers {
		return sortedKeys(running), nil
	}
	slices.Sort(known)
	return nil, fmt.Errorf("no BGP peer %q%s: expected one of %s, or its address", peer, behindWords(vrf), strings.Join(known, ", "))
}

// ClearOSPF lets both versions of OSPF in a table begin anew, those that run: adjacencies form again, the database is
// exchanged again. It returns what was cleared.
func (r *Routing) ClearOSPF(ctx context.Context, vrf string) ([]string, error) {
	var cleared []string
	for _, o := range []struct{ daemon, process, name string }{{ospfd, "ospf", "OSPFv2"}, {ospf6d, "ospf6", "OSPFv3"}} {
		p, err := r.host.find(o.daemon)
		if err != nil {
			return cleared, err
		}
		if p == nil {
			continue
		}
		p.Close()
		have, err := r.running(ctx, o.daemon)
		if err != nil {
			return cleared, err
		}
		if have.process(o.process, vrf) == nil {
			continue
		}
		command := "clear ipv6 ospf6 process" + behind(vrf)
		switch {
		case o.daemon == ospfd && len(vrfsOf(o.process, have)) > 1: // its process is all tables
			command = "clear ip ospf" + behind(vrf) + " interface"
		case o.daemon == ospfd:
			command = "clear ip ospf process"
		}
		if err := r.enable(ctx, o.daemon, command); err != nil {
			return cleared, err
		}
		cleared = append(cleared, o.name+behindWords(vrf))
	}
	if len(cleared) == 0 {
		return nil, fmt.Errorf("OSPF is not running%s: it is not configured", behindWords(vrf))
	}
	return cleared, nil
}

// releaseStopped starts the sessions that their prefix limit had ended, where the limit is another one now and
// not a lower one. bgpd itself leaves them idle, whatever the new limit.
func (r *Routing) releaseStopped(ctx context.Context, have, want *node) error {
	for _, vrf := range vrfsOf("bgp", want) {
		released := relaxed(have, want, vrf)
		if len(released) == 0 {
			continue
		}
		summary, err := r.sessions(ctx, vrf)
		if err != nil {
			return err
		}
		for _, p := range summary.Peers {
			if !slices.Contains(released, p.Address) || !strings.HasPrefix(p.State, stoppedByLimit) {
				continue
			}
			if err := r.enable(ctx, bgpd, "clear bgp"+behind(vrf)+" "+p.Address); err != nil {
				return err
			}
			r.log.Info("BGP session restarts after its prefix limit had ended it", "peer", r.called(vrf, p.Address))
		}
	}
	return nil
}

// stoppedByLimit begins the state of a session that sent more than maximum-prefix.
const stoppedByLimit = "Idle (PfxCt)"

// relaxed returns the addresses of peers in a table whose prefix limit changes, other than to a lower one.
func relaxed(have, want *node, vrf string) []string {
	h, w := orEmpty(have.process("bgp", vrf)), orEmpty(want.process("bgp", vrf))
	old, new := peerLines(h), peerLines(w)
	var out []string
	for _, a := range addresses(old, new) {
		for _, f := range bgpFamilies {
			from, to := prefixLimit(old[a], f), prefixLimit(new[a], f)
			if from != "" && from != to && (to == "" || limitOf(to) >= limitOf(from)) && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// prefixLimit returns a family's limit as "1000 restart 15", or "".
func prefixLimit(lines []string, f bgpFamily) string {
	prefix := f.header + ": maximum-prefix "
	return strings.TrimPrefix(first(with(lines, prefix)), prefix)
}

// limitOf returns the number of "1000 restart 15".
func limitOf(setting string) int {
	number, _, _ := strings.Cut(setting, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
}
