// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every default of the schema is a value that its key takes, and one that is told from an absent key.
func TestDefaultTags(t *testing.T) {
	count := 0
	walkSections(reflect.TypeFor[Config](), "", func(path string, section reflect.Type) {
		for _, f := range fieldsOf(section) {
			if f.def == "" {
				continue
			}
			count++
			at := joinPath(path, f.name)
			if f.typ.Kind() == reflect.Slice || f.typ.Kind() == reflect.Map || f.required {
				t.Errorf("%s: a list, a section or a required key has the default %s", at, f.def)
				continue
			}
			v := reflect.New(f.typ).Elem()
			setDefault(v, f)
			if off := f.typ.Kind() == reflect.Bool; v.IsZero() != off {
				t.Errorf("%s: the default %s can't be told from an absent key: a pointer is needed", at, f.def)
			}
			if !isDefault(v, f) && v.Kind() != reflect.Pointer {
				t.Errorf("%s: %s is not itself", at, f.def)
			}
		}
	})
	if count < 40 {
		t.Errorf("found only %d defaults", count)
	}
}

const shortFile = `version: 1
system: {hostname: edge}
interfaces:
  lan: {addresses: [192.0.2.1/24], fast-path: "on"}
  wan:
    vlan: {parent: lan, id: 7}
    dhcp: on
services:
  ssh: {interfaces: [lan], port: 22}
`

// Renderers, checks and policy find a complete configuration.
func TestNormalize(t *testing.T) {
	cfg, err := Parse("x", []byte(shortFile))
	if err != nil {
		t.Fatal(err)
	}
	lan, wan := cfg.Interfaces["lan"], cfg.Interfaces["wan"]
	for name, good := range map[string]bool{
		"number":            wan.DHCPDistance == 210 && cfg.Services.SSH.Port == 22,
		"word":              cfg.System.SysctlProfile == "router" && wan.VLAN.Protocol == "802.1q" && cfg.FastPath.Mode == "auto",
		"switch":            lan.FastPath.On() && wan.FastPath.On() && wan.DHCP.On() && lan.DHCP != nil && !lan.DHCP.On(),
		"section not there": cfg.Firewall.ICMPLimit == 100 && cfg.Firewall.Defaults.Action == "deny" && cfg.FastPath.Guard.Mode.On(),
		"nothing asked for": cfg.Routing.BGP == nil && cfg.Services.DNS == nil && len(cfg.Services.DHCP) == 0,
		"written":           cfg.Written("services.ssh.port") && cfg.Written("interfaces.lan.fast-path") && !cfg.Written("interfaces.wan.fast-path"),
	} {
		if !good {
			t.Errorf("%s is wrong", name)
		}
	}
	built := &Config{Interfaces: map[string]*Interface{"lan": nil}, Routing: Routing{OSPF: &OSPF{Areas: map[AreaID]*OSPFArea{
		0: {Interfaces: map[string]*OSPFInterface{"lan": nil, "wan": {Hello: Duration(5 * time.Second)}}}}}}}
	Normalize(built)
	area := built.Routing.OSPF.Areas[0]
	if built.Interfaces["lan"].AntiSpoof != "off" || *area.Interfaces["lan"].Priority != 1 || area.Interfaces["wan"].Hello != Duration(5*time.Second) ||
		area.Interfaces["wan"].Dead != Duration(40*time.Second) {
		t.Errorf("built by a program: %+v, %+v", built.Interfaces["lan"], area.Interfaces["wan"])
	}
}

// What an operator wrote is not mixed with what applies anyhow: the canonical form has the keys of the
// file, those too that repeat a default, and no others. Else a default of a later version would look like
// a change.
func TestDefaultsAreNotTheOperators(t *testing.T) {
	cfg, err := Parse("x", []byte(shortFile))
	if err != nil {
		t.Fatal(err)
	}
	want := `version: 1
system:
  hostname: edge
interfaces:
  lan:
    addresses: [192.0.2.1/24]
    fast-path: on
  wan:
    vlan:
      parent: lan
      id: 7
    dhcp: on
services:
  ssh:
    interfaces: [lan]
    port: 22
`
	if got := string(Marshal(cfg)); got != want {
		t.Errorf("%s", Diff([]byte(want), []byte(got), "want", "got"))
	}
	for _, file := range wholeFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again", Marshal(cfg))
		if err != nil {
			t.Fatal(err)
		}
		for path := range again.source.at {
			if !cfg.Written(path) {
				t.Errorf("%s: %s is not the operator's", file, path)
			}
		}
	}
}

// wholeFiles are the examples of the documentation.
func wholeFiles(t *testing.T) []string {
	files, err := filepath.Glob("../../../docs/examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	return files
}

// The effective configuration makes the same router, says every default, and marks it as one.
func TestEffective(t *testing.T) {
	cfg, err := Parse("x", []byte(shortFile))
	if err != nil {
		t.Fatal(err)
	}
	got := string(Effective(cfg))
	for _, line := range []string{"  hostname: edge\n", "  sysctl-profile: router  # default\n", "    port: 22\n", "    passwords: off  # default\n",
		"    fast-path: on\n", "    fast-path: on  # default\n", "    dhcp: on\n", "    dhcp: off  # default\n", "      protocol: 802.1q  # default\n",
		"    disabled: off  # default\n", "  icmp-limit: 100  # default\n", "fast-path:\n  mode: auto  # default\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("lacks %q:\n%s", line, got)
		}
	}
	for _, file := range wholeFiles(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		made := Effective(cfg)
		complete, err := Parse("effective", made)
		if err == nil {
			err = Check(complete, UnreadSecrets())
		}
		if err != nil || !Equal(cfg, complete) {
			t.Errorf("%s: %v\n%s", file, err, made)
			continue
		}
		if rest := Effective(complete); bytes.Contains(rest, []byte("# default")) {
			t.Errorf("%s: not every default was said:\n%s", file, rest)
		}
	}
}
