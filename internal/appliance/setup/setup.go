// SPDX-License-Identifier: Apache-2.0

// Package setup makes the first configuration of a router that has none: it finds
// the ports, asks five questions on one screen or takes the answers from a file,
// and commits what follows from them like any other configuration.
//
// What it makes is a home or office router: the WAN by DHCP, by PPPoE or with a fixed
// address, each other port a LAN of its own with DHCP, DNS and time, zones that let
// the LAN out and nothing in, translation, the guard at its defaults, and a random password of
// the user admin. The password is written to the console and nowhere else; what is
// kept is its hash.
//
// Nothing is written before all answers are there. With a daemon, the commit is the daemon's: what
// it refuses leaves nothing behind. Without one, as in the boot of the router's image, the
// files are put where the daemon looks at its first start.
package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"minne/internal/base/atomicfile"
	"minne/internal/base/instance"
	"minne/internal/base/medium"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/revisions"
	"minne/internal/subsystem/services/ssh"
)

// Names of the files that are looked for on the FAT partition labelled MINNE.
const (
	ConfigFile  = "minne.yaml"   // a whole configuration
	SecretsFile = "secrets.yaml" // its secrets, beside it
	AnswersFile = "answers.yaml" // answers to the five questions
)

// Options say how to set up.
type Options struct {
	Instance instance.Instance
	In       io.Reader // the console; nil when nobody is there to ask
	Out      io.Writer // the console; the password is written here and nowhere else
	Files    string    // directory that may hold ConfigFile or AnswersFile; "" for none
	Answers  string    // file of answers; goes before Files
	Force    bool      // also on a router that has a configuration
	Probe    bool      // look for DHCP servers and access concentrators behind the ports
}

// ErrConfigured says that the router has a configuration.
var ErrConfigured = errors.New("the router has a configuration already: edit and apply it, or replace it with --force")

// ErrNobody says that there is neither a console nor a file with answers.
var ErrNobody = errors.New("no console to ask on, and no answers file: use --answers FILE")

// AtBoot sets a router of the image up from the files on its FAT partition, if there are any: the
// console asks later.
func AtBoot(ctx context.Context, inst instance.Instance, out io.Writer, files string) error {
	err := Run(ctx, Options{Instance: inst, Out: out, Files: files, Probe: true})
	if errors.Is(err, ErrNobody) || errors.Is(err, ErrConfigured) {
		return nil
	}
	return err
}

// hasAdmin says whether this host has a user admin. The router's image does; on a host where Minne was
// installed as a package, people log in as they always did.
func hasAdmin() bool {
	_, err := user.Lookup(ssh.User)
	return err == nil
}

// Needed tells whether a router has neither a revision nor a file to start with.
func Needed(inst instance.Instance) bool {
	if _, err := os.Stat(inst.Config); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	all, err := revisions.ReadAll(inst.RevisionsDir())
	if err != nil {
		return true
	}
	return !slices.ContainsFunc(all, func(r revisions.Revision) bool {
		return r.State == revisions.Confirmed || r.State == revisions.Awaiting
	})
}

