// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"minne/internal/model/config"
	"minne/internal/model/revisions"
)

const phrase = "correct horse battery"

func example() Backup {
	return Backup{
		Version: "1.2", Created: time.Unix(1e9, 0).UTC(), Host: "border",
		Ports:     []Port{{Interface: "wan", Name: "wan", Former: []string{"eth0"}, MAC: "52:54:00:00:00:01", Driver: "igb", Path: "0000:01:00.0", Speed: 1000}},
		Running:   "version: 1\n# ü\n",
		Revisions: []Revision{{Revision: revisions.Revision{Number: 3, User: "ana", State: revisions.Confirmed}, Text: "version: 1\n"}},
		Files:     []File{{"secrets.yaml", 0o600, []byte("isp: hush-hush\n")}, {"lists/blocked", 0o644, []byte("192.0.2.1\n")}},
		Live: Live{
			Leases: "2000000000 02:00:00:00:00:01 192.0.2.10 ana *\n",
			Sets:   []LiveSet{{Name: "paid", Elements: []LiveElement{{Element: "192.0.2.10"}, {Element: "192.0.2.11", Until: time.Unix(2e9, 0).UTC()}}}},
		},
	}
}

func written(t *testing.T, b Backup) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, phrase, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWriteRead(t *testing.T) {
	b := example()
	sealed := written(t, b)
	for _, word := range []string{"hush", "isp", "border", "192.0.2.1", "version: 1"} {
		if bytes.Contains(sealed, []byte(word)) {
			t.Errorf("%q can be read without the passphrase", word)
		}
	}
	got, err := Read(bytes.NewReader(sealed), phrase)
	if err != nil {
		t.Fatal(err)
	}
	b.Format = Format
	if !reflect.DeepEqual(got, b) {
		t.Errorf("read\n%+v\nwrote\n%+v", got, b)
	}
}

