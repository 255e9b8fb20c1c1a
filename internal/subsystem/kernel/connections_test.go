// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"log/slog"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// Room for connections follows from the memory; that of 25,000 hosts with forty connections each fits from 8 GB on.
func TestDefaultConnections(t *testing.T) {
	for _, c := range []struct {
		profile config.SysctlProfile
		memory  uint64 // MiB
		want    int
	}{
		{"small", 64, 4096}, {"small", 256, 16384}, {"router", 16, 2048}, {"router", 256, 32768}, {"router", 512, 65536},
		{"router", 1024, 131072}, {"router", 4096, 524288}, {"router", 8192, 1048576}, {"router", 262144, 1048576},
		{"server", 4096, 1048576}, {"server", 65536, 4194304}, {"", 1024, 131072}, {"small", 1, 1024},
	} {
		n := defaultConnections(c.profile, c.memory<<20)
		if n != c.want {
			t.Errorf("%s with %d MiB: %d, expected %d", c.profile, c.memory, n, c.want)
		}
		if b := buckets(n); b < n || b%leastBuckets != 0 {
			t.Errorf("%d buckets for %d connections", b, n)
		}
	}
	if b := buckets(1_000_000); b != 1<<20 {
		t.Errorf("%d buckets for a million", b)
	}
}

// The size is set by who owns the machine, watched, and put back; what an operator has set beyond the default stays.
func TestConnectionsRoom(t *testing.T) {
	const most, hash, silent, pings = "net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_buckets",
		"net/netfilter/nf_conntrack_tcp_timeout_established", "net/netfilter/nf_conntrack_icmpv6_timeout"
	p := machine()
	before := map[string]string{most: "1024", hash: "1024", silent: "432000", pings: "30"}
	for path, v := range before {
		p.settings[path] = v
	}
	read := func(section string) Desired {
		cfg, err := config.Parse("test", []byte("version: 1\ninterfaces:\n  trunk: {match: {name: eth0}, zone: lan}\n"+section))
		if err != nil {
			t.Fatal(err)
		}
		d := render(t, cfg)
		d.Sysctls = renderSysctls(cfg, d.MultipathSeed, 1<<30)
		return d
	}
	is := func(about string, want ...string) {
		t.Helper()
		if got := []string{p.settings[most], p.settings[hash], p.settings[silent], p.settings[pings]}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, expected %v", about, got, want)
		}
	}
	asked := read("connections: {max: 300000, timeouts: {tcp-established: 3h, icmp: 10s}}\n")

	guest := New(slog.New(slog.DiscardHandler))
	guest.system = p
	apply(t, guest, asked)
	is("not the owner of the machine", "1024", "1024", "10800", "10")
	for path, v := range before {
		p.settings[path] = v
	}

	k := New(slog.New(slog.DiscardHandler), Options{OwnHost: true})
	k.system = p
	changes, err := k.Plan(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	var preview []string
	for _, c := range changes {
		preview = append(preview, c.Details...)
	}
	for _, want := range []string{"netfilter nf_conntrack_buckets 1024 → 524288", "netfilter nf_conntrack_max 1024 → 300000", "netfilter nf_conntrack_tcp_timeout_established 432000 → 10800"} {
		if !strings.Contains(strings.Join(preview, "\n"), want) {
			t.Errorf("the preview lacks %q:\n%s", want, strings.Join(preview, "\n"))
		}
	}
	apply(t, k, asked)
	is("asked", "300000", "524288", "10800", "10")

	p.settings[most] = "500000" // somebody
	drifted := false
	for range 3 {
		drifted = drifted || k.Drifted()
	}
	if !drifted {
		t.Error("a foreign hand is not noticed")
	}
	k.Reassert(t.Context())
	is("put back", "300000", "524288", "10800", "10")

	apply(t, k, read("")) // the default is smaller: back to that, and to the former times
	is("no section", "131072", "131072", "432000", "30")
	apply(t, k, render(t, named(map[string]*config.Interface{"trunk": {Match: &config.Match{Name: "eth0"}}})))
	is("no zones", "1024", "1024", "432000", "30")

	p.settings[most], p.settings[hash] = "4000000", "4194304" // in /etc/sysctl.d
	apply(t, k, read(""))
	is("more than the default before", "4000000", "4194304", "432000", "30")
	apply(t, k, asked)
	is("the file decides", "300000", "524288", "10800", "10")
	apply(t, k, read(""))
	is("back to what there was", "4000000", "4194304", "432000", "30")
}
