// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// A source file or page, alone or with folders in front of it.
	fileName = regexp.MustCompile(`[\w./*…-]*[\w*…]\.(?:go\.in|go|c|h|md|sh)\b`)
	// Of the kernel's, FRR's and the C library's sources.
	foreignFile = regexp.MustCompile(`^(?:include|linux|net|kernel|bpf|lib|bgpd|zebra)/.*\.[ch]$`)
	commentOfC  = regexp.MustCompile(`//[^\n]*|(?s:/\*.*?\*/)`)
)

// TestNamedFilesExist: what the README, pages of docs/ and comments call a file of the repository is one. A name with folders is
// meant from the root, from where it is named, or from docs/; a name alone is of the same folder, a header or
// program of bpf/, or, on pages only, any file's.
func TestNamedFilesExist(t *testing.T) {
	const root = "../.."
	out, err := exec.Command("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("listing the files of the repository: %v", err)
	}
	files := strings.Fields(string(out))
	exists, bases := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		exists[f], bases[path.Base(f)] = true, true
	}
	names := 0
	for _, f := range files {
		for _, prose := range proseOf(t, filepath.Join(root, f)) {
			for _, name := range fileName.FindAllString(prose, -1) {
				if strings.ContainsAny(name, "*…") || strings.Contains(name, "NAME") || foreignFile.MatchString(name) {
					continue
				}
				names++
				meant := []string{name, path.Join(path.Dir(f), name), path.Join("docs", name)}
				if path.Base(name) == name {
					meant = append(meant, "bpf/"+name, "bpf/algo/"+name)
				}
				if !slices.ContainsFunc(meant, func(m string) bool { return exists[path.Clean(m)] }) &&
					(path.Ext(f) != ".md" || !bases[name]) {
					t.Errorf("%s names the file %s, which does not exist", f, name)
				}
			}
		}
	}
	if names < 400 {
		t.Errorf("only %d names of files are seen: the test sees too little", names)
	}
}

// proseOf is what a file says to a reader: all of a page, the comments of Go and C.
func proseOf(t *testing.T, file string) []string {
	ext := filepath.Ext(file)
	if !slices.Contains([]string{".md", ".go", ".h", ".c"}, ext) {
		return nil
	}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil // removed, and not committed yet
	} else if err != nil {
		t.Fatal(err)
	}
	switch ext {
	case ".md":
		return []string{string(text)}
	case ".go":
		return commentsOfGo(file, text)
	}
	return commentOfC.FindAllString(string(text), -1)
}

func commentsOfGo(file string, text []byte) (all []string) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(file, -1, len(text)), text, nil, scanner.ScanComments)
	for {
		switch _, tok, literal := s.Scan(); {
		case tok == token.EOF:
			return all
		case tok == token.COMMENT && !strings.HasPrefix(literal, "//go:"):
			all = append(all, literal)
		}
	}
}
