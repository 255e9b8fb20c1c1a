// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
	"minne/internal/base/instance"
	"minne/internal/subsystem/nft"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/ssh"
)

// A router that its configuration leaves without rules keeps the filter of the boot:
// nothing passes. It can be reached all the same, by SSH on one port, and says on
// the console which, and why.

// helpAddress is the router's address on that port. From documentation's point of
// view any would do; this one is rarely anybody's network.
const helpAddress = "192.168.77.1/24"

const (
	helpDir     = "/run/minne/help"
	helpPIDFile = helpDir + "/sshd.pid"
	helpPort    = helpDir + "/port"
)

// sshdConfig is that of the login of help. Passwords are taken: whoever needs help
// may have lost everything else.
const sshdConfig = `Port 22
HostKey %s
PidFile %s
AllowUsers admin
PermitRootLogin yes
PasswordAuthentication yes
KbdInteractiveAuthentication no
UsePAM no
X11Forwarding no
AllowTcpForwarding no
MaxAuthTries 3
MaxStartups 3:50:6
Subsystem sftp /usr/lib/openssh/sftp-server
`

// help opens a port for logins. It does so once.
func help(ctx context.Context, why string) error {
	if exists(helpPIDFile) {
		return nil
	}
	port, err := firstPort()
	if err != nil {
		Say("%s\nAnd there is no network port to log in through: %v", why, err)
		return err
	}
	password, err := openPort(ctx, port)
	if err != nil {
		Say("%s\nA login over the network could not be opened: %v", why, err)
		return err
	}
	how := "with its password"
	if password != "" {
		how = "with the password " + password
	}
	Say("%s\nNothing is forwarded. Log in here, or by SSH as admin at %s\non port %s, %s.", why, strings.TrimSuffix(helpAddress, "/24"), port, how)
	return nil
}

// openPort brings the port up, lets logins in there and starts their server. The
// password is a new one, where admin has none.
func openPort(ctx context.Context, port string) (password string, err error) {
	if err := os.MkdirAll(helpDir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(helpPort, []byte(port), 0o600); err != nil {
		return "", err
	}
	link, err := netlink.LinkByName(port)
	if err != nil {
		return "", err
	}
	address, err := netlink.ParseAddr(helpAddress)
	if err != nil {
		return "", err
	}
	if err := errors.Join(netlink.LinkSetUp(link), netlink.AddrReplace(link, address)); err != nil {
		return "", fmt.Errorf("%s: %w", port, err)
	}
	if _, err := nft.Run(ctx, fmt.Sprintf("add element inet %s management { %q }\n", FilterTable, port), "-f", "-"); err != nil {
		return "", err
	}
	if password, err = givePassword(ctx); err != nil {
		return "", err
	}
	return password, startSSH(ctx)
}

func startSSH(ctx context.Context) error {
	inst, err := instance.New(instance.Default)
	if err != nil {
		return err
	}
	// The router's own key, unless the medium can't be written and never had one.
	keys := ssh.KeyDir(inst.Config)
	if ssh.EnsureHostKey(ctx, keys) != nil {
		keys = helpDir
		if err := ssh.EnsureHostKey(ctx, keys); err != nil {
			return err
		}
	}
	if err := program.MakeDirectories(ssh.Directories); err != nil {
		return err
	}
	key := filepath.Join(keys, ssh.HostKey)
	file := filepath.Join(helpDir, "sshd_config")
	if err := os.WriteFile(file, fmt.Appendf(nil, sshdConfig, key, helpPIDFile), 0o600); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "/usr/sbin/sshd", "-f", file).CombinedOutput(); err != nil {
		return fmt.Errorf("sshd: %w: %s", err, out)
	}
	return nil
}

// givePassword makes a password for admin where there is none. It is said on the
// console and lives until the next boot.
func givePassword(ctx context.Context) (string, error) {
	shadow, err := os.ReadFile("/etc/shadow")
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(shadow), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "admin:") })
	if i < 0 {
		return "", errors.New("/etc/shadow has no admin")
	}
	fields := strings.Split(lines[i], ":")
	if strings.HasPrefix(fields[1], "$") {
		return "", nil
	}
	random := make([]byte, 10)
	rand.Read(random) // never fails
	password := strings.ToLower(base32.StdEncoding.EncodeToString(random))
	hash := exec.CommandContext(ctx, "mkpasswd", "-m", "sha512", "-P", "0")
	hash.Stdin = strings.NewReader(password + "\n")
	out, err := hash.Output()
	if err != nil {
		return "", fmt.Errorf("mkpasswd: %w", err)
	}
	fields[1] = strings.TrimSpace(string(out))
	lines[i] = strings.Join(fields, ":")
	return password, os.WriteFile("/etc/shadow", []byte(strings.Join(lines, "\n")), 0o600)
}

// endHelp stops the login and takes the address back: the router has rules again.
// Logins that are open stay as long as its rules let them.
func endHelp() error {
	text, err := os.ReadFile(helpPIDFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
		_ = unix.Kill(pid, unix.SIGTERM) // it may have ended by itself
	}
	if port, err := os.ReadFile(helpPort); err == nil {
		takeAddress(string(port))
	}
	return os.RemoveAll(helpDir)
}

// takeAddress removes the address of help. The port may have another name by now, or be gone.
func takeAddress(port string) {
	links, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return
	}
	address, err := netlink.ParseAddr(helpAddress)
	if err != nil {
		return
	}
	for _, l := range links {
		_ = netlink.AddrDel(l, address) // most don't have it
	}
}

// firstPort is the name of the first network card: the one with the lowest address
// on the machine's buses. That is the port next to the others on a board, and stays
// the same from boot to boot.
func firstPort() (string, error) {
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		return "", err
	}
	type port struct{ bus, name string }
	var ports []port
	for _, e := range entries {
		dir := filepath.Join("/sys/class/net", e.Name())
		bus, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
		if err != nil || !isEthernet(dir) {
			continue // made of software, or no Ethernet
		}
		ports = append(ports, port{bus, e.Name()})
	}
	if len(ports) == 0 {
		return "", errors.New("no usable network card: no driver found one")
	}
	first := slices.MinFunc(ports, func(a, b port) int { return strings.Compare(a.bus+" "+a.name, b.bus+" "+b.name) })
	return first.name, nil
}

func isEthernet(dir string) bool {
	kind, err := os.ReadFile(filepath.Join(dir, "type"))
	if err != nil || strings.TrimSpace(string(kind)) != "1" { // ARPHRD_ETHER
		return false
	}
	return !exists(filepath.Join(dir, "wireless")) && !exists(filepath.Join(dir, "phy80211"))
}
