// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"minne/internal/appliance/backup"
	"minne/internal/base/atomicfile"
	"minne/internal/base/instance"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/revisions"
	"minne/internal/subsystem/kernel"
)

func newBackupCommand(a *app) *cobra.Command {
	var pass passphrase
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the router into one encrypted file",
		Long: `Write a backup of the router: the running configuration, its secrets and lists, the
SSH host key, the earlier revisions, the list of the machine's ports, DHCP leases, and
what "minne set add" put into sets. The backup is one file, encrypted with a passphrase.
"age -d FILE | tar xz" opens it without Minne.

"minne restore" restores it, also on another machine.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			phrase, err := pass.read(true)
			if err != nil {
				return err
			}
			b, err := a.collect(c.Context())
			if err != nil {
				return err
			}
			var sealed bytes.Buffer
			if err := backup.Write(&sealed, phrase, b); err != nil {
				return err
			}
			if err := atomicfile.Write(args[0], sealed.Bytes(), 0o600, atomicfile.Durable); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%s: %d files, %d earlier configurations, %d bytes\n", args[0], len(b.Files), len(b.Revisions), sealed.Len())
			return err
		},
	}
	pass.flags(c)
	return c
}

// collect gathers what a backup holds.
func (a *app) collect(ctx context.Context) (backup.Backup, error) {
	inst, err := a.inst()
	if err != nil {
		return backup.Backup{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return backup.Backup{}, err
	}
	b := backup.Backup{Version: version(), Created: time.Now().UTC().Truncate(time.Second), Host: host}
	running, err := a.stored(ctx, 0)
	if err != nil {
		return b, fmt.Errorf("there is no configuration to back up: %w", err)
	}
	b.Running = running.Text
	if b.Ports, err = a.ports(ctx); err != nil {
		return b, err
	}
	cfg, err := config.Parse("running", []byte(running.Text))
	if err != nil {
		return b, err
	}
	for n := range b.Ports {
		if _, used := cfg.Interfaces[b.Ports[n].Name]; used {
			b.Ports[n].Interface = b.Ports[n].Name
		}
	}
	if b.Live, err = a.live(ctx, cfg); err != nil {
		return b, err
	}
	onDisk, err := revisions.ReadAll(inst.RevisionsDir())
	if err != nil {
		return b, err
	}
	for _, r := range onDisk {
		b.Revisions = append(b.Revisions, backup.Revision{Revision: r, Text: r.Config})
	}
	dir := filepath.Dir(inst.Config)
	if err := b.Collect(dir); err != nil {
		return b, err
	}
	for _, use := range b.Missing(cfg, dir) {
		fmt.Fprintf(a.err, "warning: the file %s (%s) is not in the backup: expected it in %s\n", use.Name, use.Path, dir)
	}
	return b, nil
}

// ports lists the router's ports: all Ethernet links that are not made of others.
func (a *app) ports(ctx context.Context) ([]backup.Port, error) {
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	links, err := router.Interfaces.Ask(ctx, client, router.Nothing{})
	if errors.Is(err, api.ErrNoDaemon) {
		links.Interfaces, err = kernel.New(slog.New(slog.DiscardHandler), kernel.Options{}).Interfaces(ctx)
	}
	if err != nil {
		return nil, err
	}
	var ports []backup.Port
	for _, l := range links.Interfaces {
		if l.Port() {
			ports = append(ports, backup.Port{Name: l.Name, Former: l.Former, MAC: l.MAC, Driver: l.Driver, Path: l.BusPath, Speed: l.Speed})
		}
	}
	return ports, nil
}

func newRestoreCommand(a *app) *cobra.Command {
	r := restore{app: a}
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup, also on another machine",
		Long: `Restore the configuration of a backup, with its secrets, lists and keys. When this
machine has other ports than the backed-up one, each interface needs a port: the command
proposes ports of the same driver and speed and asks, or takes them from --map.

As with minne apply, either everything is applied or nothing. Without "minne confirm"
within the time of --confirm, the router returns to its previous state, files included.
After the confirmation, the backup's earlier revisions join the list of revisions.

Exit codes are those of minne apply.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return r.run(c.Context(), args[0], c.InOrStdin()) },
	}
	r.pass.flags(c)
	c.Flags().StringArrayVar(&r.chosen, "map", nil, "port for an interface, as `interface=port` (name, MAC address or bus address); may be given several times")
	c.Flags().BoolVar(&r.dryRun, "dry-run", false, "only show what would change")
	c.Flags().DurationVar(&r.confirm, "confirm", 10*time.Minute, "`time` in which to confirm; 0 keeps it at once")
	c.Flags().BoolVar(&r.asJSON, "json", false, "print the result as JSON")
	return c
}

