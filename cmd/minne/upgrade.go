// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/appliance/boot"
	"minne/internal/appliance/slot"
	"minne/internal/appliance/upgrade"
	"minne/internal/model/api"
	"minne/internal/model/config"
)

// upgradeFlags are what the command line of an upgrade says.
type upgradeFlags struct {
	status, undo, trial          bool
	downgrade, noRestart, asJSON bool
	without                      []string
	within                       time.Duration
}

func newUpgradeCommand(a *app) *cobra.Command {
	var f upgradeFlags
	c := &cobra.Command{
		Use:   "upgrade FILE|URL",
		Short: "Upgrade the router's image, and fall back if the new one does not work",
		Long: `Upgrade a router that runs from Minne's image. The file must be signed with a key that
this router trusts (the image's own key, and *.pub in ` + upgrade.LocalKeysDir + `). A name
without a directory is also searched on the boot medium's FAT partition. The new system
is written to the other slot and booted once, for a trial. The trial passes if everything
that works now works again: interfaces that are up, BGP and OSPF sessions that are up, and
gateways and your own host if they answer a ping now. Otherwise, and after a power cut,
a crash or a hang, the old system boots again.`,
		Example: "  minne upgrade https://example.org/minne-1.4-amd64.upgrade\n  minne upgrade --status\n  minne upgrade --undo",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return usageError{err}
			}
			m, err := upgrade.Find()
			if errors.Is(err, slot.ErrNoMedium) {
				return fmt.Errorf("%w: elsewhere the packages of the distribution upgrade Minne", err)
			}
			if err != nil {
				return err
			}
			return a.upgrade(c.Context(), m, f, args)
		},
	}
	c.Flags().BoolVar(&f.status, "status", false, "show what is in the slots, which one boots next, and how the last upgrade ended")
	c.Flags().BoolVar(&f.undo, "undo", false, "fall back to the system in the other slot")
	c.Flags().BoolVar(&f.trial, "trial", false, "the trial after the first boot of an upgrade: wait until everything works, or fall back (the image runs this)")
	c.Flags().BoolVar(&f.downgrade, "downgrade", false, "accept a system that is older than the running one")
	c.Flags().StringSliceVar(&f.without, "without", nil, "`sets` of the running system that the new one may lack, as wifi")
	c.Flags().BoolVar(&f.noRestart, "no-restart", false, "do not restart the router; the new system boots at the next restart")
	c.Flags().BoolVar(&f.asJSON, "json", false, "with --status: print JSON")
	c.Flags().DurationVar(&f.within, "within", 5*time.Minute, "`time` after its start in which the new system must have everything working, 30s to 1h")
	return c
}

func (f upgradeFlags) check(args []string) error {
	words := len(args)
	for _, set := range []bool{f.status, f.undo, f.trial} {
		if set {
			words++
		}
	}
	switch {
	case words != 1:
		return errors.New("expected one of: a file or URL, --status, --undo")
	case f.within < 30*time.Second || f.within > time.Hour:
		return fmt.Errorf("--within %v: expected 30s to 1h", f.within)
	}
	return nil
}

func (a *app) upgrade(ctx context.Context, m upgrade.Medium, f upgradeFlags, args []string) error {
	inst, err := a.inst()
	if err != nil {
		return err
	}
	promises := filepath.Join(inst.StateDir, "upgrade.json")
	switch {
	case f.status:
		return a.upgradeStatus(m, promises, f.asJSON)
	case f.trial:
		return a.upgradeTrial(ctx, m, promises)
	}
	o := upgrade.Options{Downgrade: f.downgrade, Without: f.without, Progress: a.progress()}
	o.Promised = func(to slot.System, target string) error { return a.promise(ctx, m, f, promises, to, target) }
	if o.Keys, err = upgrade.Keys(upgrade.KeysDir, upgrade.LocalKeysDir); err != nil {
		return err
	}
	var target string
	if f.undo {
		var to slot.System
		if target, to, err = m.Undo(o); err == nil {
			fmt.Fprintf(a.out, "slot %s: version %s%s, built %s\n", target, to.Version, upgrade.WithSets(to), to.Built.Format(time.DateTime))
			a.warnOfSchema(to)
		}
	} else {
		err = found(args[0], func(name string) error {
			target, err = a.install(ctx, m, name, o)
			return err
		})
	}
	if err != nil {
		return err
	}
	if f.noRestart {
		_, err := fmt.Fprintf(a.out, "the trial of slot %s begins when this router restarts\n", target)
		return err
	}
	fmt.Fprintf(a.out, "restarting into slot %s for a trial of at most %v; for its result: minne upgrade --status\n", target, f.within)
	return restart(ctx)
}

func (a *app) install(ctx context.Context, m upgrade.Medium, name string, o upgrade.Options) (string, error) {
	source, err := upgrade.Open(ctx, name)
	if err != nil {
		return "", err
	}
	if err := m.Check(source, o); err != nil {
		return "", err
	}
	to := source.Trailer
	fmt.Fprintf(a.out, "version %s%s, built %s, %.1f MB\n", to.Version, upgrade.WithSets(to.System), to.Built.Format(time.DateTime), float64(to.Size)/1e6)
	a.warnOfSchema(to.System)
	return m.Install(ctx, source, o)
}

