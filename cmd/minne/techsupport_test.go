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

	"minne/internal/model/config"
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
	// Secrets of the kernel, which nobody has named in the file.
	kernels := map[string]string{
		"/proc/sys/net/ipv4/tcp_fastopen_key":           "0a1b2c3d-4e5f6071-8293a4b5-c6d7e8f9",
		"/proc/sys/net/ipv6/conf/lan/stable_secret":     "2001:db8:1234:5678:9abc:def0:1111:2222",
		"/proc/sys/net/ipv6/conf/default/stable_secret": "2001:db8:8765:4321:cba9:fed:3333:4444",
	}
	for path, value := range kernels {
		b.inside("echo " + value + " >" + path)
		secrets[path] = value
	}
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

// Keys are hidden however programs print them, and what is none stays.
func TestRedact(t *testing.T) {
	t.Parallel()
	const key, base = "0x0123456789abcdef0123456789abcdef01234567", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
	r := newRedactor(config.Secrets{})
	for _, line := range []string{
		"\taead rfc4106(gcm(aes)) " + key + " 128",
		"\tauth-trunc hmac(sha1) " + key + " 96",
		"\tenc cbc(aes) " + key,
		"  private key: " + base,
		"PresharedKey = " + base,
		"net.ipv4.tcp_fastopen_key = 0a1b2c3d-4e5f6071-8293a4b5-c6d7e8f9",
		"net.ipv6.conf.lan/7.stable_secret = 2001:db8::1",
		"net.core.netdev_rss_key = 6d:5a:56:da:25:5b",
		"net.ipv4.fib_multipath_hash_seed = 4711",
		" neighbor 198.51.100.2 password 8 hunter2hunter2",
		" ip ospf message-digest-key 1 md5 hunter2hunter2",
		" ip ospf authentication-key hunter2hunter2",
	} {
		got := string(r.do([]byte(line + "\n")))
		for _, secret := range []string{key, base, "0a1b2c3d", "2001:db8::1", "6d:5a", "4711", "hunter2"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q became %q", line, got)
			}
		}
	}
	for _, line := range []string{"net.ipv4.tcp_syncookies = 1", "net.ipv4.tcp_keepalive_time = 7200", "2: lan: <BROADCAST> mtu 1500 link/ether 52:54:00:12:34:56"} {
		if got := string(r.do([]byte(line))); got != line {
			t.Errorf("%q became %q", line, got)
		}
	}
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
	b.want(exitFailed, "cannot be removed from the archive", "tech-support", "-o", file)
}
