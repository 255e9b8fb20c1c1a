// SPDX-License-Identifier: Apache-2.0

// Package ssh takes logins of the user admin over the network, by OpenSSH's
// sshd: only where interfaces are named, only by key unless passwords are switched
// on. It listens on the addresses of those interfaces, so what comes in by others
// finds nobody even without a firewall, unless it is sent to those addresses.
//
// OpenSSH and not Dropbear, because people on a campus come with hardware keys
// (sk-ssh-ed25519), jump hosts and scp over SFTP; it takes 1.2 MB on the image.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/atomicfile"
	"minne/internal/base/medium"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// Name is the program's directory below the run directory, and its task.
const Name = "sshd"

const (
	binary  = "/usr/sbin/sshd"       // sshd wants to know where it is
	HostKey = "ssh_host_ed25519_key" // name of the host key in KeyDir
	// separation is where sshd's unprivileged half is shut in; compiled into it.
	separation = "/run/sshd"
)

// Directories are those that sshd asks for.
var Directories = []program.Directory{{Path: separation, Mode: 0o755, User: "root"}}

// User is who may log in.
const User = "admin"

// Service is SSH to the other parts.
var Service = service.Descriptor{
	Name:  "ssh",
	Title: "SSH",
	Programs: []service.Program{{Name: "sshd", For: "SSH login", Package: "openssh-server", Version: []string{"sshd", "-V"}, Unit: "ssh",
		Image: []string{"usr/sbin/sshd", "usr/lib/openssh/sshd-session", "usr/lib/openssh/sshd-auth", "usr/lib/openssh/sftp-server",
			"usr/bin/ssh-keygen", "usr/bin/ssh", "usr/bin/scp"}}},
	Openings: openings,
	New: func(h service.Host) service.Running {
		return service.OfProgram(program.New(h.RunDir, Name, h.Log), func(cfg *config.Config) (program.Desired, error) {
			return Render(cfg, h.RunDir, h.Config)
		})
	},
}

// openings let people in on the interfaces where they may log in.
func openings(cfg *config.Config) []policy.Opening {
	s := cfg.Services.SSH
	if s == nil {
		return nil
	}
	return []policy.Opening{{Text: "SSH", Protocols: []uint8{unix.IPPROTO_TCP}, Port: uint16(s.Port), Interfaces: s.Interfaces}}
}

// KeyDir is where the host key is kept; configFile is the instance's configuration.
func KeyDir(configFile string) string { return filepath.Join(filepath.Dir(configFile), "ssh") }

// Render makes the configuration of sshd.
func Render(cfg *config.Config, runDir, configFile string) (d program.Desired, err error) {
	s := cfg.Services.SSH
	if s == nil {
		return d, nil
	}
	dir := program.Dir(runDir, Name)
	keys := KeyDir(configFile)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by minne from minne.yaml; changes here are lost.")
	line("Port %d", s.Port)
	masters := cfg.Masters()
	for _, name := range s.Interfaces {
		domain := ""
		if m := masters[name]; m.Kind.Name == "vrf" {
			domain = " rdomain " + m.Name // sshd's word for a VRF: an address in one is found in it alone
		}
		for _, a := range cfg.Interfaces[name].Addresses {
			if !a.Addr().IsLinkLocalUnicast() { // which sshd wants to find now, or it does not start
				line("ListenAddress %s%s", a.Addr(), domain)
			}
		}
	}
	line("HostKey %s", filepath.Join(keys, HostKey))
	line("PidFile %s", filepath.Join(dir, "pid"))
	line("AllowUsers %s", User)
	// On the router's image admin has user id 0, which sshd takes for root; the user root is in no list.
	line("PermitRootLogin %s", map[bool]string{true: "yes", false: "prohibit-password"}[s.Passwords.On()])
	line("AuthorizedKeysFile %s", filepath.Join(dir, "authorized_keys"))
	line("PasswordAuthentication %s", yes(s.Passwords.On()))
	line("KbdInteractiveAuthentication no")
	line("PermitEmptyPasswords no")
	line("UsePAM no") // the image has none; the password is checked against /etc/shadow
	line("MaxAuthTries 4")
	line("LoginGraceTime 30")
	line("MaxStartups 10:30:60")
	line("PerSourceMaxStartups 5")
	line("X11Forwarding no")
	line("AllowAgentForwarding no")
	line("ClientAliveInterval 60")
	line("PrintMotd no")
	line("Subsystem sftp internal-sftp")

	d.Object = "SSH login"
	how := "by key"
	if s.Passwords.On() {
		how = "by key or password"
	}
	d.Facts = []string{fmt.Sprintf("of %s %s on %s (port %d)", User, how, strings.Join(s.Interfaces, ", "), s.Port)}
	conf := filepath.Join(dir, "sshd_config")
	d.Files = map[string]string{
		"sshd_config":     b.String(),
		"authorized_keys": strings.Join(append([]string{"# Made by minne from system.admin.ssh-keys."}, cfg.System.Admin.SSHKeys...), "\n") + "\n",
	}
	d.Argv = []string{binary, "-D", "-f", conf}
	d.Check = []string{binary, "-t", "-f", conf}
	d.Needs = hasUser
	d.Directories = Directories
	d.Prepare = func(ctx context.Context) error { return EnsureHostKey(ctx, keys) }
	return d, nil
}

func yes(on bool) string {
	if on {
		return "yes"
	}
	return "no"
}

// hasUser says what to do on a host that has no user to log in.
func hasUser() error {
	if _, err := user.Lookup(User); err != nil {
		return fmt.Errorf("SSH login: %w; create that user (adduser %s), or remove services.ssh and use the host's own sshd", err, User)
	}
	return nil
}

// EnsureHostKey makes the key by which clients know the router, unless there is one. The last thing
// to appear is the key's own file, so that a power cut leaves either none or a whole pair.
func EnsureHostKey(ctx context.Context, dir string) (err error) {
	if _, err := os.Stat(filepath.Join(dir, HostKey)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	done, err := medium.Writable(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	made := filepath.Join(scratch, HostKey)
	out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "minne", "-f", made).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, strings.TrimSpace(string(out)))
	}
	for _, suffix := range []string{".pub", ""} {
		if err := atomicfile.Sync(made + suffix); err != nil {
			return err
		}
		if err := os.Rename(made+suffix, filepath.Join(dir, HostKey+suffix)); err != nil {
			return err
		}
	}
	return atomicfile.Sync(dir)
}

// Fingerprint is how a host key is told to people who compare it, "" when there is none.
func Fingerprint(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "ssh-keygen", "-l", "-f", filepath.Join(dir, HostKey+".pub")).Output()
	if err != nil {
		return ""
	}
	if f := strings.Fields(string(out)); len(f) > 1 {
		return f[1]
	}
	return ""
}
