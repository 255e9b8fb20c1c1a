// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const testPhrase = "correct horse battery"

// here puts a file beside the box's configuration.
func (b *box) here(name, text string, mode os.FileMode) string {
	b.t.Helper()
	path := b.file(filepath.Join("etc/minne/instances", b.name, name), text)
	if err := os.Chmod(path, mode); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func (b *box) read(path string) string {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// ported is a configuration for a box's ports by MAC address, with a secret and a list in use.
func (b *box) ported(lan string) string {
	mac := func(port string) string {
		link, err := b.links.LinkByName(port)
		if err != nil {
			b.t.Fatal(err)
		}
		return link.Attrs().HardwareAddr.String()
	}
	return fmt.Sprintf(`version: 1
# the school's router
system: {router-id: 192.0.2.1}
interfaces:
  lan: {match: {mac: "%s"}, addresses: [%s], zone: lan} # downstairs
  wan: {match: {mac: "%s"}, addresses: [198.51.100.1/24], zone: wan}
firewall:
  sets: {blocked: {file: blocklist.txt}}
  policies: [{from: wan, to: lan, rules: ["deny any @blocked any"]}]
routing:
  bgp:
    asn: 64500
    peers: {isp: {address: 198.51.100.2, asn: 64496, password: isp, disabled: true}}
`, mac("lan"), lan, mac("wan"))
}

// backedUp returns a router with some history, and its backup.
func backedUp(t *testing.T) (b *box, file, pass string) {
	b = newBox(t)
	b.start()
	b.here("secrets.yaml", "isp: whisper\n", 0o600)
	b.here("blocklist.txt", "203.0.113.0/24\n", 0o644)
	b.here("ssh/ssh_host_ed25519_key", "the host key\n", 0o600)
	b.want(exitOK, "revision 1", "apply", b.file("first.yaml", b.ported("192.0.2.1/25")))
	b.want(exitOK, "revision 2", "apply", b.file("second.yaml", b.ported("192.0.2.1/24")))
	pass = b.file("pass", testPhrase+"\n")
	file = filepath.Join(b.root, "router.backup")
	b.want(exitOK, "2 earlier configurations", "backup", file, "--passphrase-file", pass)
	if s, err := os.Stat(file); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("backup: %v, %v", s, err)
	}
	return b, file, pass
}

// TestRestoreElsewhere puts a backup in place on a machine with other ports.
func TestRestoreElsewhere(t *testing.T) {
	t.Parallel()
	_, file, pass := backedUp(t)
	b := newBox(t)
	b.start()
	secrets := b.here("secrets.yaml", "isp: of before\nmine: 1\n", 0o600)
	b.want(exitOK, "revision 1", "apply", b.config("before", "10.0.0.1/24", ""))

	// Without a terminal the guesses are only shown.
	b.want(exitUsage, "--map interface=port", "restore", file, "--passphrase-file", pass)
	dry := b.want(exitOK, "nothing was applied", "restore", file, "--passphrase-file", pass, "--dry-run")
	for _, words := range []string{"~ secrets.yaml", "+ ssh/ssh_host_ed25519_key", "lan → ", "wan → "} {
		if !strings.Contains(dry.err, words) {
			t.Errorf("the preview does not say %q:\n%s", words, dry.err)
		}
	}
	if b.read(secrets) != "isp: of before\nmine: 1\n" {
		t.Error("a preview changed the secrets")
	}
	mapped := []string{"restore", file, "--passphrase-file", pass, "--map", "lan=wan", "--map", "wan=lan", "--confirm"}

	// Not confirmed: all is as before.
	b.want(exitOK, "to keep it: minne confirm", append(mapped, "1s")...)
	b.wantWhole(2)
	eventually(t, "the revert", func() bool { return b.status().Running == 1 })
	if b.read(secrets) != "isp: of before\nmine: 1\n" {
		t.Error("the secrets did not go back")
	}
	key := filepath.Join(filepath.Dir(secrets), "ssh/ssh_host_ed25519_key")
	if _, err := os.Stat(key); !os.IsNotExist(err) {
		t.Errorf("a file of the backup is still there: %v", err)
	}
	b.wantAddresses("10.0.0.1/24", "")

	// Confirmed: all of it stays, also after a restart.
	b.want(exitOK, "to keep it: minne confirm", append(mapped, "5m")...)
	b.want(exitOK, "confirmed", "confirm")
	b.end(syscall.SIGKILL)
	b.start()
	b.wantWhole(3)
	if b.read(secrets) != "isp: whisper\n" || b.read(key) != "the host key\n" {
		t.Errorf("secrets %q, key %q", b.read(secrets), b.read(key))
	}
	now := b.read(filepath.Join(filepath.Dir(secrets), "minne.yaml"))
	if !strings.Contains(now, "# the school's router") || !strings.Contains(now, "# downstairs") {
		t.Errorf("the comments are gone:\n%s", now)
	}
	b.want(exitOK, "was revision 1, confirmed, in the backup", "revisions")
	if left, _ := filepath.Glob(filepath.Join(b.root, "var/lib/minne-instances", b.name, "restore*")); len(left) > 0 {
		t.Errorf("leftovers: %v", left)
	}
}

// TestRestoreFails leaves everything as it was.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	b, file, pass := backedUp(t)
	whole := b.read(file)
	secrets := b.here("secrets.yaml", "isp: newer\n", 0o600)
	b.want(exitOK, "revision 3", "apply", b.file("third.yaml", b.ported("192.0.2.129/25")))
	for _, test := range []struct {
		what, text, pass, says string
	}{
		{"another passphrase", whole, "wrong horse battery", "the passphrase is wrong"},
		{"cut", whole[:len(whole)/2], testPhrase, "damaged"},
		{"changed", whole[:len(whole)-20] + "x" + whole[len(whole)-19:], testPhrase, "damaged"},
		{"something else", "version: 1\n", testPhrase, "not a backup"},
	} {
		bad := b.file("bad.backup", test.text)
		a := b.want(exitFailed, test.says, "restore", bad, "--passphrase-file", b.file("bad.pass", test.pass))
		if strings.Contains(a.err, test.pass) {
			t.Errorf("%s: the passphrase is printed", test.what)
		}
	}
	b.want(exitUsage, "no port nowhere", "restore", file, "--passphrase-file", pass, "--map", "lan=nowhere")
	b.want(exitUsage, "one of them", "restore", file, "--passphrase-file", pass, "--passphrase-fd", "3")

	// A step of the commit that fails takes the files back.
	b.end(syscall.SIGTERM)
	b.start("MINNE_FAULT=fast-path:error")
	b.want(exitReverted, "rolled back", "restore", file, "--passphrase-file", pass)
	// Killed in the middle, the next start does.
	b.end(syscall.SIGTERM)
	b.start("MINNE_FAULT=routing:kill")
	if a := b.minne("restore", file, "--passphrase-file", pass); a.code == exitOK {
		t.Errorf("restore beside a daemon that dies: %s%s", a.out, a.err)
	}
	b.end(0)
	if b.read(secrets) != "isp: whisper\n" {
		t.Errorf("the daemon was killed with secrets %q in place", b.read(secrets))
	}
	b.start()
	b.wantWhole(3)
	if b.read(secrets) != "isp: newer\n" {
		t.Errorf("secrets %q, want those of before", b.read(secrets))
	}
	b.wantAddresses("192.0.2.129/25", "198.51.100.1/24")
}

