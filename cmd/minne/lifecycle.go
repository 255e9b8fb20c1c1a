// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/revisions"
)

func newCheckCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration",
		Long: `Check a configuration file (default: the instance's own): print errors, and warnings
about what is valid but probably a mistake. Needs neither root nor a daemon.

Secrets come from /etc/minne/secrets.yaml; on a machine without this file, from
secrets.yaml in FILE's directory.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, _, odd, err := a.loadOdd(args)
			if asJSON {
				return a.printChecked(file, odd, err)
			}
			if err != nil {
				return err
			}
			for _, o := range odd {
				fmt.Fprintln(a.err, "minne: warning:", o)
			}
			_, err = fmt.Fprintf(a.out, "%s is valid%s\n", file, butWarnings(len(odd)))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print errors and warnings as JSON")
	return c
}

// Checked is the answer of minne check as JSON.
type Checked struct {
	File     string           `json:"file"`
	Right    bool             `json:"right"`
	Problems []config.Problem `json:"problems,omitempty"` // that refuse the file
	More     int              `json:"more,omitempty"`     // problems beyond those listed
	Warnings []config.Problem `json:"warnings,omitempty"` // what is right but seldom meant
}

// printChecked prints what was found; a file that is wrong still ends the command with its exit code.
func (a *app) printChecked(file string, odd []config.Problem, err error) error {
	answer := Checked{File: file, Right: err == nil, Warnings: odd}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		answer.Problems, answer.More = wrong.Problems, wrong.More
	} else if err != nil {
		return err
	}
	return errors.Join(a.printJSON(answer), err)
}

// butWarnings counts warnings behind a good word.
func butWarnings(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", with 1 warning"
	}
	return fmt.Sprintf(", with %d warnings", n)
}

func newDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "diff [FILE]",
		Short: "Compare a file with the running configuration",
		Long:  "Print the lines in which a configuration file (by default the instance's own) differs from the running configuration: - runs now, + would run.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, text, err := a.load(args)
			if err != nil {
				return err
			}
			running, err := a.stored(c.Context(), 0)
			if err != nil && api.KindOf(err) != api.Missing {
				return err
			}
			_, err = fmt.Fprint(a.out, config.Diff([]byte(running.Text), []byte(text), runningName(running), file))
			return err
		},
	}
}

func runningName(running api.Revision) string {
	if running.Number == 0 {
		return "running (none)"
	}
	return fmt.Sprintf("running (revision %d)", running.Number)
}

func newApplyCommand(a *app) *cobra.Command {
	var q api.Commit
	var dryRun, asJSON bool
	c := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Apply a configuration",
		Long: `Apply a configuration file (default: the instance's own): either completely or not at
all. If a step fails, the router returns to the previous configuration.

With --confirm the router returns to the previous configuration after that time, unless
you enter "minne confirm" first. This also holds after a reboot. Use it whenever a mistake
could lock you out.

Exit codes: 0 applied, or nothing to change; 1 failed, nothing was changed;
3 the file has errors; 4 applied and rolled back; 5 another commit is running or
waits for its confirmation.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("confirm") && q.Confirm <= 0 {
				return usageError{fmt.Errorf("--confirm %s: expected a time such as 10m", q.Confirm)}
			}
			var err error
			if q.Source, q.Config, err = a.load(args); err != nil {
				return err
			}
			q.Session = loginSession()
			act := a.apply
			if dryRun {
				act = a.preview
			} else if q.Session != "" {
				a.warnOfCut(c.Context(), q)
			}
			result, err := act(c.Context(), q)
			if err != nil {
				return err
			}
			if dryRun {
				a.printCut(result.Session, q.Confirm)
			}
			return a.printResult(result, asJSON)
		},
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would change")
	c.Flags().DurationVar(&q.Confirm, "confirm", 0, "`time` within which to confirm, such as 10m")
	c.Flags().StringVar(&q.Comment, "comment", "", "comment for the list of revisions")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}

func newConfirmCommand(a *app) *cobra.Command {
	return a.changing("confirm", "Confirm the configuration that waits for it", cobra.NoArgs,
		func(ctx context.Context, c *api.Client, _ []string) (api.Result, error) {
			return api.Confirm.Ask(ctx, c, api.Empty{})
		})
}

func newRollbackCommand(a *app) *cobra.Command {
	c := a.changing("rollback [REVISION]", "Go back to an earlier configuration", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *api.Client, args []string) (api.Result, error) {
			number := 0
			if len(args) == 1 {
				n, err := strconv.Atoi(args[0])
				if err != nil || n < 1 {
					return api.Result{}, usageError{fmt.Errorf("revision %q: expected a number from 1 (see minne revisions)", args[0])}
				}
				number = n
			}
			return api.Rollback.Ask(ctx, c, api.RollbackQuestion{Revision: number})
		})
	c.Long = `Return to the configuration of a revision (see minne revisions). Without a number:
reject the configuration that waits for its confirmation; if there is none, return to the
last confirmed one before the running one. Secrets are not part of revisions: the
current ones are used.`
	return c
}

// changing is a command that asks the daemon for a change and prints its result.
func (a *app) changing(use, short string, args cobra.PositionalArgs, ask func(context.Context, *api.Client, []string) (api.Result, error)) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  args,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			result, err := ask(c.Context(), client, args)
			if err != nil {
				return err
			}
			return a.printResult(result, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}

func newRevisionsCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "revisions",
		Short: "List the revisions of the configuration",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := a.storedAll(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(api.Revisions{Revisions: all})
			}
			return a.printRevisions(all)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