// Run sets the router up.
func Run(ctx context.Context, o Options) (err error) {
	if !o.Force && !Needed(o.Instance) {
		return ErrConfigured
	}
	if o.Answers == "" && o.Files != "" {
		if file := filepath.Join(o.Files, ConfigFile); exists(file) {
			return o.takeConfig(ctx, file)
		}
		if file := filepath.Join(o.Files, AnswersFile); exists(file) {
			o.Answers = file
		}
	}
	var answers Answers
	if o.Answers != "" {
		if answers, err = ReadAnswers(o.Answers); err != nil {
			return err
		}
	} else if o.In == nil {
		return ErrNobody
	}
	answers.hostless, answers.guest, answers.radio = !hasAdmin(), !o.Instance.OwnsHost(), findRadio(ctx)
	if o.Answers == "" {
		fmt.Fprintln(o.Out, "Minne looks at the ports …")
	}
	ports, lower, err := FindPorts(ctx, o.Probe)
	defer func() {
		if err != nil && Needed(o.Instance) { // else the ports are those of a router that runs
			lower()
		}
	}()
	if err != nil {
		return err
	}
	if o.Answers != "" {
		answers, err = answers.complete(ports)
	} else {
		answers, err = converse(ctx, o.In, o.Out).screen(answers, ports)
	}
	if err != nil {
		return err
	}
	return o.make(ctx, answers, ports)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// make turns complete answers into a router.
func (o Options) make(ctx context.Context, a Answers, ports []Port) error {
	hashed, password, secrets := a.Password, "", ""
	var err error
	if hashed == "" && a.setsPassword() {
		password = newPassword()
		if hashed, err = hash(ctx, password); err != nil {
			return err
		}
	}
	if hashed != "" {
		if secrets, err = withSecret(o.Instance.Secrets, secrets, adminSecret, hashed); err != nil {
			return err
		}
	}
	if a.WANAddress == byPPPoE {
		if secrets, err = withSecret(o.Instance.Secrets, secrets, providerSecret, a.Secret); err != nil {
			return err
		}
	}
	if a.WiFi != "" {
		if secrets, err = withSecret(o.Instance.Secrets, secrets, wifiSecret, a.WiFiPassphrase); err != nil {
			return err
		}
	}
	text := Compose(a, ports)
	running, err := o.commit(ctx, text, secrets, "first setup")
	if err != nil {
		return err
	}
	return o.report(ctx, a, ports, password, running)
}

// takeConfig commits a configuration that somebody wrote elsewhere.
func (o Options) takeConfig(ctx context.Context, file string) error {
	_, text, err := config.Load(file)
	if err != nil {
		return err
	}
	secrets, err := os.ReadFile(filepath.Join(filepath.Dir(file), SecretsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := o.commit(ctx, string(text), string(secrets), "from "+file); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "The configuration is that of %s.\n", file)
	return nil
}

// commit checks a configuration and its secrets, and puts both in place: all of it or nothing. running
// says whether a daemon has done so, or will when it starts.
func (o Options) commit(ctx context.Context, text, secrets, comment string) (running bool, err error) {
	if !o.Force && !Needed(o.Instance) { // another console was faster
		return false, ErrConfigured
	}
	cfg, err := config.Parse(ConfigFile, []byte(text))
	if err != nil {
		return false, err
	}
	known, err := config.LoadSecrets(o.Instance.Secrets)
	if secrets != "" {
		known, err = config.ParseSecrets(SecretsFile, []byte(secrets))
	}
	if err == nil {
		err = config.Check(cfg, known)
	}
	if err != nil {
		return false, err
	}
	before, readErr := os.ReadFile(o.Instance.Secrets)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		return false, readErr
	}
	if err := o.write(func() error {
		if cfg.Services.SSH != nil {
			if err := ssh.EnsureHostKey(ctx, ssh.KeyDir(o.Instance.Config)); err != nil {
				return err
			}
		}
		if secrets == "" {
			return nil
		}
		return atomicfile.Write(o.Instance.Secrets, []byte(secrets), 0o600, atomicfile.Durable)
	}); err != nil {
		return false, err
	}
	if running, err = o.apply(ctx, text, comment); err != nil {
		return false, errors.Join(err, o.write(func() error { return o.putBack(secrets, before, readErr == nil) }))
	}
	return running, o.write(func() error { return atomicfile.Write(o.Instance.Config, []byte(text), 0o644, atomicfile.Durable) })
}

// write lets f write beside the configuration. The medium is not held while the daemon is asked: it
// writes there too, and waits for others that do.
func (o Options) write(f func() error) error {
	done, err := medium.Writable(o.Instance.Config)
	if err != nil {
		return err
	}
	err = os.MkdirAll(filepath.Dir(o.Instance.Config), 0o755)
	if err == nil {
		err = f()
	}
	return errors.Join(err, done())
}

// putBack restores the secrets after a commit that failed.
func (o Options) putBack(written string, before []byte, existed bool) error {
	switch {
	case written == "":
		return nil
	case existed:
		return atomicfile.Write(o.Instance.Secrets, before, 0o600, atomicfile.Durable)
	}
	return os.Remove(o.Instance.Secrets)
}

// apply lets the daemon commit. Without one, the file is for its first start, which takes it only
// when it has no revision yet.
func (o Options) apply(ctx context.Context, text, comment string) (running bool, err error) {
	client := api.NewClient(o.Instance.ControlSocket())
	_, err = api.Apply.Ask(ctx, client, api.Commit{Source: o.Instance.Config, Config: text, Comment: comment})
	if !errors.Is(err, api.ErrNoDaemon) {
		return true, err
	}
	if all, err := revisions.ReadAll(o.Instance.RevisionsDir()); err == nil && len(all) > 0 {
		return false, errors.New("the router has revisions: start its daemon first, which makes the commit")
	}
	return false, nil
}

// report says what the router is now, and the password, this once.
func (o Options) report(ctx context.Context, a Answers, ports []Port, password string, running bool) error {
	i, _ := findPort(ports, a.WAN)
	var b strings.Builder
	if o.Answers == "" {
		b.WriteString(clearScreen)
	}
	when := "now"
	if !running {
		when = "as soon as its daemon starts"
	}
	fmt.Fprintf(&b, "%s is a router %s:\n\n", a.Hostname, when)
	how := a.WANAddress
	switch a.WANAddress {
	case byDHCP:
		how = "address by DHCP"
	case byPPPoE:
		how = "PPPoE as " + a.User
	}
	fmt.Fprintf(&b, "  %-5s %-10s %s\n", "wan", ports[i].Name, how)
	for _, n := range networks(a, ports) {
		first, last := pool(n.address)
		fmt.Fprintf(&b, "  %-5s %-10s %s, DHCP %s-%s\n", n.name, n.behind(a), n.address, first, last)
	}
	if a.SSH != "off" {
		fmt.Fprintf(&b, "  ssh   admin@%s", networks(a, ports)[0].address.Addr())
		if print := ssh.Fingerprint(ctx, ssh.KeyDir(o.Instance.Config)); print != "" {
			fmt.Fprintf(&b, "\n        host key %s", print)
		}
		b.WriteString("\n")
	}
	if password != "" {
		fmt.Fprintf(&b, "\n  user admin, password  %s\n  Write it down: it is shown this once and kept nowhere.\n", password)
	}
	b.WriteString("\nTo look:   minne status, minne show dhcp\nTo change: edit minne.yaml, then minne apply --confirm 5m\n")
	_, err := io.WriteString(o.Out, b.String())
	return err
}
