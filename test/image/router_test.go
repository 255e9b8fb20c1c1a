// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"minne/internal/testing/testimage"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// plain is a router between two networks, its ports found by their MAC addresses.
const plain = `version: 1
system: {hostname: edge}
interfaces:
  wan: {match: {mac: "52:54:00:00:00:01"}, addresses: [198.51.100.2/24, 2001:db8:1::2/64], zone: wan}
  lan: {match: {mac: "52:54:00:00:00:02"}, addresses: [192.0.2.1/24, 2001:db8:2::1/64], zone: lan}
firewall:
  policies:
    - {from: wan, to: lan, default: permit}
    - {from: lan, to: wan, default: permit}
`

// shell gets a shell on the console of a machine without configuration.
func shell(m *testimage.Machine) {
	m.Expect(`s opens a shell: `)
	m.Type("s\n")
	m.Expect(`# `)
	m.Run("stty -echo; dmesg -n 1")
}

// login gets a shell on the console of a router whose admin has no password.
func login(m *testimage.Machine) {
	m.Expect(`No password is set\.`)
	m.Expect(`# `)
	m.Run("stty -echo; dmesg -n 1")
}

// signIn gets a shell on the console of a router whose admin has a password.
func signIn(m *testimage.Machine, password string) {
	for range 3 {
		m.Expect(`login: `)
		m.Type("admin\n")
		m.Expect(`assword: `)
		time.Sleep(time.Second) // login forgets what was typed before it had switched the echo off
		m.Type(password + "\n")
		if m.Expect(`# |Login incorrect`)[0] == "# " {
			break
		}
	}
	m.Run("stty -echo; dmesg -n 1")
}

// up gets a shell on the console of a router that forwards, and returns after how many
// seconds it did. The console's shell may be there before or after.
func up(m *testimage.Machine) string {
	login(m)
	m.Run(`until minne show boot --json | grep -q '"forwarding": [1-9]'; do sleep 1; done`)
	return strings.TrimSpace(m.Run("minne show boot | sed -n 's/ s  forwarding *//p'"))
}

// configure commits a configuration from the console.
func configure(m *testimage.Machine, text string) {
	m.Write("/tmp/minne.yaml", text)
	m.Run("minne apply /tmp/minne.yaml")
}

// TestRouter is a router's first day: it boots with nothing, is given a configuration,
// forwards, is restarted, and forwards again. Of its medium only the partition of the
// configuration, the boot state and the identifiers in the partition tables have changed.
func TestRouter(t *testing.T) {
	disk := testimage.Copy(t)
	m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	shell(m)
	if out := m.Run("nft list table inet minne-boot"); strings.Count(out, "policy drop") != 2 {
		t.Errorf("before the first configuration the filter is:\n%s", out)
	}
	if out := m.Run("cat /proc/sys/net/ipv4/ip_forward; ip -br link show"); !strings.HasPrefix(out, "0\n") {
		t.Errorf("forwards before the first configuration: %s", out)
	}
	configure(m, plain)
	m.Run("test -z \"$(nft list table inet minne-boot 2>/dev/null)\"")
	if out := m.Run("grep ' /config ' /proc/mounts"); !strings.Contains(out, " ro,") {
		t.Errorf("after a commit the medium is still writable: %s", out)
	}
	forwards(t, m)
	t.Log(m.Run("minne show boot; minne status; free -m | head -2"))

	m.Type("reboot\n")
	m.Expect(`Minne: slot a`)
	t.Logf("forwarding %s s after the kernel's start", up(m))
	forwards(t, m)
	m.Run("minne show boot --json | grep -q '\"slot\": \"a\"'")
	unchanged(t, m, disk)
}

// forwards checks that frames come out of the other port as a router's should: both
// ways, both families, TTL one less, MAC addresses of the next hop.
func forwards(t *testing.T, m *testimage.Machine) {
	t.Helper()
	wan := host{t: t, port: m.Ports[0], name: "wan", mac: hostMAC(0)}
	lan := host{t: t, port: m.Ports[1], name: "lan", mac: hostMAC(1)}
	for _, c := range []struct {
		from, to         host
		src, dst         string
		gateway, routers string
	}{
		{wan, lan, "198.51.100.9", "192.0.2.10", testimage.PortMAC(0), testimage.PortMAC(1)},
		{lan, wan, "192.0.2.10", "198.51.100.9", testimage.PortMAC(1), testimage.PortMAC(0)},
		{wan, lan, "2001:db8:1::9", "2001:db8:2::10", testimage.PortMAC(0), testimage.PortMAC(1)},
		{lan, wan, "2001:db8:2::10", "2001:db8:1::9", testimage.PortMAC(1), testimage.PortMAC(0)},
	} {
		t.Logf("%s → %s", c.src, c.dst)
		through(t, c.from, c.to, c.src, c.dst, c.gateway, c.routers)
	}
}

// unchanged ends the machine and compares its disk with the image outside of the
// partition of the configuration, the boot state, and the MiB at the begin and the end, where partition tables are.
func unchanged(t *testing.T, m *testimage.Machine, disk string) {
	t.Helper()
	m.Off()
	p := partitions(t, disk)
	config, state := p["minne-config"], p["minne-state"]
	info, err := os.Stat(imageFile(t))
	if err != nil {
		t.Fatal(err)
	}
	before, now := open(t, imageFile(t)), open(t, disk)
	const step = 1 << 20
	a, b := make([]byte, step), make([]byte, step)
	changed := false
	for at := int64(0); ; at += step {
		n, err := before.ReadAt(a, at)
		k, err2 := now.ReadAt(b, at)
		if n != k || (err == nil) != (err2 == nil) {
			t.Fatalf("the disk has another length at %d", at)
		}
		differs := !bytes.Equal(a[:n], b[:k])
		inside := at >= config.start && at < config.start+config.size
		changed = changed || differs && inside
		if differs && !inside && at != state.start && at != 0 && at != info.Size()-step {
			t.Errorf("the medium was written to outside of the configuration, in the MiB at %d", at)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !changed {
		t.Error("the partition of the configuration was not written either")
	}
}

func open(t *testing.T, file string) *os.File {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func hostMAC(i int) [6]byte { return [6]byte{0x02, 0, 0, 0, 0xff, byte(i + 1)} }

func parseMAC(text string) (mac [6]byte) {
	if _, err := fmt.Sscanf(text, "%02x:%02x:%02x:%02x:%02x:%02x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5]); err != nil {
		panic(err)
	}
	return mac
}
