// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"minne/internal/model/config"
	"minne/internal/model/revisions"
)

// Format is the version of what stands in a backup. 2 added what is live.
const Format = 2

// Bounds of a backup. The daemon takes what is restored in one request, so all of
// it stays below api.MaxBody.
const (
	maxFile  = 4 << 20  // bytes of one file
	maxTotal = 12 << 20 // bytes of all files
	maxFiles = 1000
)

// MinPassphrase is how long a passphrase is at least, in bytes: a backup lies where others
// can try at leisure.
const MinPassphrase = 10

// scrypt's cost, as the power of two. 15 takes 32 MiB and a tenth of a second to a
// few seconds: what a small router has. What is read may cost 256 MiB at most.
const (
	workFactor    = 15
	maxWorkFactor = 18
)

// Errors of a file that can't be used.
var (
	ErrPassphrase = errors.New("the passphrase is wrong")
	ErrForeign    = errors.New("not a backup of a router")
	ErrDamaged    = errors.New("damaged: incomplete or changed")
	ErrNewer      = errors.New("made by a newer version")
	ErrTooBig     = errors.New("too big")
)

// Backup is the content of a backup.
type Backup struct {
	Format    int        `json:"format"`
	Version   string     `json:"version"` // of the program that made it
	Created   time.Time  `json:"created"`
	Host      string     `json:"host"`
	Ports     []Port     `json:"ports"`
	Running   string     `json:"-"` // text of the configuration in use
	Revisions []Revision `json:"-"` // oldest first
	Files     []File     `json:"-"`
	Live      Live       `json:"-"`
}

// Revision is an earlier configuration with its text.
type Revision struct {
	revisions.Revision
	Text string `json:"config"`
}

// File is a file that lies beside the configuration.
type File struct {
	Name string // path there, with slashes
	Mode fs.FileMode
	Text []byte
}

// Names in the archive.
const (
	describing = "backup.json"
	running    = "running.yaml"
	earlier    = "revisions.json"
	living     = "live.json"
	companions = "files/"
)

// Collect reads the files beside a configuration into the backup. Hidden files are
// left out: they are half-written ones, and editors' own.
func (b *Backup) Collect(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == dir:
			return nil
		case err != nil:
			return err
		case path != dir && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil // directories come with their files; links and sockets say nothing elsewhere
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b.Files = append(b.Files, File{Name: filepath.ToSlash(name), Mode: info.Mode().Perm(), Text: text})
		return nil
	})
	if err != nil {
		return fmt.Errorf("files next to the configuration: %w", err)
	}
	return nil
}

// Missing returns the places of a configuration that name a file which is not in the backup, as one
// outside of dir, the configuration's directory.
func (b *Backup) Missing(cfg *config.Config, dir string) (list []config.Use) {
	for _, use := range config.FileUses(cfg) {
		path := use.Name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || !slices.ContainsFunc(b.Files, func(f File) bool { return f.Name == filepath.ToSlash(name) }) {
			list = append(list, use)
		}
	}
	return list
}

// Secrets returns the text of the secrets file.
func (b *Backup) Secrets() []byte {
	for _, f := range b.Files {
		if f.Name == SecretsName {
			return f.Text
		}
	}
	return nil
}

// Names of the files that every router has, whatever its instance is called.
const (
	ConfigName  = "minne.yaml"
	SecretsName = "secrets.yaml"
)

