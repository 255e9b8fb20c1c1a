// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// A network in which everything occurs.
const good = `version: 1
description: all roles
nodes:
  a: {runs: host, ports: {eth0: [10.0.0.2/24, fd00::2/64]}, gateway: [10.0.0.1, fd00::1]}
  r:
    runs: minne
    secrets: |
      peer: not-told
    config: |
      version: 1
      interfaces:
        left: {addresses: [10.0.0.1/24, fd00::1/64]}
        right: {addresses: [10.0.1.1/24]}
  s: {runs: bridge}
  k:
    runs: kernel
    ports:
      up: [10.0.1.2/24]
      lo: [10.9.9.9/32]
    routes:
      - {prefix: 10.0.0.0/16, via: 10.0.1.1}
links:
  - {ends: [a.eth0, r.left]}
  - {ends: [r.right, s.p1], mtu: 9000}
  - {ends: [s.p2, k.up]}
`

func TestTopologyOfABlueprint(t *testing.T) {
	b, err := Parse("dir/all.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	topology := b.Topology()
	if topology.Name != "all" || len(topology.Nodes) != 4 || len(topology.Links) != 3 {
		t.Fatalf("%+v", topology)
	}
	a, k, r, s := topology.Nodes[0], topology.Nodes[1], topology.Nodes[2], topology.Nodes[3]
	if len(a.Routes) != 2 || a.Routes[1].To.String() != "::/0" || a.Routes[1].Via.String() != "fd00::1" || a.Forwards {
		t.Errorf("host: %+v", a)
	}
	if !k.Forwards || len(k.Loopback) != 1 || len(k.Routes) != 1 {
		t.Errorf("kernel router: %+v", k)
	}
	if r.Forwards || r.Bridge || !s.Bridge {
		t.Errorf("Minne %+v, bridge %+v", r, s)
	}
	cable := topology.Links[1]
	if cable.MTU != 9000 || cable.A.Name != "right" || !cable.B.Silent || cable.A.Silent {
		t.Errorf("cable: %+v", cable)
	}
	if at := topology.Links[0].A; len(at.Addresses) != 2 || at.Addresses[1].String() != "fd00::2/64" {
		t.Errorf("port: %+v", at)
	}
}

func TestBuiltinTopologiesAndExamplesAreValid(t *testing.T) {
	names := Names()
	files, err := filepath.Glob("../../../docs/examples/lab/*.yaml")
	if err != nil || len(files) == 0 || len(names) < 3 {
		t.Fatalf("%v %v (%v)", names, files, err)
	}
	for _, name := range append(names, files...) {
		b, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b.Description == "" || len(b.Hints()) == 0 || len(b.Describe()) != len(b.Nodes) {
			t.Errorf("%s: description %q, hints %q, described %q", name, b.Description, b.Hints(), b.Describe())
		}
	}
}

// Each mistake is made by exchanging a text of the good network; the message names place and way out.
func TestMistakesAreRefusedWithTheirPlace(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		says           []string
	}{
		{"unknown key", "gateway:", "gatway:", []string{"all.yaml:4:61", "unknown key", "did you mean gateway?"}},
		{"unknown role", "runs: kernel", "runs: kernle", []string{"all.yaml:16:11", "did you mean kernel?"}},
		{"no role", "{runs: bridge}", "{}", []string{"all.yaml:14:3", "lacks runs"}},
		{"another version", "version: 1\ndesc", "version: 2\ndesc", []string{"all.yaml:1:10", "version"}},
		{"unknown node", "[s.p2, k.up]", "[s.p2, kk.up]", []string{"all.yaml:25:19", `no node "kk"`}},
		{"near node", "[a.eth0, r.left]", "[a.eth0, rr.left]", []string{"all.yaml:23:21", `no node "rr"`, "did you mean r?"}},
		{"no port", "[a.eth0, r.left]", "[a.eth0, r]", []string{"all.yaml:23:21", "names no port", "NODE.PORT"}},
		{"one end", "[a.eth0, r.left]", "[a.eth0]", []string{"all.yaml:23:6", "1 ends"}},
		{"two cables", "[s.p2, k.up]", "[s.p1, k.up]", []string{"all.yaml:25:13", "s.p1 has two cables, the first in line 24"}},
		{"port without cable", "eth0: [10", "eth1: [10", []string{"all.yaml:4:27", "a.eth1 has no cable", "did you mean a.eth0?"}},
		{"cable to itself", "[s.p2, k.up]", "[k.up, k.up]", []string{"k.up has two cables, the first in line 25"}},
		{"long port", "s.p2", "s.sixteen-bytes-xx", []string{"all.yaml:25:13", "at most 15"}},
		{"long node", "s: {runs", "switch-of-16-lett: {runs", []string{"all.yaml:14:3", "at most 15"}},
		{"address twice", "10.0.1.2/24", "10.0.0.2/24", []string{"all.yaml:18:12", "belongs to a.eth0 already"}},
		{"address without length", "10.0.1.2/24", "10.0.1.2", []string{"all.yaml:18:12", "no prefix length"}},
		{"gateway elsewhere", "gateway: [10.0.0.1", "gateway: [10.0.7.1", []string{"all.yaml:4:71", "10.0.7.1 is on no network of this node"}},
		{"two gateways", "[10.0.0.1, fd00::1]}", "[10.0.0.1, 10.0.0.3]}", []string{"all.yaml:4:81", "second gateway"}},
		{"route elsewhere", "via: 10.0.1.1", "via: 10.0.2.1", []string{"all.yaml:21:36", "on no network"}},
		{"route of two families", "via: 10.0.1.1", "via: fd00::1", []string{"all.yaml:21:36", "two families"}},
		{"host bits", "10.0.0.0/16", "10.0.0.1/16", []string{"all.yaml:21:18", "did you mean 10.0.0.0/16?"}},
		{"address on a bridge", "{runs: bridge}", "{runs: bridge, ports: {p1: [10.7.7.7/24]}}", []string{"all.yaml:14:29", "belong to the machines"}},
		{"configured bridge", "{runs: bridge}", "{runs: bridge, config: x.yaml}", []string{"all.yaml:14:29", "takes no configuration"}},
		{"no configuration", "runs: kernel", "runs: bird", []string{"all.yaml:15:3", "has no configuration"}},
		{"missing file", "runs: kernel", "runs: bird\n    config: none.conf", []string{"all.yaml:17:13", "dir/none.conf", "no such file"}},
		{"mistake in a Minne's configuration", "right: {addresses", "right: {adresses", []string{"all.yaml:13:17", "unknown key", "did you mean addresses?"}},
		{"contradiction in a Minne's configuration", "[10.0.1.1/24]", "[10.0.0.9/24]", []string{"all.yaml:13:29"}},
		{"interface without cable", "right: {addresses", "rihgt: {addresses", []string{"all.yaml:9:13", "interface rihgt, to which no cable leads", "cables at left, right", "did you mean right?"}},
		{"image of a namespace", "runs: kernel", "runs: kernel\n    image: x.img", []string{"only a node in QEMU boots an image"}},
		{"bridge in QEMU", "{runs: bridge}", "{runs: bridge, machine: qemu, image: x.img}", []string{"all.yaml:14:30", "can't run in QEMU"}},
		{"no image", "runs: minne", "runs: minne\n    machine: qemu", []string{"there is no image to boot", "./dev image"}},
		{"Minne in QEMU", "runs: minne", "runs: minne\n    machine: qemu\n    image: x.img\n    card: e1000e", []string{}},
		{"card that nobody knows", "runs: minne", "runs: minne\n    machine: qemu\n    image: x.img\n    card: e1000f", []string{"did you mean"}},
		{"MTU", "mtu: 9000", "mtu: 90", []string{}},
		{"tiny MTU", "mtu: 9000", "mtu: 9", []string{"all.yaml:24:34", "out of range"}},
		{"anchor", "a: {runs", "a: &x {runs", []string{"all.yaml:4:6", "an anchor"}},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Errorf("%s: %q is not in the network", c.name, c.old)
		}
		_, err := Parse("dir/all.yaml", []byte(text))
		if len(c.says) == 0 {
			if err != nil {
				t.Errorf("%s: %v, expected none", c.name, err)
			}
			continue
		}
		var refused *config.Error
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v, expected a refusal", c.name, err)
			continue
		}
		for _, word := range append(c.says, "^") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: expected %q in\n%v", c.name, word, err)
			}
		}
		if strings.Contains(err.Error(), "not-told") {
			t.Errorf("%s: the secret is told:\n%v", c.name, err)
		}
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":     {"", "the file is empty"},
		"no nodes":  {"version: 1\n", "lacks nodes"},
		"nodes: {}": {"version: 1\nnodes: {}\n", "there is no node"},
		"binary":    {"\x00\x01\x02", "zero byte"},
		"list":      {"- a\n- b\n", "a section"},
		"secret":    {strings.Replace(good, "peer: not-told", "peer not-told", 1), "secret"},
	} {
		if _, err := Parse("x.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "not-told") {
			t.Errorf("%s: %v, expected %q", name, err, c.says)
		}
	}
	directory := t.TempDir()
	for name, says := range map[string]string{
		"ruter":   "did you mean router?",
		directory: "no regular file",
	} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", name, err, says)
		}
	}
}

