// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/reference/commands.md anew")

// TestCommandsReference holds the page of all commands against the commands.
func TestCommandsReference(t *testing.T) {
	const page = "../../docs/reference/commands.md"
	var want bytes.Buffer
	want.WriteString("# Commands\n\nMade by `go test ./cmd/minne -run TestCommandsReference -update`; don't edit.\n\n" +
		"Every command takes `--instance` and `--root`. Exit codes: 0 done, 1 failed, 2 wrong\n" +
		"usage, 3 invalid configuration, 4 applied and rolled back, 5 locked or waiting for\nconfirmation.\n")
	describe(&want, newRootCommand(&app{}))
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not up to date: run go test ./cmd/minne -run TestCommandsReference -update", page)
	}
}

// describe writes a section for each command that does something.
func describe(b *bytes.Buffer, c *cobra.Command) {
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(b, "\n## %s\n\n", strings.TrimSuffix(c.UseLine(), " [flags]"))
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(b, "%s\n", strings.TrimSpace(text))
		var flags []string
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Hidden {
				return
			}
			value, usage := pflag.UnquoteUsage(f)
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			flags = append(flags, fmt.Sprintf("- `%s`: %s", strings.TrimSpace(name+" "+value), usage))
		})
		if flags != nil {
			fmt.Fprintf(b, "\n%s\n", strings.Join(flags, "\n"))
		}
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
			describe(b, sub)
		}
	}
}
