// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/model/api"
)

// openHome is a home router as many begin: right, and open to everybody.
const openHome = `version: 1
interfaces:
  lan: {addresses: [192.168.77.1/24]}
  wan: {addresses: [198.51.100.2/24]}
routing:
  static: [{prefix: 0.0.0.0/0, via: [198.51.100.1]}]
`

// What is right but open is said wherever a file is looked at, with its place and a caret, and in the
// JSON too.
func TestWarningsReachTheOperator(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file := b.file("home.yaml", openHome)
	where, caret := "home.yaml:4:3: no firewall: ", "\n      |   ^"
	said := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, where) || !strings.Contains(text, caret) {
			t.Errorf("%s says nothing of the missing firewall:\n%s", what, text)
		}
	}
	wantJSON := func(what string, args ...string) {
		t.Helper()
		var r api.Result
		a := b.want(exitOK, "", append(args, "--json")...)
		if err := json.Unmarshal([]byte(a.out), &r); err != nil {
			t.Fatal(err)
		}
		said(what+" --json", strings.Join(r.Warnings, "\n"))
	}
	said("check", b.want(exitOK, "is valid, with 2 warnings", "check", file).err)
	var checked Checked
	if err := json.Unmarshal([]byte(b.want(exitOK, "", "check", "--json", file).out), &checked); err != nil {
		t.Fatal(err)
	}
	if !checked.Right || len(checked.Warnings) != 2 || checked.Warnings[1].Line != 4 || checked.Warnings[1].Path != "interfaces.wan" {
		t.Errorf("check --json: %+v", checked)
	}
	said("dry run without a daemon", b.want(exitOK, "", "apply", "--dry-run", file).err)
	b.start()
	said("dry run", b.want(exitOK, "", "apply", "--dry-run", file).err)
	wantJSON("dry run", "apply", "--dry-run", file)
	said("apply", b.want(exitOK, "applied", "apply", file).err)
	wantJSON("apply of the same", "apply", file)

	// A wrong file in JSON: every problem, and the exit code of one.
	checked = Checked{}
	if err := json.Unmarshal([]byte(b.want(exitInvalid, "", "check", "--json", b.file("bad.yaml", "version: 1\ninterfacess: {}\n")).out), &checked); err != nil {
		t.Fatal(err)
	}
	if checked.Right || len(checked.Problems) != 1 || checked.Problems[0].Nearest != "interfaces" {
		t.Errorf("check --json of a wrong file: %+v", checked)
	}
}

// An error about a secret says which file was read; a machine that only prepares files may have it
// beside the configuration.
func TestWhichSecretsFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file := b.file("laptop/peer.yaml", `version: 1
system: {router-id: 192.0.2.1}
interfaces: {wan: {addresses: [198.51.100.2/24]}}
routing: {bgp: {asn: 64500, announce: [203.0.113.0/24], peers: {isp: {address: 198.51.100.1, asn: 64496, password: isp, import: {max-prefixes: {ipv4: 10}}}}}}
`)
	own := filepath.Join(b.root, "etc/minne/instances", b.name, "secrets.yaml")
	b.want(exitInvalid, own+" (which does not exist)", "check", file)
	b.want(exitFailed, "mode 0644", "check", beside(b, "isp: hush\n", 0o644))
	b.want(exitInvalid, "one of the secrets other of "+filepath.Join(b.root, "laptop/secrets.yaml"), "check", beside(b, "other: hush\n", 0o600))
	b.want(exitOK, "is valid", "check", beside(b, "isp: hush\n", 0o600))
	b.here("secrets.yaml", "mine: hush\n", 0o600) // the instance's own goes first
	b.want(exitInvalid, "one of the secrets mine of "+own, "check", file)
}

// beside puts a secrets file beside the configuration of a laptop, and returns the configuration.
func beside(b *box, secrets string, mode os.FileMode) string {
	b.t.Helper()
	if err := os.Chmod(b.file("laptop/secrets.yaml", secrets), mode); err != nil {
		b.t.Fatal(err)
	}
	return filepath.Join(b.root, "laptop/peer.yaml")
}
