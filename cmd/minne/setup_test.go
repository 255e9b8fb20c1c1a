// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal of 80 by 24 on which a command runs.
type terminal struct {
	t     *testing.T
	far   *os.File // our end
	mu    sync.Mutex
	shown strings.Builder
	ended chan error
	pid   int
}

// onTerminal starts a command with a terminal as its console.
func (b *box) onTerminal(args ...string) *terminal {
	b.t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(far.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(far.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	near, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	defer near.Close()
	c := b.command(args...)
	c.Stdin, c.Stdout, c.Stderr = near, near, near
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	term := &terminal{t: b.t, far: far, ended: make(chan error, 1), pid: c.Process.Pid}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := far.Read(buffer)
			term.mu.Lock()
			term.shown.Write(buffer[:n])
			term.mu.Unlock()
			if err != nil { // EIO: the last process has closed its end
				term.ended <- c.Wait()
				return
			}
		}
	}()
	b.t.Cleanup(func() {
		_ = c.Process.Kill()
		far.Close()
	})
	return term
}

func (term *terminal) screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return strings.ReplaceAll(term.shown.String(), "\r\n", "\n")
}

// answer waits for a question and types.
func (term *terminal) answer(question, text string) {
	term.t.Helper()
	eventually(term.t, "the question "+question, func() bool { return strings.Contains(term.screen(), question) })
	if _, err := io.WriteString(term.far, text); err != nil {
		term.t.Fatal(err)
	}
}

// end waits for the command to end and returns its exit code with all that was shown.
func (term *terminal) end() (int, string) {
	term.t.Helper()
	select {
	case err := <-term.ended:
		code := 0
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		}
		return code, term.screen()
	case <-time.After(time.Minute):
		term.t.Fatalf("the command does not end; it shows\n%s", term.screen())
		return 0, ""
	}
}