// restore is a restore in the making.
type restore struct {
	*app
	pass    passphrase
	chosen  []string
	confirm time.Duration
	dryRun  bool
	asJSON  bool
}

func (r *restore) run(ctx context.Context, file string, in io.Reader) error {
	sealed, err := os.Open(file)
	if err != nil {
		return err
	}
	defer sealed.Close()
	phrase, err := r.pass.read(false)
	if err != nil {
		return err
	}
	b, err := backup.Read(sealed, phrase)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	fmt.Fprintf(r.err, "backup of %s, made %s by version %s\n", b.Host, b.Created.Local().Format(time.DateTime), b.Version)
	text, err := r.fit(ctx, &b, in)
	if err != nil {
		return err
	}
	q := api.RestoreQuestion{Commit: api.Commit{
		Config: text, Source: file, Confirm: r.confirm, Session: loginSession(),
		Comment: fmt.Sprintf("restored from a backup of %s, %s", b.Host, b.Created.Format(time.DateOnly)),
	}}
	for _, f := range b.Files {
		if f.Name == backup.ConfigName {
			continue // an operator may have been in the middle of editing it
		}
		q.Files = append(q.Files, api.RestoredFile{Name: f.Name, Mode: uint32(f.Mode), Text: f.Text})
	}
	q.Files = append(q.Files, api.RestoredFile{Name: backup.ConfigName, Mode: 0o644, Text: []byte(text)})
	for _, rev := range b.Revisions {
		q.Revisions = append(q.Revisions, api.RestoredHistory{Revision: rev.Revision, Text: rev.Text})
	}
	if r.dryRun {
		return r.preview(ctx, q)
	}
	client, err := r.client()
	if err != nil {
		return err
	}
	result, err := api.Restore.Ask(ctx, client, q)
	if err != nil {
		return err
	}
	if result.Outcome != api.RolledBack {
		r.putLive(ctx, client, b.Live, time.Now())
	}
	return r.printResult(result, r.asJSON)
}

// fit finds ports of this machine for the backup's interfaces and returns its
// configuration for them, checked with its own secrets.
func (r *restore) fit(ctx context.Context, b *backup.Backup, in io.Reader) (string, error) {
	source := "running.yaml of the backup"
	cfg, err := config.Parse(source, []byte(b.Running))
	if err != nil {
		return "", err
	}
	here, err := r.ports(ctx)
	if err != nil {
		return "", err
	}
	all := backup.Propose(cfg, b.Ports, here)
	for _, word := range r.chosen {
		if err := backup.Choose(all, here, word); err != nil {
			return "", usageError{fmt.Errorf("--map %w", err)}
		}
	}
	if err := r.settlePorts(all, here, in); err != nil {
		return "", err
	}
	text, anew, err := backup.Remap(source, b.Running, all)
	if err != nil {
		return "", err
	}
	if anew {
		fmt.Fprintln(r.err, "minne: note: the configuration is rewritten for these ports, without its comments; the original is in minne revisions")
	}
	if cfg, err = config.Parse(source, []byte(text)); err != nil {
		return "", err
	}
	secrets, err := config.ParseSecrets(backup.SecretsName, b.Secrets())
	if err != nil {
		return "", err
	}
	return text, config.Check(cfg, secrets)
}

