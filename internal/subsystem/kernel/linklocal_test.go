// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// flushed is a kernel in which somebody goes on removing the link-local address, as "ip addr flush" does in rounds.
type flushed struct {
	*pretended
	has    bool
	rounds int // that are left
	made   int // how often the kernel made one
	never  bool
}

func (f *flushed) setSetting(path, value string) error {
	if strings.HasSuffix(path, "/addr_gen_mode") && value == "0" && !f.never {
		f.has = true
		f.made++
	}
	return f.pretended.setSetting(path, value)
}

func (f *flushed) barrier() error {
	if f.has && f.rounds > 0 {
		f.has = false
		f.rounds--
	}
	return nil
}

func (f *flushed) addresses() ([]address, error) {
	all, err := f.pretended.addresses()
	if f.has {
		all = append(all, address{Index: 3, Prefix: netip.MustParsePrefix("fe80::1/64"), Auto: true})
	}
	return all, err
}

func (f *flushed) connectedRoutes(ctx context.Context) ([]rib.Route, error) {
	list, err := f.pretended.connectedRoutes(ctx)
	if f.has {
		o := onNet{index: 3, address: netip.MustParsePrefix("fe80::1/64")}
		list = append(list, rib.Route{Prefix: o.address.Masked(), Metric: o.metric(), Hops: []rib.Hop{{Interface: 3}}})
	}
	return list, err
}

// A link-local address that is removed again while it is put back is no sign that the kernel makes none.
func TestLinkLocalIsFlushedInRounds(t *testing.T) {
	cfg, err := config.Parse("test", []byte("version: 1\ninterfaces:\n  eth0: {addresses: [192.0.2.1/24]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*flushed{
		"two rounds of a flush":        {rounds: 2},
		"a link that never gets one":   {never: true},
		"nobody removes it":            {},
		"until ip addr flush gives up": {rounds: 10},
	} {
		f.pretended = &pretended{devices: []link{{Name: "eth0", Index: 3, Up: true, Ready: true, MTU: 1500, Ethernet: true}},
			on:       map[int][]netip.Prefix{3: {netip.MustParsePrefix("192.0.2.1/24")}},
			settings: map[string]string{"net/ipv6/conf/eth0/addr_gen_mode": "0", "net/ipv6/conf/eth0/disable_ipv6": "0"}}
		k := New(slog.New(slog.DiscardHandler), Options{OwnHost: true})
		k.system = f
		d := render(t, cfg)
		apply(t, k, d)
		if f.has == f.never {
			t.Errorf("%s: after an apply: link-local address %v, made %d times", name, f.has, f.made)
		}
		if left := planned(t, k, d); len(left) != 0 {
			t.Errorf("%s: left to do: %s", name, left)
		}
	}
}