// TestReadFormat1 reads a backup of before there was anything live in it.
func TestReadFormat1(t *testing.T) {
	old := sealed(t, entry{describing, tar.TypeReg, []byte(`{"format": 1, "version": "0.0.9", "host": "border"}`)},
		entry{running, tar.TypeReg, []byte("version: 1\n")}, entry{earlier, tar.TypeReg, []byte("[]")})
	b, err := Read(bytes.NewReader(old), phrase)
	if err != nil || b.Running != "version: 1\n" || b.Host != "border" || !reflect.DeepEqual(b.Live, Live{}) {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestLeft: whose time is up stays out, the others go by the time they have left.
func TestLeft(t *testing.T) {
	now := time.Unix(1e9, 0)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	s := LiveSet{Name: "paid", Elements: []LiveElement{
		{"192.0.2.1", in(time.Hour)}, {"192.0.2.2", time.Time{}}, {"192.0.2.3", in(-time.Second)},
		{"192.0.2.4", in(time.Hour + 300*time.Millisecond)}, {"192.0.2.5", in(time.Minute)}, {"192.0.2.6", in(time.Millisecond)},
	}}
	want := []Batch{{0, []string{"192.0.2.2"}}, {time.Minute, []string{"192.0.2.5"}}, {time.Hour, []string{"192.0.2.1", "192.0.2.4"}}}
	if got := s.Left(now); !reflect.DeepEqual(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

func TestShortPassphrase(t *testing.T) {
	if err := Write(new(bytes.Buffer), "short", example()); err == nil {
		t.Error("a short passphrase was taken")
	}
}

// entry is one of an archive that Write would not make.
type entry struct {
	name string
	kind byte
	text []byte
}

// sealed makes an archive of any entries.
func sealed(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	recipient, err := age.NewScryptRecipient(phrase)
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10)
	outer, err := age.Encrypt(&out, recipient)
	if err != nil {
		t.Fatal(err)
	}
	zip := gzip.NewWriter(outer)
	a := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.text))}
		if e.kind == tar.TypeSymlink {
			h.Linkname = "/etc/shadow"
		}
		if err := a.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write(e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Close(), zip.Close(), outer.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBadBackups(t *testing.T) {
	good := written(t, example())
	head := entry{describing, tar.TypeReg, []byte(`{"format": 1}`)}
	file := func(name string) []byte { return sealed(t, head, entry{companions + name, tar.TypeReg, []byte("x")}) }
	many := []entry{head}
	for n := range maxFiles + 1 {
		many = append(many, entry{fmt.Sprint(companions, n), tar.TypeReg, nil})
	}
	big := entry{companions + "a", tar.TypeReg, make([]byte, maxFile)}
	for _, test := range []struct {
		what  string
		text  []byte
		pass  string
		wants error
	}{
		{"another passphrase", good, phrase + "!", ErrPassphrase},
		{"no passphrase", good, "", ErrPassphrase},
		{"nothing", nil, phrase, ErrForeign},
		{"a configuration", []byte("version: 1\n"), phrase, ErrForeign},
		{"huge", make([]byte, maxTotal+1), phrase, ErrTooBig},
		{"bytes added", append(bytes.Clone(good), 'x'), phrase, ErrDamaged},
		{"newer", sealed(t, entry{describing, tar.TypeReg, []byte(`{"format": 3, "version": "9.9"}`)}), phrase, ErrNewer},
		{"no description", sealed(t, entry{running, tar.TypeReg, nil}), phrase, ErrForeign},
		{"strange description", sealed(t, entry{describing, tar.TypeReg, []byte(`[]`)}), phrase, ErrForeign},
		{"empty archive", sealed(t), phrase, ErrForeign},
		{"upwards", file("../../etc/passwd"), phrase, ErrForeign},
		{"absolute", file("/etc/passwd"), phrase, ErrForeign},
		{"hidden", file(".ssh/authorized_keys"), phrase, ErrForeign},
		{"elsewhere", sealed(t, head, entry{"etc/passwd", tar.TypeReg, nil}), phrase, ErrForeign},
		{"a link", sealed(t, head, entry{companions + "a", tar.TypeSymlink, nil}), phrase, ErrForeign},
		{"strange leases", sealed(t, head, entry{living, tar.TypeReg, []byte(`{"leases": 7}`)}), phrase, ErrDamaged},
		{"twice", sealed(t, head, entry{companions + "a", tar.TypeReg, nil}, entry{companions + "a", tar.TypeReg, nil}), phrase, ErrForeign},
		{"a big file", sealed(t, head, entry{companions + "a", tar.TypeReg, make([]byte, maxFile+1)}), phrase, ErrTooBig},
		{"many files", sealed(t, many...), phrase, ErrTooBig},
		{"much together", sealed(t, head, big, entry{companions + "b", tar.TypeReg, big.text}, entry{companions + "c", tar.TypeReg, big.text}), phrase, ErrTooBig},
	} {
		_, err := Read(bytes.NewReader(test.text), test.pass)
		if !errors.Is(err, test.wants) {
			t.Errorf("%s: %v, want %v", test.what, err, test.wants)
		}
		if err != nil && strings.Contains(err.Error(), phrase) {
			t.Errorf("%s: the message has the passphrase", test.what)
		}
	}
}

// A backup cut anywhere, or with any byte changed, is refused.
func TestDamage(t *testing.T) {
	good := written(t, example())
	refuse := func(what string, text []byte) {
		t.Helper()
		if _, err := Read(bytes.NewReader(text), phrase); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
	step := max(1, len(good)/15) // each try costs a derived key
	for n := 0; n < len(good); n += step {
		refuse(fmt.Sprintf("cut to %d of %d bytes", n, len(good)), good[:n])
		changed := bytes.Clone(good)
		changed[n] ^= 4
		refuse(fmt.Sprintf("byte %d changed", n), changed)
	}
	refuse("the last byte cut", good[:len(good)-1])
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"minne.yaml": 0o644, "secrets.yaml": 0o600, "ssh/key": 0o600, ".new-1/key": 0o600, ".swp": 0o600} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/shadow", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var b Backup
	if err := b.Collect(dir); err != nil {
		t.Fatal(err)
	}
	want := []File{{"minne.yaml", 0o644, []byte("minne.yaml")}, {"secrets.yaml", 0o600, []byte("secrets.yaml")}, {"ssh/key", 0o600, []byte("ssh/key")}}
	if !reflect.DeepEqual(b.Files, want) || string(b.Secrets()) != "secrets.yaml" {
		t.Errorf("collected %q, want %q", b.Files, want)
	}
	if err := b.Collect(filepath.Join(dir, "absent")); err != nil {
		t.Errorf("no directory: %v", err)
	}

	// What the configuration names and the backup has not is told.
	cfg, err := config.Parse("x", []byte(`version: 1
firewall:
  sets:
    beside: {file: ssh/key}
    whole: {file: `+filepath.Join(dir, "minne.yaml")+`}
    hidden: {file: .swp}
    elsewhere: {file: /srv/blocklist.txt}
match: {sets: {up: {file: ../patterns.txt}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	missing := []config.Use{{Path: "firewall.sets.elsewhere.file", Name: "/srv/blocklist.txt"}, {Path: "firewall.sets.hidden.file", Name: ".swp"}, {Path: "labels.sets.up.file", Name: "../patterns.txt"}}
	if got := b.Missing(cfg, dir); !reflect.DeepEqual(got, missing) {
		t.Errorf("missing %v, want %v", got, missing)
	}
}

const threePorts = `version: 1
interfaces:
  # the fibre
  wan: {match: {mac: "52:54:00:00:00:01"}, addresses: [192.0.2.1/24]}
  lan:
    match:
      path: "0000:02:00.0" # second slot
    addresses: [198.51.100.1/24]
  dmz: {match: {name: eth2}, addresses: [203.0.113.1/24]}
  guests: {vlan: {parent: lan, id: 7}}
`

func port(name, mac, driver, path string, speed uint32) Port {
	return Port{Name: name, MAC: "52:54:00:00:00:" + mac, Driver: driver, Path: path, Speed: speed}
}

func of(name string, p Port) Port {
	p.Interface = name
	return p
}

var then = []Port{
	of("wan", port("wan", "01", "ixgbe", "0000:01:00.0", 10000)),
	of("lan", port("lan", "02", "igb", "0000:02:00.0", 1000)),
	of("dmz", port("dmz", "03", "igb", "0000:03:00.0", 1000)),
}

// places says where the interfaces of a mapping are.
func places(all []Mapping) string {
	var words []string
	for _, m := range all {
		word := m.From.Interface + "=" + m.To.Name
		if m.Same {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestPropose(t *testing.T) {
	cfg, err := config.Parse("test", []byte(threePorts))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what string
		here []Port
		want string
	}{
		{"the same machine", []Port{then[0], then[1], {Name: "dmz", Former: []string{"eth2"}, MAC: "52:54:00:00:00:03"}}, "dmz=dmz! lan=lan! wan=wan!"},
		{"like drivers and speeds", []Port{port("eno1", "11", "igb", "0000:05:00.0", 1000), port("eno2", "12", "ixgbe", "0000:06:00.0", 10000), port("eno3", "13", "igb", "0000:07:00.0", 1000)},
			"dmz=eno1 lan=eno3 wan=eno2"},
		{"like speeds only", []Port{port("eno1", "11", "r8169", "0000:05:00.0", 1000), port("eno2", "12", "mlx5_core", "0000:06:00.0", 10000), port("eno3", "13", "r8169", "0000:07:00.0", 1000)},
			"dmz=eno1 lan=eno3 wan=eno2"},
		{"nothing alike", []Port{port("b", "11", "x", "0000:06:00.0", 0), port("a", "12", "x", "0000:05:00.0", 0), port("c", "13", "x", "0000:07:00.0", 0)},
			"dmz=a lan=b wan=c"},
		{"too few", []Port{port("a", "12", "x", "0000:05:00.0", 0)}, "dmz=a lan= wan="},
		{"one stayed", []Port{port("new", "11", "igb", "0000:02:00.0", 1000), port("eno2", "12", "igb", "0000:06:00.0", 1000)}, "dmz=eno2 lan=new! wan="},
	} {
		if got := places(Propose(cfg, then, test.here)); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
}

func TestChoose(t *testing.T) {
	cfg, err := config.Parse("test", []byte(threePorts))
	if err != nil {
		t.Fatal(err)
	}
	here := []Port{port("a", "11", "x", "0000:05:00.0", 0), port("b", "12", "x", "0000:06:00.0", 0), port("c", "13", "x", "0000:07:00.0", 0)}
	all := Propose(cfg, then, here)
	for _, word := range []string{"wan=a", "lan=52:54:00:00:00:12", "dmz=0000:07:00.0"} {
		if err := Choose(all, here, word); err != nil {
			t.Error(err)
		}
	}
	if got := places(all); got != "dmz=c lan=b wan=a" {
		t.Errorf("chosen: %s", got)
	}
	for word, says := range map[string]string{"wan": "such as", "=a": "such as", "wlan=a": "dmz, lan, wan", "wan=z": "a, b, c"} {
		if err := Choose(all, here, word); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", word, err, says)
		}
	}
	if err := Choose(all, here, "wan=b"); err != nil || places(all) != "dmz=c lan= wan=b" {
		t.Errorf("taken from another: %v, %s", err, places(all))
	}
}

func TestRemap(t *testing.T) {
	here := []Port{port("a", "11", "x", "0000:05:00.0", 0), port("b", "12", "x", "0000:06:00.0", 0), port("c", "13", "x", "0000:07:00.0", 0)}
	mapped := func(text string, words ...string) (string, bool) {
		t.Helper()
		cfg, err := config.Parse("test", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all := Propose(cfg, then, here)
		for _, w := range words {
			if err := Choose(all, here, w); err != nil {
				t.Fatal(err)
			}
		}
		out, anew, err := Remap("test", text, all)
		if err != nil {
			t.Fatal(err)
		}
		return out, anew
	}
	got, anew := mapped(threePorts, "wan=b", "lan=c", "dmz=a")
	want := strings.NewReplacer("52:54:00:00:00:01", "52:54:00:00:00:12", "0000:02:00.0", "0000:07:00.0", "eth2", "a").Replace(threePorts)
	if got != want || anew {
		t.Errorf("remapped, anew %v:\n%s\nwant\n%s", anew, got, want)
	}
	// Ports that change places.
	got, anew = mapped("version: 1\ninterfaces:\n  x: {match: {name: a}}\n  y: {match: {name: b}} # keep\n", "x=b", "y=a")
	if got != "version: 1\ninterfaces:\n  x: {match: {name: b}}\n  y: {match: {name: a}} # keep\n" || anew {
		t.Errorf("swapped, anew %v:\n%s", anew, got)
	}
	// The name of a link is also a word of the rest, and an interface that has no match.
	for _, text := range []string{
		"version: 1\ninterfaces:\n  x: {match: {name: eth0}, description: eth0}\n",
		"version: 1\ninterfaces:\n  eth0: {addresses: [192.0.2.1/24]}\n",
	} {
		got, anew = mapped(text, strings.Fields(strings.NewReplacer("{", " ", ":", " ").Replace(strings.Split(text, "\n")[2]))[0]+"=a")
		cfg, err := config.Parse("test", []byte(got))
		if err != nil || !anew {
			t.Fatalf("%v, anew %v:\n%s", err, anew, got)
		}
		for _, i := range cfg.Interfaces {
			if i.Match.Name != "a" || (strings.Contains(text, "description") && i.Description != "eth0") {
				t.Errorf("remapped:\n%s", got)
			}
		}
	}
}
