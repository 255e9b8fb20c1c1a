// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// maxPassphrase bounds what is read as a passphrase, in bytes.
const maxPassphrase = 1024

// passphrase is where a passphrase comes from. It never is an argument: those are seen
// by everybody on the machine and kept in the shell's history.
type passphrase struct {
	file string
	fd   int
}

func (p *passphrase) flags(c *cobra.Command) {
	c.Flags().StringVar(&p.file, "passphrase-file", "", "`file` whose first line is the passphrase (default: prompt on the terminal)")
	c.Flags().IntVar(&p.fd, "passphrase-fd", -1, "`number` of an open file descriptor to read the passphrase from")
}

// read returns the passphrase; one that is new is asked for twice.
func (p *passphrase) read(isNew bool) (string, error) {
	switch {
	case p.file != "" && p.fd >= 0:
		return "", usageError{errors.New("--passphrase-file and --passphrase-fd: expected one of them")}
	case p.file != "":
		f, err := os.Open(p.file)
		if err != nil {
			return "", fmt.Errorf("passphrase: %w", err)
		}
		defer f.Close()
		return firstLine(f)
	case p.fd >= 0:
		f := os.NewFile(uintptr(p.fd), "passphrase")
		defer f.Close()
		return firstLine(f)
	}
	terminal, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", usageError{errors.New("there is no terminal to ask for the passphrase on: use --passphrase-file or --passphrase-fd")}
	}
	defer terminal.Close()
	return askPassphrase(terminal, isNew)
}

func firstLine(from io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(from, maxPassphrase)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("passphrase: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", errors.New("the passphrase is empty")
	}
	return line, nil
}

// askPassphrase asks on a terminal, which shows nothing of what is typed.
func askPassphrase(terminal *os.File, isNew bool) (string, error) {
	first, err := askHidden(terminal, "Passphrase: ")
	if err != nil || !isNew {
		return first, err
	}
	again, err := askHidden(terminal, "Repeat it: ")
	if err == nil && again != first {
		err = errors.New("the two passphrases differ")
	}
	return first, err
}

func askHidden(terminal *os.File, question string) (string, error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	hidden := *before
	hidden.Lflag &^= unix.ECHO
	hidden.Lflag |= unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(fd, unix.TCSETSF, &hidden); err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	defer unix.IoctlSetTermios(fd, unix.TCSETSF, before)
	fmt.Fprint(terminal, question)
	line, err := firstLine(terminal)
	fmt.Fprintln(terminal)
	return line, err
}
