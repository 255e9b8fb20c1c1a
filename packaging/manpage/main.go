// SPDX-License-Identifier: Apache-2.0

// Command manpage turns the page of all commands, docs/reference/commands.md, into
// the manual page minne(8). That page is held against the commands by a test and has
// a simple form: headings, paragraphs, and lists of flags.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	version := flag.String("version", "", "version of the program")
	date := flag.String("date", "", "date of the page, year-month-day")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	if err := convert(out, os.Stdin, *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "manpage:", err)
		os.Exit(1)
	}
}

const head = `.TH MINNE 8 %q "minne %s" "System administration"
.SH NAME
minne \- router from one file, with an XDP fast path
.SH SYNOPSIS
.B minne
[\-\-instance
.IR NAME ]
.I COMMAND
.RI [ ARGUMENT ...]
.SH DESCRIPTION
One file, /etc/minne/minne.yaml, describes the router. The daemon puts it in place, whole or
not at all; a change that is not confirmed reverts by itself.
`

const foot = `.SH FILES
.TP
.I /etc/minne/minne.yaml
the configuration; examples are in /usr/share/doc/minne/examples
.TP
.I /etc/minne/secrets.yaml
passwords and keys by name, mode 0600
.TP
.I /var/lib/minne
the configurations that the router has had
.SH SEE ALSO
.BR nft (8),
.BR vtysh (1),
.BR ip (8)
`

// convert reads Markdown and writes roff.
func convert(out *bufio.Writer, page io.Reader, version, date string) error {
	fmt.Fprintf(out, head, date, version)
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "# "):
			fmt.Fprintln(out, ".SH COMMANDS")
		case strings.HasPrefix(line, "Made by `go test"):
		case strings.HasPrefix(line, "## "):
			fmt.Fprintf(out, ".SS %s\n", roff(line[3:]))
		case strings.HasPrefix(line, "- `"):
			name, text, _ := strings.Cut(line[3:], "`: ")
			fmt.Fprintf(out, ".TP\n.B %s\n%s\n", roff(name), roff(text))
		case line == "":
			fmt.Fprintln(out, ".PP")
		case strings.HasPrefix(line, "  "): // a table or an example: as it stands
			fmt.Fprintf(out, ".br\n%s\n", roff(line))
		default:
			fmt.Fprintln(out, roff(line))
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Fprint(out, foot)
	return out.Flush()
}

// roff returns text without what roff would take for its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
