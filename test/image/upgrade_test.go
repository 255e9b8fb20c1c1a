// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/base/keyfile"
	"minne/internal/testing/testimage"
)

// reachable is "plain" with a third port behind which the host is that has the upgrades.
const reachable = `version: 1
system: {hostname: edge}
interfaces:
  wan: {match: {mac: "52:54:00:00:00:01"}, addresses: [198.51.100.2/24, 2001:db8:1::2/64], zone: wan}
  lan: {match: {mac: "52:54:00:00:00:02"}, addresses: [192.0.2.1/24, 2001:db8:2::1/64], zone: lan}
  up: {match: {mac: "52:54:00:00:00:10"}, addresses: [10.0.2.15/24], zone: wan}
firewall:
  policies:
    - {from: wan, to: lan, default: permit}
    - {from: lan, to: wan, default: permit}
routing:
  static:
    - {prefix: 0.0.0.0/0, via: [10.0.2.2]}
`

// behind is that third port, as arguments of QEMU: the machine reaches this process's loopback as 10.0.2.2.
var behind = []string{"-netdev", "user,id=up", "-device", "virtio-net-pci,netdev=up,mac=52:54:00:00:00:10"}

// upgrades are files behind a web server, all of build/minne.upgrade but as other versions.
type upgrades struct {
	t   *testing.T
	dir string
	url string // as the router sees it
	key ed25519.PrivateKey
	was slot.System // what the image is
}

