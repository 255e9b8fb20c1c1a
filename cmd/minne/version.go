// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release and commit are set by the build: -ldflags "-X main.release=1.2.3 -X main.commit=…".
var release, commit string

// version returns the release, or the commit that this binary was built from.
func version() string {
	if release != "" {
		return release
	}
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	built, dirty := "", ""
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			built = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+"
		}
	}
	if built == "" {
		return "development"
	}
	return "development-" + built + dirty
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.out, "minne %s (%s %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
