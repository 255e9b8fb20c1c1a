// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// following starts a watch, and returns what it tells.
func following(t *testing.T) <-chan Transaction {
	t.Helper()
	w, err := NewWatch()
	must(t, err)
	told := make(chan Transaction, 1000)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- w.Run(ctx, func(x Transaction) { told <- x }) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	return told
}

// next waits for what is told next.
func next(t *testing.T, told <-chan Transaction) Transaction {
	t.Helper()
	select {
	case x := <-told:
		return x
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was told")
		return Transaction{}
	}
}

// Each change by anybody is told with its tables and who made it.
func TestWatch(t *testing.T) {
	fresh(t)
	told := following(t)
	for _, one := range []struct {
		script string
		want   []Touched
	}{
		{"insert rule inet lab forward accept", []Touched{{unix.NFPROTO_INET, "lab", false}}},
		{"add element inet lab hosts_v4 { 192.0.2.7, 192.0.2.8 }", []Touched{{unix.NFPROTO_INET, "lab", true}}},
		{"delete element inet lab hosts_v4 { 192.0.2.7 }\nadd table ip other", []Touched{{unix.NFPROTO_INET, "lab", true}, {unix.NFPROTO_IPV4, "other", false}}},
		{"add chain ip other forward { type filter hook forward priority 0; policy drop; }", []Touched{{unix.NFPROTO_IPV4, "other", false}}},
		{"chain ip other forward { policy accept; }", []Touched{{unix.NFPROTO_IPV4, "other", false}}},
		{"flush chain inet lab forward", []Touched{{unix.NFPROTO_INET, "lab", false}}},
		{"flush ruleset", []Touched{{unix.NFPROTO_INET, "lab", false}, {unix.NFPROTO_IPV4, "other", false}}},
	} {
		if _, err := Run(t.Context(), one.script, "-f", "-"); err != nil {
			t.Fatalf("%s: %v", one.script, err)
		}
		got := next(t, told)
		slices.SortFunc(got.Tables, func(a, b Touched) int { return strings.Compare(a.Name, b.Name) })
		if fmt.Sprint(got.Tables) != fmt.Sprint(one.want) || got.Lost {
			t.Errorf("%s: told %+v, want %v", one.script, got, one.want)
		}
		if got.Program != "nft" || got.PID == 0 || !strings.HasPrefix(got.By(), "nft (process ") {
			t.Errorf("%s: by %q %d", one.script, got.Program, got.PID)
		}
		for _, touched := range one.want {
			if !got.Touches(touched.Family, touched.Name) || got.Touches(touched.Family, "another") {
				t.Errorf("%s: Touches is wrong of %v", one.script, got)
			}
		}
	}
}

// More than fits into the socket is either told or said to be lost; what comes behind is told.
func TestWatchOfMany(t *testing.T) {
	fresh(t)
	w, err := NewWatch()
	must(t, err)
	var list []netip.Prefix
	for i := range 100_000 {
		list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32))
	}
	must(t, Change("lab", []Elements{{Set: "hosts_v4", Prefixes: list}})) // nobody reads yet
	told := make(chan Transaction, 1000)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- w.Run(ctx, func(x Transaction) { told <- x }) }()
	first := next(t, told)
	if !first.Touches(unix.NFPROTO_INET, "lab") {
		t.Errorf("told %+v", first)
	}
	_, err = Run(t.Context(), "insert rule inet lab forward accept", "-f", "-")
	must(t, err)
	for seen := false; !seen; {
		x := next(t, told)
		seen = x.Program == "nft" && slices.Contains(x.Tables, Touched{unix.NFPROTO_INET, "lab", false})
	}
	cancel()
	must(t, <-ended)
}

func TestOwnTable(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"minne_policy": true, "minne_guard": true, "minne_antispoof": true, "minne-boot": true,
		"minne_mine": false, "minnesota": false, "filter": false} {
		if OwnTable(unix.NFPROTO_INET, name) != own || OwnTable(unix.NFPROTO_IPV4, name) {
			t.Errorf("%s", name)
		}
	}
}
