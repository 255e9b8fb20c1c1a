// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"minne/internal/model/config"
)

func TestRelaxedLimits(t *testing.T) {
	bgp := func(limit string) *node {
		text := "router bgp 64500\n neighbor 192.0.2.2 remote-as 64501\n address-family ipv4 unicast\n  neighbor 192.0.2.2 activate\n"
		if limit != "" {
			text += "  neighbor 192.0.2.2 maximum-prefix " + limit + "\n"
		}
		return parse(text + " exit-address-family\nexit\n")
	}
	for _, c := range []struct {
		from, to string
		relaxed  bool
	}{
		{"2", "3", true}, {"2", "", true}, {"2", "2 restart 5", true}, {"2 restart 5", "2", true}, {"2 restart 5", "3 restart 5", true},
		{"2", "2", false}, {"3", "2", false}, {"3", "2 restart 5", false}, {"", "2", false}, {"", "", false},
	} {
		if got := relaxed(bgp(c.from), bgp(c.to), ""); (len(got) == 1) != c.relaxed {
			t.Errorf("from %q to %q: %v", c.from, c.to, got)
		}
	}
	if got := relaxed(&node{}, bgp("2"), ""); len(got) != 0 {
		t.Errorf("a new speaker: %v", got)
	}
}

// A session that its prefix limit ended comes back with the commit that raises the limit, and by a word; a
// reset begins it anew, a soft one does not.
func TestLimitAndClear(t *testing.T) {
	l := newLab(t)
	l.namespace("b")
	l.link("r", "b", "198.51.100.1/24", "198.51.100.2/24")
	l.bird("b", birdPeer("198.51.100.2", "198.51.100.2", "198.51.100.1", 64502, "", "route 11.0.0.0/16 blackhole; route 11.1.0.0/16 blackhole; route 11.2.0.0/16 blackhole;", ""))
	cfg := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
	limit := &config.PrefixLimit{IPv4: 2}
	cfg.Routing.BGP = &config.BGP{ASN: 64500, Peers: map[string]*config.BGPPeer{
		"b":    {Address: addr("198.51.100.2"), ASN: 64502, Import: config.BGPImport{MaxPrefixes: limit}},
		"none": {Address: addr("198.51.100.9"), ASN: 64509}}}
	l.apply(cfg, nil)
	ctx := context.Background()
	stopped := func() string {
		s, err := l.router.BGPSummary(ctx, "")
		return contains(fmt.Sprintf("%+v %v", s.Peers, err), "State:"+stoppedByLimit)
	}
	l.eventually("the limit ends the session", stopped)
	limit.RestartAfter = config.Duration(time.Minute)
	l.apply(cfg, nil)
	l.eventually("it starts again", func() string {
		n, up := l.established("b")
		return map[bool]string{false: fmt.Sprint(n, up)}[n == 2 && up]
	})
	l.eventually("and ends again", func() string { // bgpd counts when the next update comes, of which there is none: ask for it
		if s := stopped(); s != "" {
			l.router.ClearBGP(ctx, "", "b", true)
			return s
		}
		return ""
	})
	limit.IPv4 = 1
	l.apply(cfg, nil)
	if n, _ := l.established("b"); n != 2 || stopped() != "" {
		t.Errorf("a lower limit began the session anew: %d", n)
	}
	limit.IPv4 = 3
	l.apply(cfg, nil)
	l.eventually("routes", l.via("-4", "11.2.0.0/16", "to-b"))

	times, _ := l.established("b")
	for _, peer := range []string{"b", "198.51.100.2", "::ffff:198.51.100.2"} {
		if got, err := l.router.ClearBGP(ctx, "", peer, true); err != nil || !slices.Equal(got, []string{"b (198.51.100.2)"}) {
			t.Errorf("soft reset of %s: %v %v", peer, got, err)
		}
	}
	if n, up := l.established("b"); n != times || !up {
		t.Errorf("a soft reset ended the session: %d %v", n, up)
	}
	if got, err := l.router.ClearBGP(ctx, "", AllPeers, false); err != nil || !slices.Equal(got, []string{"b (198.51.100.2)", "none (198.51.100.9)"}) {
		t.Errorf("reset of all: %v %v", got, err)
	}
	l.eventually("the session is a new one", func() string {
		n, up := l.established("b")
		return map[bool]string{false: fmt.Sprint(n, up)}[up && n == times+1]
	})
	_, err := l.router.ClearBGP(ctx, "", "c", false)
	if s := contains(fmt.Sprint(err), `no BGP peer "c": expected one of b, none, or its address`); s != "" {
		t.Error(s)
	}
	if _, err := l.router.ClearOSPF(ctx, ""); err == nil {
		t.Error("OSPF that does not run was cleared")
	}
}
