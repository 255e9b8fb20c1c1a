// SPDX-License-Identifier: Apache-2.0

// Package report turns a result of the lab into what people read: a directory with
// result.json, which holds everything, CSV files, and one report.html that needs
// nothing else, and tables for a terminal. All of it is a function of result.json
// alone, so it can be made again at any time, and a signature of that file's bytes
// covers what the figures say.
//
// Files are written beside their names and renamed when they are whole. What a
// power cut leaves are the old files or the new ones.
package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"minne/internal/base/atomicfile"
	"minne/internal/lab/result"
)

// Names of files in the directory of a report.
const (
	ResultFile    = "result.json"
	PageFile      = "report.html"
	SignatureFile = "result.json.sig"
)

// largest is the most bytes of a result.json that are read.
const largest = 256 << 20

// Write puts the report of r into dir, which it makes if needed. It may be called again and
// again while a measurement runs; r is not changed. Figures that are not numbers
// become 0, with a note that says which.
func Write(dir string, r *result.Result) error {
	r = numbers(r)
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("report %s: %w", dir, err)
	}
	data = append(data, '\n')
	files, err := derived(data, r)
	if err != nil {
		return fmt.Errorf("report %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return place(dir, append([]file{{ResultFile, data}}, files...))
}

// file is a file of a report; without content it is one that must not be there.
type file struct {
	name    string
	content []byte
}

// derived makes everything that follows from result.json, whose bytes are data and whose meaning is r.
func derived(data []byte, r *result.Result) ([]file, error) {
	var out []file
	for _, s := range sheets(r) {
		f := file{name: s.name}
		if len(s.rows) > 1 {
			content, err := s.bytes()
			if err != nil {
				return nil, err
			}
			f.content = content
		}
		out = append(out, f)
	}
	var b bytes.Buffer
	if err := writePage(&b, r, digest(data)); err != nil {
		return nil, err
	}
	return append(out, file{PageFile, b.Bytes()}), nil
}

// digest is the SHA-256 of data in hexadecimal digits.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// place writes all files beside their names first, then renames them.
func place(dir string, files []file) error {
	var whole []atomicfile.Prepared
	for _, f := range files {
		if f.content == nil {
			continue
		}
		p, err := atomicfile.Prepare(filepath.Join(dir, f.name), f.content, 0o644, atomicfile.Durable)
		if err != nil {
			for _, p := range whole {
				p.Drop()
			}
			return fmt.Errorf("report: %w", err)
		}
		whole = append(whole, p)
	}
	if err := atomicfile.Place(whole...); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, f := range files {
		if f.content != nil {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("report: %w", err)
		}
	}
	return atomicfile.Sync(dir)
}

// Read returns the result in a report's directory, or in a result.json.
func Read(path string) (*result.Result, error) {
	_, data, err := load(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// load returns the path and the bytes of the result.json that path is or holds.
func load(path string) (string, []byte, error) {
	s, err := os.Stat(path)
	if err != nil {
		return "", nil, fmt.Errorf("result: %w; expected a report's directory or its %s", err, ResultFile)
	}
	if s.IsDir() {
		dir := path
		path = filepath.Join(dir, ResultFile)
		if _, err := os.Stat(path); err != nil {
			return "", nil, fmt.Errorf("%s holds no %s: it is not the directory of a lab report", dir, ResultFile)
		}
	}
	data, err := bounded(path, largest)
	return path, data, err
}

// bounded reads a file of at most so many bytes.
func bounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s: larger than %d MiB: no result of the lab is", path, most>>20)
	}
	return data, nil
}

func parse(path string, data []byte) (*result.Result, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%s: not a lab result: %w", path, located(data, err))
	}
	if err := known(head.Schema); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &result.Result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, located(data, err))
	}
	return r, nil
}

// known accepts this major version of the schema, "name/1", with any minor one after it: "name/1.2".
func known(schema string) error {
	name, version, _ := strings.Cut(schema, "/")
	wanted, major, _ := strings.Cut(result.Schema, "/")
	got, _, _ := strings.Cut(version, ".")
	switch {
	case name != wanted:
		return fmt.Errorf("not a lab result: schema is %q, expected %q", schema, result.Schema)
	case got != major:
		return fmt.Errorf("schema is %q, this minne reads %q: use the version of minne that wrote it", schema, result.Schema)
	}
	return nil
}

// located says where in data a JSON error is.
func located(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	at := int64(-1)
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		at = kind.Offset
	}
	if at < 0 || at > int64(len(data)) {
		return err
	}
	before := data[:at]
	return fmt.Errorf("line %d, column %d: %w", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')-1, err)
}
