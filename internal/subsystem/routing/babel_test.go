// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/config"
)

// mesh is a Babel router of another make, with a network behind it.
const mesh = `
router id 10.0.0.2;
protocol device {}
protocol direct { ipv4; ipv6; interface "lan"; }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
protocol babel { ipv4 { import all; export all; }; ipv6 { import all; export all; };
  interface "to-r" { type wired; hello interval 1 s; update interval 4 s; }; }
`

// babel is a configuration of Babel alone, without a router id.
func babel(link config.BabelInterface) *config.Config {
	return &config.Config{
		Interfaces: map[string]*config.Interface{"to-i": {}, "lo": {}},
		Routing: config.Routing{
			Static: []config.StaticRoute{{Prefix: prefix("172.20.0.0/16"), Blackhole: true}},
			Babel:  &config.Babel{Interfaces: map[string]*config.BabelInterface{"to-i": &link}, Redistribute: []config.Redistribute{"connected", "static"}},
		},
	}
}

// Routes go both ways between babeld and BIRD, in both families; settings change in place; babeld that dies comes back.
func TestBabel(t *testing.T) {
	l := newLab(t)
	l.insideNetwork()
	l.in("r", "ip", "route", "add", "blackhole", "172.20.0.0/16", "proto", "static", "metric", "1")
	l.bird("i", mesh)
	second := config.Duration(time.Second)
	l.apply(babel(config.BabelInterface{Hello: second, Update: 4 * second, Cost: 120}), nil)
	l.supervise()

	l.eventually("network behind, IPv4", func() string { return contains(l.routes("-4"), "10.9.0.0/24 nhid", "proto babel") })
	l.eventually("network behind, IPv6", func() string { return contains(l.routes("-6"), "2001:db8:9::/64 nhid", "proto babel") })
	told := func(family string) string { return l.in("i", "ip", family, "route") }
	l.eventually("static route told", func() string { return contains(told("-4"), "172.20.0.0/16 via 10.0.0.1") })

	neighbor := func() BabelNeighbor {
		n, err := l.router.BabelNeighbors(context.Background())
		if err != nil || len(n) != 1 {
			return BabelNeighbor{}
		}
		return n[0]
	}
	l.eventually("neighbour", func() string {
		if n := neighbor(); !strings.HasPrefix(n.Address, "fe80::") || n.Interface != "to-i" || n.RxCost != 120 || n.TxCost != 96 {
			return fmt.Sprintf("%+v", n)
		}
		return ""
	})
	known, err := l.router.BabelRoutes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for prefix, state := range map[string]string{"10.9.0.0/24": "installed", "2001:db8:9::/64": "installed", "172.20.0.0/16": "exported"} {
		if !slices.ContainsFunc(known, func(r BabelRoute) bool { return r.Prefix == prefix && r.State == state }) {
			t.Errorf("no %s %s in %+v", state, prefix, known)
		}
	}

	for _, link := range []config.BabelInterface{
		{Hello: second, Update: 4 * second, Cost: 120, Type: "wireless"}, // the type takes the cost along
		{Type: "wireless"},
		{},
		{Hello: second, Update: 4 * second, Cost: 300},
	} {
		l.apply(babel(link), nil)
	}
	l.eventually("another cost", func() string {
		if n := neighbor(); n.RxCost != 300 {
			return fmt.Sprintf("%+v", n)
		}
		return ""
	})

	old := l.pids(babeld)
	l.kill(babeld)
	l.eventually("the next babeld knows the neighbour", func() string {
		if now := l.pids(babeld); now[babeld] == 0 || now[babeld] == old[babeld] {
			return fmt.Sprint(old, now)
		}
		return contains(l.ask(babeld, "show babel neighbor"), "Neighbour")
	})
	l.eventually("routes after a crash", func() string { return contains(l.routes("-4"), "10.9.0.0/24 nhid", "proto babel") })
	cfg := babel(config.BabelInterface{Hello: second, Update: 4 * second})
	cfg.Routing.Babel.Redistribute = cfg.Routing.Babel.Redistribute[:1]
	l.apply(cfg, nil)
	l.eventually("static route no longer told", func() string { return lacks(told("-4"), "172.20.0.0/16 via") })
	l.apply(&config.Config{Interfaces: cfg.Interfaces}, nil)
	l.eventually("no routes of Babel", func() string { return lacks(l.routes("-4")+l.routes("-6"), "proto babel") })
}

func TestBabelPreview(t *testing.T) {
	render := func(cfg *config.Config) Desired {
		config.Normalize(cfg)
		d, err := Render(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	from := render(babel(config.BabelInterface{}))
	to := babel(config.BabelInterface{Type: "wireless", Cost: 300})
	to.Routing.Babel.Redistribute = []config.Redistribute{"static"}
	to.Routing.Babel.Interfaces["lo"] = &config.BabelInterface{}
	for _, c := range []struct {
		from, to Desired
		want     string
	}{
		{Desired{}, from, `+ Babel
+ Babel on to-i
+ Babel redistribute connected (IPv4)
+ Babel redistribute static (IPv4)
+ Babel redistribute connected (IPv6)
+ Babel redistribute static (IPv6)`},
		{from, render(to), `- Babel redistribute connected (IPv4)
- Babel redistribute connected (IPv6)
+ Babel on lo
~ Babel on to-i: wired, cost 96, hello 4s, update 16s → wireless, cost 300, hello 4s, update 16s`},
		{from, Desired{}, "- Babel (all routes of Babel go)"},
	} {
		var text []string
		for _, change := range effects(c.from.trees(), c.to.trees(), c.from, c.to) {
			text = append(text, change.String())
		}
		if got := strings.Join(text, "\n"); got != c.want {
			t.Errorf("%s\nexpected\n%s", got, c.want)
		}
	}
}