// Names of files are relative to the blueprint's, and places in them are the file's own.
func TestConfigurationsInFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write("lab.yaml", "version: 1\nnodes:\n  r: {runs: minne, config: r.yaml, secrets: s.yaml}\n")
	write("s.yaml", "key: value\n")
	write("r.yaml", "version: 1\nsystem: {hostname: r}\n")
	if b, err := Load(path); err != nil || b.Nodes["r"].text == "" || b.Nodes["r"].secretsText != "key: value\n" {
		t.Fatalf("%+v (%v)", b, err)
	}
	bad := write("r.yaml", "version: 1\nsytem: {hostname: r}\n")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), bad+":2:1") {
		t.Errorf("%v, expected the place %s:2:1", err, bad)
	}
}

// What the guide shows is valid, and it names every key and every role.
func TestTheGuideIsRight(t *testing.T) {
	text, err := os.ReadFile("../../../docs/guides/lab-topologies.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```topology\n")[1:]
	if len(blocks) == 0 {
		t.Error("the guide shows no topology")
	}
	for _, b := range blocks {
		shown, _, _ := strings.Cut(b, "```")
		if _, err := Parse("guide.yaml", []byte(shown)); err != nil {
			t.Error(err)
		}
	}
	for _, schema := range []reflect.Type{reflect.TypeFor[Blueprint](), reflect.TypeFor[Node](), reflect.TypeFor[Route](), reflect.TypeFor[Link]()} {
		for i := range schema.NumField() {
			key := schema.Field(i).Tag.Get("yaml")
			if key != "" && !strings.Contains(string(text), key+":") && !strings.Contains(string(text), key+"`") {
				t.Errorf("the guide does not tell of %s", key)
			}
			for role := range strings.SplitSeq(schema.Field(i).Tag.Get("enum"), ",") {
				if key == "runs" && !strings.Contains(string(text), "| `"+role+"` |") {
					t.Errorf("the guide does not tell what runs: %s is", role)
				}
			}
		}
	}
}