// Write writes the backup, encrypted with the passphrase.
func Write(to io.Writer, passphrase string, b Backup) error {
	if len(passphrase) < MinPassphrase {
		return fmt.Errorf("the passphrase is too short: expected at least %d characters", MinPassphrase)
	}
	b.Format = Format
	recipient, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	recipient.SetWorkFactor(workFactor)
	sealed, err := age.Encrypt(to, recipient)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	zip := gzip.NewWriter(sealed)
	archive := &archive{Writer: tar.NewWriter(zip), time: b.Created}
	archive.addJSON(describing, b)
	archive.add(running, 0o600, []byte(b.Running))
	archive.addJSON(earlier, b.Revisions)
	archive.addJSON(living, b.Live)
	for _, f := range b.Files {
		archive.add(companions+f.Name, f.Mode, f.Text)
	}
	if err := errors.Join(archive.failed, archive.Close(), zip.Close(), sealed.Close()); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// archive is a tar archive in the making, with what it became too big for.
type archive struct {
	*tar.Writer
	time   time.Time
	count  int
	total  int
	failed error
}

func (a *archive) addJSON(name string, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil && a.failed == nil {
		a.failed = err
	}
	a.add(name, 0o600, text)
}

func (a *archive) add(name string, mode fs.FileMode, text []byte) {
	a.count++
	a.total += len(text)
	switch {
	case a.failed != nil:
		return
	case len(text) > maxFile || a.total > maxTotal || a.count > maxFiles:
		a.failed = fmt.Errorf("%s: %w: a backup takes %d files, %d MB each, %d MB together", name, ErrTooBig, maxFiles, maxFile>>20, maxTotal>>20)
		return
	}
	a.failed = a.WriteHeader(&tar.Header{Name: name, Mode: int64(mode), Size: int64(len(text)), ModTime: a.time, Format: tar.FormatPAX})
	if a.failed == nil {
		_, a.failed = a.Write(text)
	}
}

// Read reads a backup whole and checks it.
func Read(from io.Reader, passphrase string) (Backup, error) {
	sealed, err := io.ReadAll(io.LimitReader(from, maxTotal+1))
	if err != nil {
		return Backup{}, err
	}
	if len(sealed) > maxTotal {
		return Backup{}, fmt.Errorf("%w: a backup has %d MB at most", ErrTooBig, maxTotal>>20)
	}
	plain, err := unseal(sealed, passphrase)
	if err != nil {
		return Backup{}, err
	}
	var b Backup
	archive := tar.NewReader(plain)
	for count, total := 0, 0; ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Backup{}, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		count++
		total += int(min(h.Size, maxTotal+1))
		if h.Size > maxFile || total > maxTotal || count > maxFiles {
			return Backup{}, fmt.Errorf("%s: %w: a backup holds %d files, %d MB each, %d MB together", h.Name, ErrTooBig, maxFiles, maxFile>>20, maxTotal>>20)
		}
		if err := b.take(h, archive); err != nil {
			return Backup{}, err
		}
	}
	// Behind the archive nothing follows, and the last block of age must be there.
	if n, err := io.Copy(io.Discard, io.LimitReader(plain, maxTotal)); err != nil || n > 64<<10 {
		return Backup{}, ErrDamaged
	}
	if b.Format == 0 {
		return Backup{}, fmt.Errorf("%w: %s is missing in it", ErrForeign, describing)
	}
	return b, nil
}

// unseal decrypts and decompresses.
func unseal(sealed []byte, passphrase string) (io.Reader, error) {
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, ErrPassphrase // an empty one
	}
	identity.SetMaxWorkFactor(maxWorkFactor)
	if !bytes.HasPrefix(sealed, []byte("age-encryption.org/v1\n")) {
		return nil, ErrForeign
	}
	plain, err := age.Decrypt(bytes.NewReader(sealed), identity)
	var wrong *age.NoIdentityMatchError
	switch {
	case errors.As(err, &wrong):
		return nil, ErrPassphrase
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	zip, err := gzip.NewReader(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return zip, nil
}

// take puts one entry of the archive where it belongs.
func (b *Backup) take(h *tar.Header, content io.Reader) error {
	text, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	name, isCompanion := strings.CutPrefix(h.Name, companions)
	switch {
	case h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%w: %q is no regular file", ErrForeign, h.Name)
	case h.Name == describing:
		if err := json.Unmarshal(text, b); err != nil || b.Format < 1 {
			return fmt.Errorf("%w: %s can't be read", ErrForeign, describing)
		}
		if b.Format > Format {
			return fmt.Errorf("%w (%s): format %d, this one reads up to %d; upgrade this router first", ErrNewer, b.Version, b.Format, Format)
		}
	case b.Format == 0:
		return fmt.Errorf("%w: expected %s as its first file", ErrForeign, describing)
	case h.Name == running:
		b.Running = string(text)
	case h.Name == earlier:
		if err := json.Unmarshal(text, &b.Revisions); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, earlier, err)
		}
	case h.Name == living:
		if err := json.Unmarshal(text, &b.Live); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, living, err)
		}
	case isCompanion && CheckName(name) == nil:
		if slices.ContainsFunc(b.Files, func(f File) bool { return f.Name == name }) {
			return fmt.Errorf("%w: %q is in it twice", ErrForeign, h.Name)
		}
		b.Files = append(b.Files, File{Name: name, Mode: fs.FileMode(h.Mode) & 0o777, Text: text})
	default:
		return fmt.Errorf("%w: it holds %q", ErrForeign, h.Name)
	}
	return nil
}

// CheckName refuses names of files that would lie anywhere but beside the configuration.
func CheckName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || len(name) > 200 {
		return fmt.Errorf("file name %q: expected a path below the configuration's directory", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") {
			return fmt.Errorf("file name %q: hidden files are not restored", name)
		}
	}
	return nil
}