// settlePorts shows the mapping, and asks where it is a guess.
func (r *restore) settlePorts(all []backup.Mapping, here []backup.Port, in io.Reader) error {
	guessed := false
	said := make(map[string]bool)
	for _, word := range r.chosen {
		name, _, _ := strings.Cut(word, "=")
		said[name] = true
	}
	for _, m := range all {
		if !m.Same && !said[m.From.Interface] {
			guessed = true
		}
	}
	if !guessed {
		r.showPorts(all)
		return nil
	}
	fmt.Fprintln(r.err, "\nports of this machine:")
	for _, p := range here {
		fmt.Fprintf(r.err, "  %s\n", p)
	}
	fmt.Fprintln(r.err, "\nports of the backup:")
	for _, m := range all {
		fmt.Fprintf(r.err, "  %s: was %s\n", m.From.Interface, m.From)
	}
	if r.dryRun {
		r.showPorts(all)
		return wantAll(all)
	}
	if !isTerminal(in) {
		r.showPorts(all)
		return usageError{errors.New("the ports above are proposals: confirm them with --map interface=port, or run the command on a terminal")}
	}
	answers := bufio.NewReader(in)
	for n := range all {
		if all[n].Same || said[all[n].From.Interface] {
			continue
		}
		for {
			fmt.Fprintf(r.err, "port for %s [%s]: ", all[n].From.Interface, all[n].To.Name)
			line, err := answers.ReadString('\n')
			if err != nil {
				return errors.New("no answer: nothing was changed")
			}
			if line = strings.TrimSpace(line); line == "" && all[n].To.Name != "" {
				break
			}
			if err := backup.Choose(all, here, all[n].From.Interface+"="+line); err == nil {
				break
			} else {
				fmt.Fprintln(r.err, err)
			}
		}
	}
	r.showPorts(all)
	return wantAll(all)
}

func wantAll(all []backup.Mapping) error {
	for _, m := range all {
		if m.To.Name == "" {
			return fmt.Errorf("interface %s: no free port for it on this machine: add one, or remove the interface from the configuration", m.From.Interface)
		}
	}
	return nil
}

func (r *restore) showPorts(all []backup.Mapping) {
	for _, m := range all {
		note := ""
		if !m.Same {
			note = " (was " + m.From.Name + ")"
		}
		fmt.Fprintf(r.err, "%s → %s%s\n", m.From.Interface, m.To, note)
	}
}

func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// preview says what would change, with the files of the backup beside the configuration.
func (r *restore) preview(ctx context.Context, q api.RestoreQuestion) error {
	inst, err := r.inst()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "minne-restore-") // mode 0700: secrets
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	there := inst
	there.Config, there.Secrets = filepath.Join(dir, backup.ConfigName), filepath.Join(dir, backup.SecretsName)
	for _, f := range q.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		err := os.WriteFile(path, f.Text, 0o600)
		if err == nil { // as it will be, whatever the umask: lists must be readable by everybody
			err = os.Chmod(path, fs.FileMode(f.Mode).Perm())
		}
		if err != nil {
			return err
		}
	}
	for _, f := range q.Files {
		fmt.Fprintf(r.err, "%s %s\n", fileSign(inst, f), f.Name)
	}
	result, err := router.Preview(ctx, there, slog.New(slog.DiscardHandler), q.Commit)
	if err != nil {
		return err
	}
	return r.printResult(result, r.asJSON)
}

// fileSign says what would become of a file: + new, ~ other content, = as it is.
func fileSign(inst instance.Instance, f api.RestoredFile) string {
	path := filepath.Join(filepath.Dir(inst.Config), filepath.FromSlash(f.Name))
	now, err := os.ReadFile(path)
	switch {
	case err != nil:
		return "+"
	case bytes.Equal(now, f.Text):
		return "="
	}
	return "~"
}