// load reads and checks the file that was named, or the instance's own.
func (a *app) load(args []string) (file, text string, err error) {
	file, text, _, err = a.loadOdd(args)
	return file, text, err
}

// loadOdd also returns what is right but odd.
func (a *app) loadOdd(args []string) (file, text string, odd []config.Problem, err error) {
	inst, err := a.inst()
	if err != nil {
		return "", "", nil, err
	}
	file = inst.Config
	if len(args) == 1 {
		file = args[0]
	}
	content, odd, err := router.CheckFile(inst, file)
	return file, string(content), odd, err
}

func (a *app) apply(ctx context.Context, q api.Commit) (api.Result, error) {
	client, err := a.client()
	if err != nil {
		return api.Result{}, err
	}
	return api.Apply.Ask(ctx, client, q)
}

// preview asks the daemon, or looks for itself when that can't be asked.
func (a *app) preview(ctx context.Context, q api.Commit) (api.Result, error) {
	inst, err := a.inst()
	if err != nil {
		return api.Result{}, err
	}
	result, err := api.Plan.Ask(ctx, api.NewClient(inst.ControlSocket()), q)
	if errors.Is(err, api.ErrNoDaemon) || api.KindOf(err) == api.Denied {
		return router.Preview(ctx, inst, slog.New(slog.DiscardHandler), q)
	}
	return result, err
}

// stored returns a revision, 0 for the running one: from the daemon, or from disk.
func (a *app) stored(ctx context.Context, number int) (api.Revision, error) {
	inst, err := a.inst()
	if err != nil {
		return api.Revision{}, err
	}
	rev, err := api.GetRevision.Ask(ctx, api.NewClient(inst.ControlSocket()), api.RevisionNumber(number))
	if !errors.Is(err, api.ErrNoDaemon) {
		return rev, err
	}
	onDisk, diskErr := router.Stored(inst, number)
	if diskErr != nil {
		return api.Revision{}, fmt.Errorf("%w; and its revisions can't be read: %w", err, diskErr)
	}
	return api.Revision{Revision: onDisk, Text: onDisk.Config}, nil
}

func (a *app) storedAll(ctx context.Context) ([]api.Revision, error) {
	inst, err := a.inst()
	if err != nil {
		return nil, err
	}
	stored, err := api.GetRevisions.Ask(ctx, api.NewClient(inst.ControlSocket()), api.Empty{})
	all := stored.Revisions
	if !errors.Is(err, api.ErrNoDaemon) {
		return all, err
	}
	onDisk, diskErr := revisions.ReadAll(inst.RevisionsDir())
	if diskErr != nil {
		return nil, fmt.Errorf("%w; and its revisions can't be read: %w", err, diskErr)
	}
	for _, r := range onDisk {
		all = append(all, api.Revision{Revision: r})
	}
	return all, nil
}

func (a *app) printRevisions(all []api.Revision) error {
	t := show.NewTable("", ">Revision", "Time", "User", "!State", "~Comment")
	for _, r := range all {
		mark, note := "", r.Comment
		if r.Running {
			mark = "*"
		}
		if r.Reason != "" {
			note = appendNote(note, r.Reason)
		}
		if r.Deadline != nil {
			note = appendNote(note, "reverted at "+r.Deadline.Wall.Format(time.DateTime)+" unless confirmed")
		}
		t.Row(mark, strconv.Itoa(r.Number), r.Time.Format(time.DateTime), r.User, string(r.State), note)
	}
	return t.Write(a.screen())
}

func appendNote(note, more string) string {
	if note == "" {
		return more
	}
	return note + " (" + more + ")"
}

// warnOfCut says before a commit that it ends the operator's own login: afterwards
// nobody would read it.
func (a *app) warnOfCut(ctx context.Context, q api.Commit) {
	if result, err := a.preview(ctx, q); err == nil {
		a.printCut(result.Session, q.Confirm)
	}
}

func (a *app) printCut(why string, confirm time.Duration) {
	if why == "" {
		return
	}
	fmt.Fprintln(a.err, "minne: warning: this ends your own login by SSH:", why)
	if confirm == 0 {
		fmt.Fprintln(a.err, "minne: with --confirm 5m, the router goes back by itself")
	}
}

// printResult says what became of a request: the changes, then the outcome.
func (a *app) printResult(r api.Result, asJSON bool) error {
	if asJSON {
		return a.printJSON(r)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(a.err, "minne: warning:", w)
	}
	screen := a.screen()
	for _, c := range r.Changes {
		fmt.Fprintln(screen, c)
	}
	_, err := fmt.Fprintln(screen, outcome(r))
	return errors.Join(err, screen.Flush())
}

func outcome(r api.Result) string {
	switch r.Outcome {
	case api.Unchanged:
		return "nothing to change"
	case api.Planned:
		if len(r.Changes) == 1 {
			return "1 change; nothing was applied"
		}
		return fmt.Sprintf("%d changes; nothing was applied", len(r.Changes))
	case api.Awaiting:
		return fmt.Sprintf("revision %d is in force until %s; to keep it: minne confirm", r.Revision, r.Deadline.Format(time.DateTime))
	case api.Repaired:
		return fmt.Sprintf("revision %d was put in place again", r.Revision)
	case api.Confirmed:
		return fmt.Sprintf("revision %d is confirmed", r.Revision)
	case api.RolledBack:
		if r.Revision == 0 {
			return "rolled back: no configuration is in force, as before"
		}
		return fmt.Sprintf("rolled back: revision %d is in force", r.Revision)
	}
	return fmt.Sprintf("applied: revision %d", r.Revision)
}