// files are all files of a box by name.
func (b *box) files() (list []string) {
	b.t.Helper()
	err := filepath.WalkDir(filepath.Join(b.root, "etc"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, strings.TrimPrefix(path, b.root))
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

var shownPassword = regexp.MustCompile(`password  ([a-z2-7-]{19})`)

// From nothing to a router: five times Enter at the console but for the name.
func TestSetupOnTheConsole(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil {
		t.Fatal(err)
	}
	b.provider("198.51.100", "2m")
	b.newNeighbour("lan")
	b.start()

	// Ctrl-C in the middle leaves nothing behind.
	term := b.onTerminal("setup", "--netns", b.netns)
	term.answer("1. Which port", "\n")
	term.answer("2. How", "\x03")
	if code, shown := term.end(); code == 0 || !strings.Contains(shown, "nothing was changed") {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, shown)
	}
	for _, port := range []string{"lan", "wan"} {
		if link, err := b.links.LinkByName(port); err != nil || link.Attrs().Flags&net.FlagUp != 0 {
			t.Errorf("%s stayed up after Ctrl-C: %v", port, err)
		}
	}
	if s := b.status(); s.Running != 0 || len(b.files()) != 0 {
		t.Errorf("after Ctrl-C: revision %d, files %q", s.Running, b.files())
	}

	late := b.onTerminal("setup", "--netns", b.netns) // two consoles ask at once
	term = b.onTerminal("setup", "--netns", b.netns)
	term.answer("1. Which port", "\n") // the one behind which a DHCP server is
	term.answer("2. How", "\n")
	term.answer("3. Address", "\n")
	term.answer("4. Name", "attic\n")
	term.answer("5. Login", "off\n")
	code, shown := term.end()
	if code != 0 || shownPassword.MatchString(shown) || // this router's host is others' too: it sets no password
		!strings.Contains(shown, "attic is a router now") || !strings.Contains(shown, "DHCP 198.51.100.0/24") {
		t.Fatalf("exit code %d\n%s", code, shown)
	}
	eventually(t, "the lease", func() bool { return strings.HasPrefix(b.address("wan"), "198.51.100.") })
	b.wantWhole(1)
	if got := b.address("lan"); got != "192.168.77.1/24" {
		t.Errorf("lan has %s", got)
	}

	// Once is enough, for the other console too.
	for _, question := range []string{"1. Which port", "2. How", "3. Address", "4. Name", "5. Login"} {
		late.answer(question, "\n")
	}
	if code, shown := late.end(); code != 1 || !strings.Contains(shown, "has a configuration already") || shownPassword.MatchString(shown) {
		t.Errorf("the other console: exit code %d\n%s", code, shown)
	}
	b.want(1, "has a configuration already", "setup", "--netns", b.netns)
	b.want(0, "", "setup", "--netns", b.netns, "--if-needed")
	b.wantWhole(1)
}

// A provider's access concentrator tells the way to the Internet; the password goes into the secrets alone.
func TestSetupByPPPoE(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	isp := b.newNeighbour("wan")
	b.newNeighbour("lan")
	isp.serve("exec pppoe-server -F -I eth0")
	answers := b.file("answers.yaml", "wan-address: pppoe\npppoe-user: line@isp\npppoe-password: s3cret\npppoe-vlan: 7\n")
	b.want(0, "PPPoE as line@isp", "setup", "--netns", b.netns, "--answers", answers)
	dir := filepath.Join(b.root, "etc/minne/instances", b.name)
	made, err := os.ReadFile(filepath.Join(dir, "minne.yaml"))
	secrets, secretErr := os.ReadFile(filepath.Join(dir, "secrets.yaml"))
	if err != nil || secretErr != nil {
		t.Fatal(err, secretErr)
	}
	text := string(made)
	modem := regexp.MustCompile(`  modem:\n +match: .*# wan\b`) // the port behind which the provider answers, not the first one
	if !modem.MatchString(text) || !strings.Contains(text, "{parent: modem, id: 7}") || strings.Contains(text, "s3cret") || !strings.Contains(string(secrets), "s3cret") {
		t.Errorf("%s", text)
	}
}

// Answers from a file, before there is a daemon: it takes them at its first start.
// The ports inside are one network: its hosts reach each other and the router.
func TestSetupBridges(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.addPort("lan1")
	one, two := b.newNeighbour("lan"), b.newNeighbour("lan1")
	answers := b.file("answers.yaml", "wan: wan\n")
	b.want(0, "lan+lan1", "setup", "--netns", b.netns, "--answers", answers, "--no-probe")
	b.start()
	b.wantWhole(1)
	one.run("ip address add 192.168.77.2/24 dev eth0")
	two.run("ip address add 192.168.77.3/24 dev eth0")
	for n, address := range map[*neighbour]string{one: "192.168.77.3", two: "192.168.77.1"} {
		n.run("ping -q -c 1 -w 30 " + address)
	}
}

func TestSetupFromAFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil {
		t.Fatal(err)
	}
	b.newNeighbour("wan")
	b.newNeighbour("lan")
	wrong := b.file("wrong.yaml", "wan: nowhere\n")
	b.want(1, "no port \"nowhere\"; expected one of lan, wan", "setup", "--netns", b.netns, "--answers", wrong, "--no-probe")
	b.want(3, "did you mean wan?", "setup", "--netns", b.netns, "--answers", b.file("typo.yaml", "wam: wan\n"), "--no-probe")
	b.want(1, "no console to ask on", "setup", "--netns", b.netns, "--files", b.root, "--no-probe")
	b.file("answers.yaml", "wan: wan\nwan-address: 198.51.100.2/30\nwan-gateway: 198.51.100.1\nwan-dns: [198.51.100.53]\nhostname: attic\n")
	b.want(0, "as soon as its daemon starts", "setup", "--netns", b.netns, "--files", b.root, "--no-probe")
	b.start()
	b.wantWhole(1)
	b.wantAddresses("192.168.77.1/24", "198.51.100.2/30")
	if !b.defaultRoute("198.51.100.1") {
		t.Error("no default route")
	}

	// With --force the daemon makes a revision of it; a refusal leaves what there is.
	before := b.files()
	b.want(1, "overlaps", "setup", "--netns", b.netns, "--force", "--no-probe", "--answers", b.file("bad.yaml", "wan: wan\nwan-address: 192.168.77.2/24\nwan-gateway: 192.168.77.9\nwan-dns: [9.9.9.9]\nlan: 192.168.77.1/24\n"))
	b.wantWhole(1)
	b.want(0, "is a router now", "setup", "--netns", b.netns, "--force", "--no-probe", "--answers", b.file("other.yaml", "wan: wan\nwan-address: 198.51.100.2/30\nwan-gateway: 198.51.100.1\nwan-dns: [9.9.9.9]\nlan: 10.9.0.1/24\n"))
	b.wantWhole(2)
	b.wantAddresses("10.9.0.1/24", "198.51.100.2/30")
	if after := b.files(); len(after) != len(before) {
		t.Errorf("files %q, were %q", after, before)
	}
}

