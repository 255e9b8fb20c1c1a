// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseFillsTheSchema(t *testing.T) {
	cfg, _, err := Load("../../../docs/examples/campus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	core, ispA := cfg.Interfaces["core"], cfg.Routing.BGP.Peers["isp-a"]
	area := cfg.Routing.OSPF.Areas[0]
	for name, good := range map[string]bool{
		"router id":   cfg.System.RouterID == netip.MustParseAddr("192.0.2.1"),
		"MAC":         core.Match.MAC == MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56},
		"addresses":   len(core.Addresses) == 2 && core.Addresses[0].Prefix == netip.MustParsePrefix("192.0.2.4/31"),
		"mtu":         core.MTU == 9000,
		"AS number":   cfg.Routing.BGP.ASN == 64500 && ispA.ASN == 64496,
		"announce":    len(cfg.Routing.BGP.Announce) == 2,
		"switch":      ispA.BFD.On() && !cfg.Routing.BGP.Peers["isp-b"].BFD.On(),
		"limit":       ispA.Import.MaxPrefixes.IPv4 == 1200000 && ispA.Import.MaxPrefixes.IPv6 == 0,
		"secret name": ispA.Password == "isp-a",
		"next hop":    cfg.Routing.Static[0].Via[0].Address == netip.MustParseAddr("192.0.2.130"),
		"area":        area != nil && area.Interfaces["core"].Cost == 10 && area.Interfaces["core"].Auth.KeyID == 1,
		"defaults":    area.Type == "normal" && *area.Interfaces["core"].Priority == 1 && area.Interfaces["core"].Hello == Duration(10*time.Second),
	} {
		if !good {
			t.Errorf("%s is wrong", name)
		}
	}
}

// What a bare key means: a section with all defaults.
func TestEmptySections(t *testing.T) {
	cfg, err := Parse("x", []byte("version: 1\nsystem:\ninterfaces:\n  lan:\n    addresses:\n  wan: {}\nrouting:\n  ospf:\n    areas:\n      0:\n        interfaces:\n          lan:\n"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Interfaces["lan"] == nil || cfg.Interfaces["wan"] == nil || cfg.Routing.OSPF.Areas[0].Interfaces["lan"] == nil {
		t.Error("a named section is nil")
	}
}

// The key order of a file, its comments and its style never matter.
func TestOrderNeverMatters(t *testing.T) {
	files, err := filepath.Glob("../../../docs/examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	for _, file := range files {
		cfg, text, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			root := tree(t, string(text))
			shuffle(root, random)
			mixed, err := Parse("shuffled", root.bytes())
			if err != nil {
				t.Fatalf("%v\n%s", err, root.bytes())
			}
			if !Equal(cfg, mixed) {
				t.Fatalf("%s: the order of keys changed the meaning:\n%s", file, root.bytes())
			}
			if err := Check(mixed, UnreadSecrets()); err != nil {
				t.Fatalf("%s: the order of keys made a problem: %v", file, err)
			}
		}
	}
}

func shuffle(n *node, random *rand.Rand) {
	random.Shuffle(len(n.entries), func(i, j int) { n.entries[i], n.entries[j] = n.entries[j], n.entries[i] })
	for _, e := range n.entries {
		shuffle(e.value, random)
	}
	for _, item := range n.items {
		shuffle(item, random)
	}
}

func TestEqual(t *testing.T) {
	base := "version: 1\ninterfaces: {a: {addresses: [192.0.2.1/24, 192.0.2.2/24]}}\nrouting: {static: [{prefix: 0.0.0.0/0, via: [192.0.2.9, 192.0.2.8]}, {prefix: 10.0.0.0/8, blackhole: true}]}\n"
	for text, want := range map[string]bool{
		base: true,
		strings.Replace(base, "{a: {", "{a: {anti-spoof: off, fast-path: on, disabled: false, ", 1): true,
		strings.Replace(base, "192.0.2.9, 192.0.2.8", "192.0.2.8, 192.0.2.9", 1):                    true,
		strings.Replace(base, "{prefix: 0.0.0.0/0,", "{prefix: 0.0.0.0/0, distance: 1,", 1):         true,
		"fast-path: {mode: auto}\nsystem: {sysctl-profile: router}\n# comment\n" + base:             true,
		strings.Replace(base, "192.0.2.1/24, 192.0.2.2/24", "192.0.2.2/24, 192.0.2.1/24", 1):        false,
		strings.Replace(base, "{prefix: 0.0.0.0/0,", "{prefix: 0.0.0.0/0, distance: 2,", 1):         false,
		strings.Replace(base, "{a: {", "{a: {fast-path: off, ", 1):                                  false,
		strings.Replace(base, "{a: {", "{b: {}, a: {", 1):                                           false,
		base + "system: {hostname: x}\n":                                                            false,
	} {
		a, err := Parse("a", []byte(base))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse("b", []byte(text))
		if err != nil {
			t.Fatalf("%v", err)
		}
		if Equal(a, b) != want || Equal(b, a) != want {
			t.Errorf("equal should be %t:\n%s", want, text)
		}
	}
	if !Equal(nil, nil) {
		t.Error("nothing equals nothing")
	}
}

// Text that is no configuration is refused by its look, with the place.
func TestStrangeText(t *testing.T) {
	head := "version: 1\nsystem: {hostname: x"
	for text, want := range map[string]string{
		"\uFEFFversion: 1\n":           "test.yaml:1:1: byte order mark",
		head + "\x00}":                 "test.yaml:2:21: a zero byte",
		head + "\x1b[0m}":              "test.yaml:2:21: control character U+001B",
		head + "\u0085}":               "test.yaml:2:21: control character U+0085",
		head + "\u202e}":               "test.yaml:2:21: control character U+202E",
		head + "\u2028}":               "test.yaml:2:21: control character U+2028",
		head + "\x7f}":                 "test.yaml:2:21: control character U+007F",
		head + "\xff}":                 "test.yaml:2:21: byte 0xff is not UTF-8",
		head + "}\rinterfaces: {}":     "test.yaml:2:22: control character U+000D",
		"日本: \"\xc3\"":                 "test.yaml:1:6: byte 0xc3 is not UTF-8",
		"\x7fELF\x02\x01\x01\x00\x00":  "test.yaml:1:1: control character U+007F",
		"v\x00e\x00r\x00":              "test.yaml:1:2: a zero byte",
		"version: 1\nsystem:\n\t x: y": "test.yaml:3:1: a tab",
	} {
		_, err := Parse("test.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestHarmlessTabsAndLineEnds(t *testing.T) {
	cfg, err := Parse("x", []byte("version: 1\t# c\r\n\t\r\nsystem:\t\r\n  # a\tb\r\n  hostname: x   # y\tz\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.System.Hostname != "x" {
		t.Errorf("hostname is %q", cfg.System.Hostname)
	}
}

// Files that would keep a parser busy are refused before they do.
func TestExhaustingFiles(t *testing.T) {
	for name, text := range map[string]string{
		"10 MB":          strings.Repeat("# comment\n", 1<<20),
		"brackets":       "a: " + strings.Repeat("[", 200_000),
		"braces":         "a: " + strings.Repeat("{a: ", 100_000),
		"dashes":         strings.Repeat("- ", 100_000),
		"question marks": strings.Repeat("? ", 100_000),
		"steps":          steps(1000),
		"same keys":      strings.Repeat("a: 1\n", 50_000),
		"same flow keys": "a: {" + strings.Repeat("a: 1, ", 200_000) + "}",
		"quotes":         strings.Repeat("\"", 200_000),
		"anchors":        strings.Repeat("&a ", 50_000),
		"tags":           strings.Repeat("!a ", 50_000),
		"documents":      strings.Repeat("---\n", 50_000),
		"unknown keys":   unknownKeys(2_000),
	} {
		cfg, err := Parse(name, []byte(text))
		if err == nil || cfg != nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || len(e.Problems) == 0 || len(e.Problems) > maxProblems {
			t.Errorf("%s: %T with %d problems", name, err, len(e.Problems))
		}
		if len(err.Error()) > 100_000 {
			t.Errorf("%s: the message has %d bytes", name, len(err.Error()))
		}
	}
}

func steps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func unknownKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "key-%d: 1\n", i)
	}
	return b.String()
}

func TestLoadTellsOfMissingFiles(t *testing.T) {
	cfg, text, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, os.ErrNotExist) || cfg != nil || text != nil {
		t.Errorf("got %v, %v", cfg, err)
	}
}

