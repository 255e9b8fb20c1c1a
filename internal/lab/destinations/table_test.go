// SPDX-License-Identifier: Apache-2.0

package destinations

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/ipnet"
)

const example = `# a comment
192.0.2.0/24
  198.51.100.7/24   # masked to .0
192.0.2.0/24 again

default via 192.0.2.1 dev eth0 proto static
10.1.2.3 dev eth1 scope link
blackhole 10.0.0.0/8
203.0.113.0/24 proto bgp metric 20
	nexthop via 192.0.2.9 dev eth0 weight 1
default via fe80::1 dev eth0
2001:db8::/32 via fe80::1
unicast 2001:db8:1::/48 dev eth0
`

func TestLoad(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "table")
	zipped := plain + ".gz"
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(example)) //nolint:errcheck // into memory
	z.Close()                //nolint:errcheck // into memory
	for path, content := range map[string][]byte{plain: []byte(example), zipped: b.Bytes()} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if want := ipnet.Must("192.0.2.0/24", "198.51.100.0/24", "0.0.0.0/0", "10.1.2.3/32", "203.0.113.0/24"); !slices.Equal(got.IPv4, want) {
			t.Errorf("%s: IPv4 %v, expected %v", path, got.IPv4, want)
		}
		if want := ipnet.Must("::/0", "2001:db8::/32", "2001:db8:1::/48"); !slices.Equal(got.IPv6, want) {
			t.Errorf("%s: IPv6 %v, expected %v", path, got.IPv6, want)
		}
		if got.Name != path || len(got.Prefixes()) != 8 {
			t.Errorf("name %q, %d prefixes", got.Name, len(got.Prefixes()))
		}
	}
}

func TestLoadRefusesJunk(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"junk", "192.0.2.0/24\n\nnonsense\n", `line 3: "nonsense": expected an address or a prefix`},
		{"length", "192.0.2.0/33\n", "line 1"},
		{"zone", "fe80::1%eth0\n", "line 1"},
		{"mapped", "::ffff:192.0.2.0/120\n", "line 1"},
		{"empty", "# nothing\n\n", "no prefix in it"},
		{"nothing", "", "no prefix in it"},
		{"long line", "192.0.2.0/24\n" + strings.Repeat("x", 1<<17), "line 2: longer than"},
		{"cut gzip", "\x1f\x8b\x08", "EOF"},
	} {
		_, err := read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q in it", c.name, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v, expected it to name the file", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := read(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, p := range table.Prefixes() {
			if !p.IsValid() || p != p.Masked() {
				t.Fatalf("%v is no masked prefix", p)
			}
		}
	})
}

func TestNamedTables(t *testing.T) {
	for _, c := range []struct {
		name   string
		v4, v6 int
	}{{"2", 1, 1}, {"1000", 850, 150}, {"ipv4:5", 5, 0}} {
		first, err := Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if first.Name != c.name || len(first.IPv4) != c.v4 || len(first.IPv6) != c.v6 || !slices.Equal(first.Prefixes(), second.Prefixes()) {
			t.Errorf("%s: %d IPv4 and %d IPv6 prefixes, expected %d and %d, the same ones each time", c.name, len(first.IPv4), len(first.IPv6), c.v4, c.v6)
		}
	}
	for _, name := range []string{"0", "1", "-5", "2000000", "ipv4:0", "ipv4:x", "/nonexistent"} {
		if got, err := Named(name); err == nil {
			t.Errorf("%s: %d prefixes, expected an error", name, len(got.Prefixes()))
		}
	}
}