// ptyPair are both sides of a pseudo terminal.
func ptyPair(t *testing.T) (operator, program *os.File) {
	t.Helper()
	operator, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { operator.Close() })
	if err := unix.IoctlSetPointerInt(int(operator.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(operator.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return operator, program
}

// dialogue answers questions of a program on a terminal and returns all that it showed.
func dialogue(t *testing.T, operator *os.File, answers ...string) func() string {
	t.Helper()
	shown := make(chan string)
	go func() {
		var all strings.Builder
		buffer := make([]byte, 4096)
		asked := 0
		for {
			n, err := operator.Read(buffer)
			all.Write(buffer[:n])
			text := all.String()[asked:]
			if strings.HasSuffix(text, ": ") && len(answers) > 0 {
				asked = all.Len()
				_, _ = io.WriteString(operator, answers[0]+"\n")
				answers = answers[1:]
			}
			if err != nil {
				shown <- all.String()
				return
			}
		}
	}()
	return func() string {
		select {
		case text := <-shown:
			return text
		case <-time.After(time.Minute):
			t.Fatal("the dialogue does not end")
			return ""
		}
	}
}

// answering runs a command of the box that has the terminal as its own.
func (b *box) answering(answers []string, args ...string) (shown string, code int) {
	b.t.Helper()
	operator, program := ptyPair(b.t)
	c := b.command(args...)
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	end := dialogue(b.t, operator, answers...)
	err := c.Wait()
	program.Close()
	if failed := (*exec.ExitError)(nil); err != nil && !asExit(err, &failed) {
		b.t.Fatal(err)
	}
	return end(), c.ProcessState.ExitCode()
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// TestRestoreAsks is a restore by a person at a terminal.
func TestRestoreAsks(t *testing.T) {
	t.Parallel()
	old, file, _ := backedUp(t)
	shown, code := old.answering([]string{testPhrase, "another horse battery"}, "backup", filepath.Join(old.root, "second.backup"))
	if code != exitFailed || !strings.Contains(shown, "differ") || strings.Contains(shown, "horse") {
		t.Errorf("backup: exit code %d\n%s", code, shown)
	}
	shown, code = old.answering([]string{testPhrase, testPhrase}, "backup", filepath.Join(old.root, "second.backup"))
	if code != exitOK || strings.Contains(shown, "horse") {
		t.Errorf("backup: exit code %d\n%s", code, shown)
	}

	b := newBox(t)
	b.start()
	shown, code = b.answering([]string{testPhrase, "nowhere", "wan", "lan"}, "restore", file, "--confirm", "0")
	if code != exitOK || strings.Contains(shown, "horse") {
		t.Fatalf("restore: exit code %d\n%s", code, shown)
	}
	for _, words := range []string{"ports of this machine:", "port for lan [", "no port nowhere", "port for wan [", "applied: revision 1"} {
		if !strings.Contains(shown, words) {
			t.Errorf("the dialogue lacks %q:\n%s", words, shown)
		}
	}
	b.wantWhole(1)
}

// TestRestoreLive: hosts keep their addresses, and who paid stays let in, on the router that takes another's place.
func TestRestoreLive(t *testing.T) {
	t.Parallel()
	text := func(b *box) string {
		return strings.Replace(b.ported("192.0.2.1/24"), "sets: {blocked: {file: blocklist.txt}}",
			"sets: {blocked: {file: blocklist.txt}, paid: {addresses: []}}", 1) +
			"services:\n  dhcp: {lan: {pool: 192.0.2.100-192.0.2.199}}\n"
	}
	prepare := func() *box {
		b := newBox(t)
		if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: dnsmasq does not stay root
			t.Fatal(err)
		}
		b.start()
		b.here("secrets.yaml", "isp: whisper\n", 0o600)
		b.here("blocklist.txt", "203.0.113.0/24\n", 0o644)
		return b
	}
	old := prepare()
	home := old.newNeighbour("lan")
	old.want(exitOK, "revision 1", "apply", old.file("first.yaml", text(old)))
	home.run("udhcpc -q -n -f -i eth0 -t 10 -T 1 -x hostname:laptop -s /bin/true")
	old.want(exitOK, "laptop", "show", "dhcp")
	old.want(exitOK, "1 added", "set", "add", "paid", "198.51.100.7")
	old.want(exitOK, "1 added", "set", "add", "paid", "198.51.100.8", "--timeout", "1h")
	old.want(exitOK, "1 added", "set", "add", "blocked", "198.51.100.128/25")
	pass := old.file("pass", testPhrase+"\n")
	file := filepath.Join(old.root, "router.backup")
	old.want(exitOK, "1 earlier configurations", "backup", file, "--passphrase-file", pass)

	b := prepare()
	again := []string{"restore", file, "--passphrase-file", pass, "--map", "lan=lan", "--map", "wan=wan", "--confirm", "0"}
	a := b.want(exitOK, "applied: revision 1", again...)
	for _, words := range []string{"1 DHCP leases restored", "1 live elements of set blocked restored", "2 live elements of set paid restored"} {
		if !strings.Contains(a.err, words) {
			t.Errorf("restore does not say %q:\n%s", words, a.err)
		}
	}
	b.wantWhole(1)
	b.want(exitOK, "laptop", "show", "dhcp")
	b.want(exitOK, "198.51.100.128/25", "set", "list", "blocked")
	var got struct {
		Elements []struct {
			Element string
			Live    bool
			Expires *time.Time
		}
	}
	b.json(&got, "set", "list", "paid", "--json")
	if len(got.Elements) != 2 || got.Elements[0].Expires != nil || got.Elements[1].Expires == nil || time.Until(*got.Elements[1].Expires) > time.Hour {
		t.Errorf("the set has %+v", got.Elements)
	}
	// The address is leased: another host does not get it.
	b.newNeighbour("lan").run("udhcpc -q -n -f -i eth0 -t 10 -T 1 -s /bin/true")
	if n := strings.Count(b.want(exitOK, "laptop", "show", "dhcp").out, "192.0.2.1"); n < 2 {
		t.Errorf("two hosts have %d addresses", n)
	}
	// Again changes nothing: what is there stays.
	a = b.want(exitOK, "", again...)
	if strings.Contains(a.err, "restored") {
		t.Errorf("restored twice:\n%s", a.err)
	}
}
