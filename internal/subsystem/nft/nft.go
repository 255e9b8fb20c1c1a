// SPDX-License-Identifier: Apache-2.0

// Package nft runs nft(8), which is how Minne reads and writes the kernel's packet
// filter, and asks the kernel itself where that is too slow. Each part of the router owns a table of family inet and no other.
package nft

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// mostWords bounds what is told of an error, in bytes: one wrong set repeats all its elements.
const mostWords = 2000

// Run runs nft with a script as its input and returns what it prints.
func Run(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "nft", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		words := []byte{}
		if exit, ok := err.(*exec.ExitError); ok {
			words = bytes.TrimSpace(exit.Stderr)
		}
		return "", fmt.Errorf("nft %s: %w: %s", strings.Join(args, " "), err, words[:min(len(words), mostWords)])
	}
	return string(out), nil
}

// Table returns the text of a table of family inet, "" when there is none. flags are
// those of nft in front of its command.
func Table(ctx context.Context, name string, flags ...string) (string, error) {
	if _, there, err := Comment(name); err != nil || !there {
		return "", err
	}
	return Run(ctx, "", append(flags, "list", "table", "inet", name)...)
}
