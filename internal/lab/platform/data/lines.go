// SPDX-License-Identifier: Apache-2.0

package data

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Line is a line of a file that can't be used.
type Line struct {
	File   string
	Number int // from 1; of a capture or a dump, of the record
	Reason string
}

func (l Line) String() string { return fmt.Sprintf("%s:%d: %s", l.File, l.Number, l.Reason) }

// BadLines is the error of a file with lines that can't be used: nothing is taken from it.
type BadLines []Line

// namedLines is how many bad lines an error names.
const namedLines = 10

func (b BadLines) Error() string {
	var text []string
	for _, l := range b[:min(len(b), namedLines)] {
		text = append(text, l.String())
	}
	if len(b) > namedLines {
		text = append(text, fmt.Sprintf("and %d more lines", len(b)-namedLines))
	}
	return strings.Join(text, "\n")
}

// largest bounds what is read of a file, unpacked, in bytes.
const largest = 4 << 30

// open opens a file, and unpacks it when it is packed with gzip or bzip2, whatever it is called.
func open(name string) (*bufio.Reader, io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReaderSize(f, 1<<16)
	magic, err := in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	unpacked := io.Reader(in)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		if unpacked, err = gzip.NewReader(in); err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	case bytes.Equal(magic, []byte("BZh")):
		unpacked = bzip2.NewReader(in)
	}
	return bufio.NewReaderSize(io.LimitReader(unpacked, largest), 1<<16), f, nil
}

// eachLine calls each with the lines of a text that say something: without comments, which # and ; begin, and without white space around.
// What each returns is what is wrong with the line.
func eachLine(file string, in io.Reader, each func(text string) error) error {
	var bad BadLines
	lines := bufio.NewScanner(in)
	number := 0
	for lines.Scan() {
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		text, _, _ = strings.Cut(text, ";")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if err := each(text); err != nil {
			bad = append(bad, Line{file, number, err.Error()})
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", file, number+1, err)
	}
	if len(bad) > 0 {
		return bad
	}
	return nil
}
