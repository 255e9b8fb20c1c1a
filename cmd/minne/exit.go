// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/model/api"
	"minne/internal/model/config"
)

// Exit codes, as the manual promises them to scripts.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitInvalid  = 3 // the configuration is wrong; nothing was changed
	exitReverted = 4 // applied, then taken back
	exitLocked   = 5 // another commit is at work or awaits its confirmation
	exitDegraded = 6 // minne status --check: the router runs, and something is wrong with it
)

// errDegraded ends a command whose output has said what is wrong.
var errDegraded = errors.New("not healthy")

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// exitCode returns the code that tells scripts what err was.
func exitCode(err error) int {
	var usage usageError
	var wrong *config.Error
	switch {
	case errors.Is(err, errDegraded):
		return exitDegraded
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &wrong):
		return exitInvalid
	}
	switch api.KindOf(err) {
	case api.Invalid:
		return exitInvalid
	case api.Reverted:
		return exitReverted
	case api.Locked:
		return exitLocked
	case api.Usage:
		return exitUsage
	}
	return exitFailed
}

// strict makes every command below c report a wrong command line as a usage
// error. A command that only groups others prints its help when called alone.
func strict(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if strings.Contains(c.Use, "[-- OPTION…]") {
			return usageError{fmt.Errorf("%w: put options of %s itself after --, as in %s", err, c.Name(), c.Example)}
		}
		return usageError{fmt.Errorf("%w; see %s --help", err, c.CommandPath())}
	})
	if c.HasSubCommands() && !c.Runnable() {
		c.Args = noCommand
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	} else if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return usageError{fmt.Errorf("%s; see %s --help", wordsWrong(c, given, err), c.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

// wordsWrong says what is wrong with the words behind a command: its library counts them only.
func wordsWrong(c *cobra.Command, given []string, err error) string {
	text := err.Error()
	wanted := strings.TrimSuffix(c.UseLine(), " [flags]")
	switch {
	case strings.HasPrefix(text, "unknown command"): // it takes none
		return fmt.Sprintf("unexpected %q: %s takes no more words", strings.Join(given, " "), c.CommandPath())
	case !strings.Contains(text, "arg(s)"):
		return text
	case len(given) == 0:
		return "incomplete command: expected " + wanted
	}
	return fmt.Sprintf("%q: expected %s", strings.Join(given, " "), wanted)
}
