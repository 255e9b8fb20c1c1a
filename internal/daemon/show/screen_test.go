// SPDX-License-Identifier: Apache-2.0

package show

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/fastpath/guard"
	"minne/internal/subsystem/flows"
	"minne/internal/subsystem/kernel"
)

var update = flag.Bool("update", false, "write testdata/*.txt anew")

// samples are views with what makes them wide on a real router.
var samples = map[string]func(io.Writer) error{
	"interfaces": func(w io.Writer) error {
		return Interfaces(w, InterfacesView{Interfaces: []kernel.Interface{
			{Name: "lan", State: "up", MTU: 1500, Speed: 10_000,
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8:1::1/64"), netip.MustParsePrefix("fe80::5054:ff:fe12:3456/64")},
				RX:        kernel.Counters{Packets: 1_062_046_112, Bytes: 912 << 30}, TX: kernel.Counters{Packets: 2_121_006_551, Bytes: 2 << 40, Drops: 17}},
			{Name: "wan", State: "no-carrier", MTU: 1500, Description: "fibre to the ISP, ticket number 4711 in case of trouble with the light"},
			{Name: "guests", State: "down", MTU: 1496, Parent: "lan", VLAN: 20, Detail: "VLAN 20"},
		}})
	},
	"interface": func(w io.Writer) error {
		return Interface(w, InterfaceView{
			Interface: kernel.Interface{Name: "lan", State: "no-carrier", MTU: 1500, Description: "to the switch in the cellar, behind the door that sticks when it rains; port 48",
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8:1::1/64")}},
			Details: kernel.Details{Offloads: map[string]bool{"generic-receive-offload": false, "generic-segmentation-offload": true,
				"rx-checksumming": true, "scatter-gather": true, "tcp-segmentation-offload": true}},
			Zone:     "lan",
			FastPath: &fastpath.ObservedPort{Name: "lan", Mode: "native", Why: "receives only: the far end of the veth has neither XDP nor GRO"},
		})
	},
	"drops": func(w io.Writer) error {
		view := DropsView{}
		for _, r := range fastpath.Reasons() {
			if name := r.String(); name != "spoofed" && name != "no-neighbour" && name != "not-ready" {
				continue
			}
			view.Drops = append(view.Drops, DropView{PerSecond: 1_234_567,
				ObservedReason: fastpath.ObservedReason{Reason: r.String(), Drop: r.Drop(), Count: 123_456_789, Text: r.Text(), Hint: r.Hint()}})
		}
		return Drops(w, view, false)
	},
	"fast-path": func(w io.Writer) error {
		return FastPath(w, fastpath.Observed{Mode: "auto", Ready: true, NextHops: 12, Groups: 2, Neighbours: 40,
			Ports: []fastpath.ObservedPort{{Name: "lan", Mode: "native", Transmits: true, Received: 123_456_789, Forwarded: 123_455_001},
				{Name: "wan", Mode: "off", Received: 98_765_432, Why: "the driver r8169 has no native XDP: fast-path {mode: generic} works everywhere, but gains little"}},
			Tables: []fastpath.ObservedTable{
				{Family: "ipv4", Structure: "staged16", Why: "the fastest on this machine: 38 ns a lookup, direct24 61 ns, trie-map 210 ns", Prefixes: 901_899, UsedBytes: 61 << 20, ImageBytes: 128 << 20},
				{Family: "ipv6", Structure: "range", Prefixes: 160_147, UsedBytes: 9 << 20, ImageBytes: 32 << 20, Kernel: "there are ip rules: only the kernel knows the way"}},
			Guard:   []guard.Observed{{Class: "arp", Text: "ARP requests and replies on the router's own networks", Passed: 1_048_576, Dropped: 99}},
			Updates: fastpath.ObservedUpdates{Sync: 1_234_567_890, Fill: 812_345_678, Changes: 1_000_000, Batch: 4096, Last: 12_345_678, Longest: 912_345_678},
		})
	},
	"flows": func(w io.Writer) error {
		seen := end("198.51.100.1:40000")
		totals := flows.Totals{Packets: [2]uint64{1_000_000, 3_000_000}, Bytes: [2]uint64{64 << 20, 4 << 30}}
		return Flows(w, flows.Answer{Connections: 2, Matched: 2, Rows: 2, By: flows.ByFlow, Sort: flows.SortBytes, Sum: totals, Flows: []flows.Flow{
			{Protocol: "tcp", Source: end("192.0.2.10:40000"), Destination: end("203.0.113.5:443"), TranslatedSource: &seen,
				State: "established", Left: 431_990, Path: flows.PathFast, Totals: totals},
			{Protocol: "udp", Source: end("[2001:db8:1:2:3:4:5:10]:40000"), Destination: end("[2001:db8:9::53]:53"),
				State: "assured", Left: 29, Path: flows.PathKernel, Totals: totals}}})
	},
}

func init() { maps.Copy(samples, routingSamples) }

// TestScreens compares views with testdata: on a terminal of 80 columns, and as scripts read them.
func TestScreens(t *testing.T) {
	for name, print := range samples {
		for _, width := range []int{80, 0} {
			t.Run(fmt.Sprint(name, "-", width), func(t *testing.T) {
				var out strings.Builder
				screen := NewScreen(&out, width, false)
				if err := print(screen); err != nil {
					t.Fatal(err)
				}
				if err := screen.Flush(); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(out.String()) {
					if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
						t.Errorf("%d columns: %s", n, line)
					}
				}
				path := filepath.Join("testdata", fmt.Sprintf("%s-%d.txt", name, width))
				if *update {
					if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if out.String() != string(want) {
					t.Errorf("got\n%s\nwant\n%s(go test ./internal/daemon/show -run TestScreens -update, when it is meant so)", out.String(), want)
				}
			})
		}
	}
}

// A writer that is no screen gets what a screen of any width gets.
func TestWithoutScreen(t *testing.T) {
	for name, print := range samples {
		var bare, wide strings.Builder
		screen := NewScreen(&wide, 0, false)
		if err := print(&bare); err != nil {
			t.Fatal(err)
		}
		if err := print(screen); err != nil {
			t.Fatal(err)
		}
		if bare.String() != wide.String() {
			t.Errorf("%s:\n%s\n%s", name, bare.String(), wide.String())
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"short", 10, "short"},
		{"one two three four", 9, "one two|  three|  four"},
		{"  one two three", 9, "  one two|    three"},
		{"averyveryverylongword and more", 10, "averyveryverylongword|  and more"},
		{"nothing-to-break-at", 5, "nothing-to-break-at"},
		{"größer als", 7, "größer|  als"},
		{"one two", 0, "one two"},
	} {
		if got := strings.Join(wrap(c.line, c.width, 2), "|"); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

func TestColours(t *testing.T) {
	var out strings.Builder
	screen := NewScreen(&out, 80, true)
	table := NewTable("Interface", "!State")
	table.Row("lan", "up")
	table.Row("wan", "no-carrier")
	table.Row("up", "down")
	table.Row("dmz", "upgrading")
	if err := table.Write(screen); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(screen, "degraded: port lan: gone\nFast path: ready (mode auto)\nhttp://up: down there\n")
	const want = "Interface  State\nlan        \x1b[32mup\x1b[0m\nwan        \x1b[33mno-carrier\x1b[0m\nup         \x1b[31mdown\x1b[0m\ndmz        upgrading\n" +
		"\x1b[33mdegraded\x1b[0m: port lan: gone\nFast path: \x1b[32mready\x1b[0m (mode auto)\nhttp://up: \x1b[31mdown\x1b[0m there\n"
	if out.String() != want {
		t.Errorf("%q\nwant\n%q", out.String(), want)
	}
}