// The problems of a refused file carry what the API passes on.
func TestProblemFields(t *testing.T) {
	_, err := Parse("test.yaml", []byte("version: 1\nsystem: {hostnme: x}\n"))
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) != 1 {
		t.Fatalf("got %v", err)
	}
	p := e.Problems[0]
	p.caret = 0
	want := Problem{File: "test.yaml", Line: 2, Column: 10, Path: "system.hostnme", Message: `unknown key "hostnme" in system`,
		Nearest: "hostname", Source: "system: {hostnme: x}"}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
}

// Problems of a configuration that no file holds are placed by path.
func TestProblemsWithoutAFile(t *testing.T) {
	cfg := &Config{Version: 1, Interfaces: map[string]*Interface{"all": {}}}
	err := Check(cfg, Secrets{})
	if err == nil || !strings.HasPrefix(err.Error(), "interfaces.all: the kernel keeps") {
		t.Errorf("got %v", err)
	}
}

func TestProblemsInTheOrderOfTheFile(t *testing.T) {
	_, err := Parse("x", []byte("version: 1\nroutng: {}\ninterfaces: {lan: {mtu: 1, mut: 2}}\nsystem: {router-id: x}\n"))
	var e *Error
	if !errors.As(err, &e) || len(e.Problems) != 4 {
		t.Fatalf("got %v", err)
	}
	if !slices.IsSortedFunc(e.Problems, func(a, b Problem) int { return (a.Line-b.Line)*1000 + a.Column - b.Column }) {
		t.Errorf("out of order: %v", err)
	}
}

// big is a configuration of that many interfaces, four lines each, with a static route for each.
func big(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\ninterfaces:\n  trunk: {}\n")
	for i := range n {
		fmt.Fprintf(&b, "  v%d:\n    vlan: {parent: trunk, id: %d}\n    addresses: [10.%d.%d.1/24]\n    description: office %d\n", i, i+1, i/256, i%256, i)
	}
	b.WriteString("routing:\n  static:\n")
	for i := range n {
		fmt.Fprintf(&b, "    - prefix: 172.%d.%d.0/24\n      via: [10.%d.%d.2]\n", 16+i/256, i%256, i/256, i%256)
	}
	return []byte(b.String())
}

func BenchmarkParseAndCheck(b *testing.B) {
	text := big(830) // 5,000 lines
	b.ReportMetric(float64(strings.Count(string(text), "\n")), "lines")
	for b.Loop() {
		cfg, err := Parse("big.yaml", text)
		if err == nil {
			err = Check(cfg, Secrets{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