// serve starts the web server, in this test's own network.
func serve(t *testing.T) *upgrades {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	key, err := keyfile.Private("../../build/upgrade.key")
	if err != nil {
		t.Fatalf("%v (./dev image makes it)", err)
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upgrades{t: t, dir: t.TempDir(), key: key, url: fmt.Sprintf("http://10.0.2.2:%d/", socket.Addr().(*net.TCPAddr).Port)}
	server := &http.Server{Handler: http.FileServer(http.Dir(u.dir)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(socket) }()
	t.Cleanup(func() { server.Close() })
	f := open(t, "../../build/minne.upgrade")
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	trailer, err := slot.Read(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if !trailer.Signed(key.Public().(ed25519.PublicKey)) {
		t.Fatal("build/minne.upgrade is not signed by build/upgrade.key: make the image with this key")
	}
	u.was = trailer.System
	return u
}

// offer makes an upgrade file of a payload, the image's own when there is none. It returns its name.
func (u *upgrades) offer(version, payload string, change func(*slot.System), key ed25519.PrivateKey) string {
	u.t.Helper()
	if payload == "" {
		payload = "../../build/minne.upgrade"
	}
	in := open(u.t, payload)
	system := u.was
	system.Version = version
	system.Built = u.was.Built.Add(time.Hour)
	if payload != "../../build/minne.upgrade" {
		var err error
		if system, err = slot.Describe(system, in); err != nil {
			u.t.Fatal(err)
		}
	}
	if change != nil {
		change(&system)
	}
	trailer, err := slot.Seal(system, key)
	if err != nil {
		u.t.Fatal(err)
	}
	name := "minne-" + version + ".upgrade"
	out, err := os.Create(filepath.Join(u.dir, name))
	if err != nil {
		u.t.Fatal(err)
	}
	if _, err = io.Copy(out, io.NewSectionReader(in, 0, system.Size)); err == nil {
		_, err = out.Write(trailer)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		u.t.Fatal(err)
	}
	return name
}

// upgradable is a machine that reaches the upgrades, logged in.
func upgradable(t *testing.T, o testimage.Options) *testimage.Machine {
	t.Helper()
	o.Ports, o.Extra = 2, behind
	m := testimage.Boot(t, o)
	up(m)
	configure(m, reachable)
	m.Run("until ping -c 1 -W 1 10.0.2.2 >/dev/null; do sleep 1; done")
	return m
}

// runs waits until a slot forwards, and gets a shell there.
func runs(m *testimage.Machine, name string) {
	m.Expect(`Minne: slot ` + name)
	up(m)
}

// stays waits until a slot that is tried is found good, and gets a shell there.
func stays(t *testing.T, m *testimage.Machine, name string) {
	t.Helper()
	runs(m, name+` minne\.try=1`)
	m.Run("until minne upgrade --status --json | grep -q '\"outcome\": \"good\"'; do sleep 1; done")
	said(t, m.Said(), "the trial of slot "+name+" passed: the router boots it from now on")
}

// said checks what a command printed.
func said(t *testing.T, out string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not said:\n%s", w, out)
		}
	}
}

// refused checks that an upgrade is not taken and the other slot not touched.
func refused(t *testing.T, m *testimage.Machine, disk, name, why string) {
	t.Helper()
	before := state(t, disk)
	out, code := m.Try("minne upgrade " + name)
	if code != "1" || !strings.Contains(out, why) {
		t.Errorf("%s: exit code %s, expected a refusal with %q:\n%s", name, code, why, out)
	}
	p := partitions(t, disk)["minne-b"]
	if content, err := io.ReadAll(io.NewSectionReader(open(t, disk), p.start, p.size)); err != nil || len(bytes.Trim(content, "\x00")) > 0 {
		t.Errorf("%s: the other slot was written to: %v", name, err)
	}
	if now := state(t, disk); now != before {
		t.Errorf("%s: the boot state became %+v", name, now)
	}
}

// TestUpgrade refuses what must be refused, upgrades over HTTP, and goes back. All that
// the machine writes to its disk is kept, and the power cut at many moments of it.
func TestUpgrade(t *testing.T) {
	u := serve(t)
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := u.offer("next", "", nil, u.key)
	disk, log := configured(t), filepath.Join(t.TempDir(), "log")
	base := filepath.Join(t.TempDir(), "base.img")
	copySparse(t, disk, base)
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := upgradable(t, testimage.Options{Disk: disk, Log: log})
	s := session{t: t, log: log}
	s.commits(m)

	refused(t, m, disk, u.url+u.offer("stranger", "", nil, stranger), "not signed by a trusted key")
	refused(t, m, disk, u.url+u.offer("unsigned", "", nil, nil), "it is not signed")
	refused(t, m, disk, u.url+u.offer("arm", "", func(s *slot.System) { s.Arch = "arm64" }, u.key), "is for arm64: this router is amd64")
	refused(t, m, disk, u.url+u.offer("older", "", func(s *slot.System) { s.Built = u.was.Built.Add(-time.Hour) }, u.key), "--downgrade")
	refused(t, m, disk, "none.upgrade", "neither in this directory nor on the medium's FAT partition")

	s.begin = s.now()
	m.Type("minne upgrade " + u.url + good + "\n")
	m.Expect(`must work again: 3 interfaces, 0 sessions, 1 hosts`)
	m.Expect(`restarting into slot b`)
	s.written = s.now()
	stays(t, m, "b")
	s.judged = s.now()
	forwards(t, m)
	if got := state(t, disk); got != (slot.State{Slot: "b"}) {
		t.Errorf("boot state after the trial: %+v", got)
	}
	out := m.Run("minne upgrade --status")
	t.Log(out)
	said(t, out, "* slot b  version next", "  slot a  version "+u.was.Version, "to next: good")
	media := s.cut(base)

	m.Type("reboot\n")
	runs(m, "b")
	said(t, m.Run("minne upgrade --status"), "* slot b  version next", "boots next\n")

	m.Type("minne upgrade --undo\n")
	m.Expect(`restarting into slot a`)
	stays(t, m, "a")
	forwards(t, m)
	said(t, m.Run("minne upgrade --status"), "* slot a  version "+u.was.Version, "good")
	m.Off()
	for _, disk := range media {
		bootsAfterCut(t, disk)
	}
}

// sick is the system of the image with a first process that does as its slot's version says.
const sick = `#!/bin/sh
if grep -q minne.slot=a /proc/cmdline; then own=/dev/vda4; else own=/dev/vda5; fi
case "$(tail -c 4096 $own | head -n 2)" in
*'"version":"crashes"'*) grep -q minne.help=1 /proc/cmdline || exit 1 ;;
*'"version":"panics"'*) exit 1 ;;
*'"version":"hangs"'*)
	printf '#!/bin/sh\nexec sleep 86400\n' >/run/hang
	chmod 755 /run/hang
	mount --bind /run/hang /usr/lib/minne/daemon
	;;
*'"version":"misses"'*) mount --bind /dev/null /usr/lib/modules/*/kernel/drivers/net/virtio_net.ko.xz ;;
esac
exec /usr/bin/busybox init
`

// sicken makes the payload of that system.
func sicken(t *testing.T, u *upgrades) string {
	t.Helper()
	dir := t.TempDir()
	tree, payload := filepath.Join(dir, "tree"), filepath.Join(dir, "payload")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	run("unsquashfs", "-q", "-n", "-d", tree, "../../build/minne.upgrade")
	init := filepath.Join(tree, "usr/sbin/init")
	if err := errors.Join(os.Remove(init), os.WriteFile(init, []byte(sick), 0o755)); err != nil {
		t.Fatal(err)
	}
	run("mksquashfs", tree, payload, "-quiet", "-no-progress", "-comp", "gzip", "-Xcompression-level", "1", "-b", "128K")
	return payload
}

// TestBadUpgrade tries systems that don't work: the router is back by itself, with the
// old one, and says why.
func TestBadUpgrade(t *testing.T) {
	u := serve(t)
	payload := sicken(t, u)
	disk := configured(t)
	m := upgradable(t, testimage.Options{Disk: disk, Watchdog: true})
	for _, c := range []struct{ version, within, sign, why string }{
		{"panics", "5m", `Kernel panic`, "did not reach its checks"},
		{"hangs", "1h", `Minne: slot b minne.try=1`, "did not reach its checks"},
		{"misses", "90s", `the trial failed, the router falls back`, "not within 1m30s after the start"},
	} {
		name := u.offer(c.version, payload, nil, u.key)
		began := time.Now()
		m.Type("minne upgrade --within " + c.within + " " + u.url + name + "\n")
		m.Expect(`Minne: slot b minne.try=1`)
		if c.version != "hangs" {
			m.Expect(c.sign)
		}
		runs(m, "a")
		t.Logf("%s: back after %s", c.version, time.Since(began).Round(time.Second))
		forwards(t, m)
		m.Run("until minne upgrade --status --json | grep -q '\"outcome\": \"fell back\"'; do sleep 1; done")
		out := m.Run("minne upgrade --status")
		t.Log(out)
		said(t, out, "* slot a  version "+u.was.Version, "to "+c.version+": fell back: ", c.why, "boots next\n")
	}
}

// TestUpgradeFromStick takes the upgrade from the medium's FAT partition, where a
// person put it from any PC. Then the new system's slot is damaged, and the old one runs.
func TestUpgradeFromStick(t *testing.T) {
	u := serve(t)
	name := u.offer("stick", "", nil, u.key)
	disk := configured(t)
	m := upgradable(t, testimage.Options{Disk: disk})
	m.Run("mkdir /run/fat && mount -t vfat /dev/vda2 /run/fat && wget -q -O /run/fat/" + name + " " + u.url + name + " && umount /run/fat")
	m.Type("minne upgrade " + name + "\n")
	stays(t, m, "b")
	m.Off()
	if got := state(t, disk); got != (slot.State{Slot: "b"}) {
		t.Errorf("boot state after the trial: %+v", got)
	}
	scratch(t, disk, "b", systemSize(t, disk)*3/4&^511)
	m = testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2, Extra: behind})
	m.Expect(`the system in slot b is damaged`)
	runs(m, "a")
	said(t, m.Run("minne upgrade --status"), "* slot a  version "+u.was.Version, "slot b: damaged")
}
