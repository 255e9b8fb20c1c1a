// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"minne/internal/daemon/show"
)

// screen is where views go. On a terminal it is as wide as that, and has colours unless
// NO_COLOR (no-color.org) or TERM forbid them. Otherwise lines stay whole, so that scripts
// can cut them. COLUMNS, when it is exported, tells the width in both cases: watch(1) does.
func (a *app) screen() *show.Screen {
	width, colours := 0, false
	if f, ok := a.out.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			width = int(size.Col)
			colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	return show.NewScreen(a.out, width, colours)
}