// A whole configuration from the stick.
func TestSetupFromAConfiguration(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.file("stick/minne.yaml", "version: 1\ninterfaces: {lan: {addresses: [192.0.2.1/24]}, wan: {addresses: [198.51.100.2/30]}}\n")
	b.want(0, "The configuration is that of", "setup", "--netns", b.netns, "--files", filepath.Join(b.root, "stick"))
	b.start()
	b.wantWhole(1)
	b.wantAddresses("192.0.2.1/24", "198.51.100.2/30")
}

// Login by SSH: by key in the LAN, not by password, not from the WAN.
func TestSSH(t *testing.T) {
	t.Parallel()
	b := newBoxIn(t, "/run") // sshd believes no key in a directory that others may write
	if err := os.Chmod(b.root, 0o755); err != nil {
		t.Fatal(err)
	}
	isp, home := b.newNeighbour("wan"), b.newNeighbour("lan")
	isp.run("ip addr add 198.51.100.1/30 dev eth0 && ip route add 192.168.77.0/24 via 198.51.100.2")
	home.run("ip addr add 192.168.77.9/24 dev eth0")
	home.run("ssh-keygen -q -t ed25519 -N '' -f key")
	public := strings.TrimSpace(home.run("cat key.pub"))
	b.start()
	text := fmt.Sprintf(`version: 1
system: {admin: {ssh-keys: [%q]}}
interfaces:
  wan: {addresses: [198.51.100.2/30], zone: wan}
  lan: {addresses: [192.168.77.1/24], zone: lan}
firewall: {policies: [{from: lan, to: wan, default: permit}]}
services: {ssh: {interfaces: [lan]}}
`, public)
	file := b.file("ssh.yaml", text)
	if _, err := exec.Command("getent", "passwd", "admin").Output(); err != nil {
		// sshd asks the host's list of users. Without the user, nothing is touched.
		b.want(1, "create that user", "apply", file)
	}
	users := b.withAdmin()
	b.end(syscall.SIGTERM)
	b.startIn(users)
	shadow := filepath.Join(users, "shadow")
	unlocked := b.read(shadow)
	b.file("users/shadow", strings.Replace(unlocked, "admin:*:", "admin:!:", 1)) // as useradd -m admin leaves it
	b.want(1, "usermod -p '*' admin", "apply", file)
	b.file("users/shadow", unlocked)
	b.want(0, "applied", "apply", file)
	b.want(0, "of admin by key on lan (port 22)", "show", "services")
	const ssh = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=5 "
	if out, err := home.try(ssh + "-i key admin@192.168.77.1 echo logged in"); err != nil || !strings.Contains(out, "logged in") {
		t.Errorf("by key: %v\n%s", err, out)
	}
	if out, err := home.try(ssh + "-o PubkeyAuthentication=no -v admin@192.168.77.1 true"); err == nil || strings.Contains(out, "keyboard-interactive,") || strings.Contains(out, "publickey,password") {
		t.Errorf("without a key: %v\n%s", err, out)
	}
	for _, address := range []string{"198.51.100.2", "192.168.77.1"} { // its own address there, and the LAN's by way of the WAN
		if conn, err := isp.dial("tcp", address+":22"); err == nil {
			conn.Close()
			t.Errorf("port 22 of %s is open to the WAN", address)
		}
	}
	// Gone with the configuration.
	b.want(0, "SSH login", "apply", b.config("plain", "192.168.77.1/24", "198.51.100.2/30"))
	if conn, err := home.dial("tcp", "192.168.77.1:22"); err == nil {
		conn.Close()
		t.Error("sshd goes on without being asked for")
	}
}

// withAdmin makes a list of users with admin, beside the host's own.
func (b *box) withAdmin() (dir string) {
	b.t.Helper()
	dir = filepath.Join(b.root, "users")
	for _, name := range []string{"passwd", "shadow"} {
		text, err := os.ReadFile("/etc/" + name)
		if err != nil {
			b.t.Fatal(err)
		}
		line := map[string]string{"passwd": "admin:x:0:0:admin:/root:/bin/sh\n", "shadow": "admin:*:19000:0:99999:7:::\n"}[name]
		kept := regexp.MustCompile(`(?m)^admin:.*\n`).ReplaceAllString(string(text), "")
		b.file("users/"+name, kept+line)
	}
	return dir
}

// startIn runs the daemon with another list of users.
func (b *box) startIn(users string) {
	b.t.Helper()
	b.wrap = []string{"unshare", "--mount", "sh", "-c",
		`mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/shadow" /etc/shadow && exec "$@"`, users}
	b.start()
}
