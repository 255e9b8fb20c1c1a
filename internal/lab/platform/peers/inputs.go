// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"minne/internal/lab/algo/lpm"
	"minne/internal/subsystem/fastpath/automaton"
)

// WriteRoutes writes a table of routes as peers read it: a prefix and the number of its next hop in each line.
func WriteRoutes(w io.Writer, routes []lpm.Route) error {
	b := bufio.NewWriter(w)
	for _, r := range routes {
		fmt.Fprintf(b, "%v %d\n", r.Prefix, r.NextHop)
	}
	return b.Flush()
}

// WritePatterns writes patterns as a peer reads them: in its own words where it does not mean by them what PCRE does. A
// pattern's number is its place in the list; those that the peer has refused are left out.
func WritePatterns(w io.Writer, p Peer, patterns []automaton.Pattern, refused map[int]string) error {
	b := bufio.NewWriter(w)
	for i, pattern := range patterns {
		if _, is := refused[i]; is {
			continue
		}
		text, flags := string(pattern.Literal), "l"
		if pattern.Literal == nil {
			text, flags = expression(pattern.Text)
			if p.Name == "RE2" {
				text = re2Syntax(text, strings.Contains(flags, "m"), strings.Contains(flags, "x"))
				flags = strings.ReplaceAll(flags, "x", "")
			} else if strings.Contains(flags, "x") {
				text = "(?x)" + text
				flags = strings.ReplaceAll(flags, "x", "")
			}
			flags = cmp.Or(flags, "-")
		}
		fmt.Fprintf(b, "%d %s %s\n", i, flags, hex.EncodeToString([]byte(text)))
	}
	return b.Flush()
}

// expression cuts /…/flags, and leaves out the flags that don't change what matches.
func expression(text string) (inner, flags string) {
	end := strings.LastIndexByte(text, '/')
	for _, f := range text[end+1:] {
		if strings.ContainsRune("ismx", f) {
			flags += string(f)
		}
	}
	return text[1:end], flags
}

// Refused returns which patterns of a table, that WritePatterns has written, a peer can't search for, and why.
func Refused(ctx context.Context, p Peer, table string) (map[int]string, error) {
	out, err := exec.CommandContext(ctx, p.program, "--check", p.Algorithm, table).Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p, err)
	}
	refused := map[int]string{}
	for line := range strings.Lines(string(out)) {
		number, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("%v --check: %q: expected a number and a reason", p, line)
		}
		refused[n] = why
	}
	return refused, nil
}