// found calls use with the path of a file, which may be on the FAT partition; a URL it leaves alone.
func found(name string, use func(path string) error) error {
	if _, err := os.Stat(name); err == nil || strings.Contains(name, "/") {
		return use(name)
	}
	return boot.Exchange(func(files string) error {
		path := filepath.Join(files, name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%s is neither in this directory nor on the medium's FAT partition", name)
		}
		return use(path)
	})
}

// warnOfSchema tells what becomes of the configuration under a system that reads an older format.
func (a *app) warnOfSchema(to slot.System) {
	if to.Schema < config.Version {
		fmt.Fprintf(a.err, "minne: version %s reads configurations up to format %d, this one writes format %d: after the restart it uses the newest revision that it can read (minne revisions)\n",
			to.Version, to.Schema, config.Version)
	}
}

// promise keeps what works now, as far as it can be told.
func (a *app) promise(ctx context.Context, m upgrade.Medium, f upgradeFlags, path string, to slot.System, target string) error {
	if r, err := boot.ReadReport(); err == nil && r.Help {
		return writePromise(m, f, path, to, target, upgrade.Works{}) // nothing works: a daemon that answers is better
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	current := runningRouter{client}
	hosts, err := current.gateways(ctx)
	if err != nil {
		return fmt.Errorf("cannot record what works now: %w", err)
	}
	if from, _, ok := strings.Cut(os.Getenv("SSH_CONNECTION"), " "); ok {
		if at, err := netip.ParseAddr(from); err == nil {
			hosts = append(hosts, at.Unmap())
		}
	}
	works, err := current.Works(ctx, hosts)
	if err != nil {
		return fmt.Errorf("cannot record what works now: %w", err)
	}
	fmt.Fprintf(a.out, "must work again: %d interfaces, %d sessions, %d hosts that answer\n", len(works.Interfaces), len(works.Sessions), len(works.Hosts))
	return writePromise(m, f, path, to, target, works)
}

func writePromise(m upgrade.Medium, f upgradeFlags, path string, to slot.System, target string, works upgrade.Works) error {
	running, err := m.Holds(m.Booted, false)
	if err != nil {
		return err
	}
	p := upgrade.Promise{From: running.System, To: to, Slot: target, Made: time.Now(), Within: f.within, Works: works, Outcome: upgrade.Pending}
	return p.Write(path)
}

// upgradeTrial runs once after each boot of the image.
func (a *app) upgradeTrial(ctx context.Context, m upgrade.Medium, path string) error {
	p, err := upgrade.ReadPromise(path)
	known := err == nil && p.Outcome == upgrade.Pending
	if !m.Trial {
		var failed error
		if known { // another slot was to be tried, and this one booted
			p.Outcome, p.Reason = upgrade.FellBack, upgrade.NotChecked
			a.announce("fell back from version %s in slot %s: %s", p.To.Version, p.Slot, p.Reason)
			failed = p.Write(path)
		}
		return errors.Join(failed, a.getsWell(ctx, m))
	}
	if !known || p.Slot != m.Booted {
		a.announce("there is no record of what worked before this upgrade: the trial passes once the daemon answers")
		p = upgrade.Promise{Slot: m.Booted, Made: time.Now(), Within: 5 * time.Minute}
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	failed := m.FinishTrial(ctx, runningRouter{client}, p)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if p.Outcome = upgrade.Good; failed != nil {
		p.Outcome, p.Reason = upgrade.FellBack, failed.Error()
	}
	if err := p.Write(path); err != nil {
		fmt.Fprintln(a.err, "minne:", err)
	}
	if failed == nil {
		a.announce("the trial of slot %s passed: the router boots it from now on", m.Booted)
		return nil
	}
	a.announce("the trial failed, the router falls back: %v", failed)
	return restart(ctx)
}

// wellFor is how long a router has to answer at a stretch until it is well: one that crashes sooner was started in vain.
const wellFor = time.Minute

// getsWell waits until the router is well, and has GRUB count its starts anew.
func (a *app) getsWell(ctx context.Context, m upgrade.Medium) error {
	if r, err := boot.ReadReport(); err != nil || r.Help {
		return err
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	for since := time.Now(); time.Since(since) < wellFor; {
		status, err := api.GetStatus.Ask(ctx, client, api.Empty{})
		if err != nil || status.State == api.Starting {
			since = time.Now()
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return m.Well()
}

// announce reports on the consoles and in the log how an upgrade ended.
func (a *app) announce(format string, args ...any) {
	boot.Say(format, args...)
	fmt.Fprintf(a.out, format+"\n", args...)
}

func (a *app) upgradeStatus(m upgrade.Medium, promises string, asJSON bool) error {
	status, err := m.Status(promises)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(status)
	}
	return status.Print(a.out)
}

// progress tells every tenth of the way.
func (a *app) progress() func(done, total int64) {
	told := int64(-1)
	return func(done, total int64) {
		if tenth := 10 * done / total; tenth > told {
			told = tenth
			fmt.Fprintf(a.out, "written %d %%\n", 10*tenth)
		}
	}
}

// restart restarts the machine in order: daemons end, the configuration's partition is synchronised.
func restart(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "reboot").CombinedOutput(); err != nil {
		return fmt.Errorf("restart: %w: %s", err, out)
	}
	return nil
}
