// SPDX-License-Identifier: Apache-2.0

package router

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"minne/internal/base/atomicfile"
	"minne/internal/base/medium"
	"minne/internal/model/api"
)

// companionFiles are the files beside the configuration while a restore exchanges them. What
// they held before is kept in a journal until the restore is confirmed, so that none of
// it is lost to a power cut: the journal is whole on disk before the first file
// changes, and gone only after the last was put back.
type companionFiles struct {
	dir     string            // of the configuration
	own     map[string]string // files with a path of their own: name in the backup → path
	journal string            // directory
}

// exchanged is what the journal says.
type exchanged struct {
	Text  string     `json:"sha256"` // of the configuration that the files came with
	After int        `json:"after"`  // newest revision before it
	Files []formerly `json:"files"`
}

// formerly is a file as it was.
type formerly struct {
	Path   string      `json:"path"`
	Absent bool        `json:"absent,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"`
	Text   []byte      `json:"text,omitempty"`
}

// Files of the journal.
const (
	formerFile  = "former.json"
	historyFile = "history.json"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (b *companionFiles) path(name string) string {
	if own := b.own[name]; own != "" {
		return own
	}
	return filepath.Join(b.dir, filepath.FromSlash(name))
}

// exchange puts files in place, all or none. history is kept for keep.
func (b *companionFiles) exchange(text string, after int, files []api.RestoredFile, history []byte) (err error) {
	done, err := b.writable()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	was := exchanged{Text: digest(text), After: after}
	for _, f := range files {
		old, err := look(b.path(f.Name))
		if err != nil {
			return err
		}
		was.Files = append(was.Files, old)
	}
	if err := b.open(was, history); err != nil {
		return err
	}
	for _, f := range files {
		if err := replaceFile(b.path(f.Name), f.Text, fs.FileMode(f.Mode)&0o777); err != nil {
			return errors.Join(err, b.back())
		}
	}
	return nil
}

// look reads a file that will be replaced.
func look(path string) (formerly, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return formerly{Path: path, Absent: true}, nil
	}
	if err != nil {
		return formerly{}, err
	}
	if !info.Mode().IsRegular() {
		return formerly{}, fmt.Errorf("%s is no regular file, which a restore does not replace: remove it first", path)
	}
	text, err := os.ReadFile(path)
	return formerly{Path: path, Mode: info.Mode().Perm(), Text: text}, err
}

// open makes the journal, whole or not at all.
func (b *companionFiles) open(was exchanged, history []byte) error {
	content, err := json.Marshal(was)
	if err != nil {
		return err
	}
	scratch := b.journal + ".new"
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	for name, text := range map[string][]byte{formerFile: content, historyFile: history} {
		if err := replaceFile(filepath.Join(scratch, name), text, 0o600); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(b.journal); err != nil {
		return err
	}
	if err := os.Rename(scratch, b.journal); err != nil {
		return err
	}
	return atomicfile.Sync(filepath.Dir(b.journal))
}

// pending returns what restore is not ended yet.
func (b *companionFiles) pending() (text string, after int, ok bool) {
	was, err := b.read()
	return was.Text, was.After, err == nil
}

func (b *companionFiles) read() (exchanged, error) {
	var was exchanged
	if b == nil {
		return was, fs.ErrNotExist
	}
	content, err := os.ReadFile(filepath.Join(b.journal, formerFile))
	if err != nil {
		return was, err
	}
	return was, json.Unmarshal(content, &was)
}

// back puts the files back as they were before the exchange. Without one it does nothing.
func (b *companionFiles) back() (err error) {
	was, err := b.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	done, err := b.writable()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	var failed error
	for _, f := range was.Files {
		if f.Absent {
			if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = errors.Join(failed, err)
			}
			continue
		}
		failed = errors.Join(failed, replaceFile(f.Path, f.Text, f.Mode))
	}
	if failed != nil {
		return failed // and the journal stays, for the next start
	}
	return os.RemoveAll(b.journal)
}

// keep ends a restore whose files stay, and returns the history that came with them.
func (b *companionFiles) keep() (history []byte, err error) {
	if b == nil {
		return nil, nil
	}
	history, err = os.ReadFile(filepath.Join(b.journal, historyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	done, err2 := b.writable()
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	return history, errors.Join(os.RemoveAll(b.journal), done())
}

// writable makes both directories writable.
func (b *companionFiles) writable() (func() error, error) {
	files, err := medium.Writable(b.dir)
	if err != nil {
		return nil, err
	}
	journal, err := medium.Writable(b.journal)
	if err != nil {
		return nil, errors.Join(err, files())
	}
	return func() error { return errors.Join(journal(), files()) }, nil
}

// replaceFile replaces a file, all or nothing.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, text, mode, atomicfile.Durable)
}
