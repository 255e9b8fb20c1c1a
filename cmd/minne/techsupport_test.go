// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpacked returns the files of an archive by name.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(h.Name, "minne-tech-support/")] = string(text)
	}
}

// spellings are the ways in which a program may print a secret.
func spellings(secret string) []string {
	quoted, _ := json.Marshal(secret)
	return []string{secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))}
}

// TestTechSupportHoldsNoSecrets looks for every secret of a router in all of its archive.
func TestTechSupportHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"isp":    `br"own<fox>jumps`, // JSON writes it in another way
		"campus": "lazydogsleeps",
		"hash":   "$6$saltsalt$abcdefghijklmnopqrstuvwxyz0123456789",
		"unused": "neverused1234",
	}
	b := newBox(t)
	b.start()
	var text strings.Builder
	for name, value := range secrets {
		text.WriteString(name + ": '" + value + "'\n")
	}
	b.here("secrets.yaml", text.String(), 0o600)
	b.here("ssh/ssh_host_ed25519_key", "-----BEGIN OPENSSH PRIVATE KEY-----\nhostkeyhostkey\n", 0o600)
	b.want(exitOK, "revision 1", "apply", b.file("all.yaml", `version: 1
system: {router-id: 192.0.2.1}
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  wan: {addresses: [198.51.100.1/24]}
routing:
  bgp:
    asn: 64500
    peers: {isp: {address: 198.51.100.2, asn: 64496, password: isp}}
  ospf:
    areas: {0: {interfaces: {lan: {auth: {key-id: 1, secret: campus}}}}}
`))
	file := filepath.Join(b.root, "support.tar.gz")
	b.want(exitOK, "secrets redacted", "tech-support", "-o", file)
	files := unpacked(t, file)
	if frr := files["system/frr-running-config.txt"]; !strings.Contains(frr, "router bgp 64500") {
		t.Fatalf("the archive lacks FRR's configuration:\n%s", frr)
	}
	if !strings.Contains(files["minne.yaml"], "password: isp") {
		t.Errorf("the archive lacks the configuration:\n%s", files["minne.yaml"])
	}
	secrets["host key"] = "hostkeyhostkey"
	for name, value := range secrets {
		for _, spelling := range spellings(value) {
			for file, text := range files {
				if strings.Contains(text, spelling) {
					t.Errorf("%s holds the secret %s", file, name)
				}
			}
		}
	}
	shadow, err := os.ReadFile("/etc/shadow")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(shadow)) {
		if hash := strings.Split(line, ":")[1]; len(hash) > 8 {
			for file, text := range files {
				if strings.Contains(text, hash) {
					t.Errorf("%s holds a hash of /etc/shadow", file)
				}
			}
		}
	}

	b.want(exitUsage, "one of them", "tech-support", "--to-stick", "-o", file)
}

// TestTechSupportWithoutDaemon is for the router that does not start.
func TestTechSupportWithoutDaemon(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	file := filepath.Join(b.root, "support.tar.gz")
	b.want(exitOK, "secrets redacted", "tech-support", "-o", file, "--wait", "300ms")
	files := unpacked(t, file)
	if !strings.Contains(files["status.json"], "not available") || files["version.txt"] == "" || !strings.Contains(files["system/uname--a.txt"], "Linux") {
		t.Errorf("status %q, version %q, system %q", files["status.json"], files["version.txt"], files["system/uname--a.txt"])
	}
	// Without the secrets nothing could be redacted.
	b.here("secrets.yaml", "isp: x\n", 0o644)
	b.want(exitFailed, "nothing could be redacted", "tech-support", "-o", file)
}
