// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces a file as a whole: who opens it reads all of the former
// content or all of the new, whatever stops the writer, and after an error the file is
// as it was. What a stopped writer leaves beside it is what Leftovers finds.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Durability is what a write outlives.
type Durability bool

const (
	// Durable writes outlive a power cut from the moment that they return.
	Durable Durability = true
	// Fleeting writes outlive the writer. A power cut may take them: they are for /run, and for what each start writes anew.
	Fleeting Durability = false
)

// Write replaces the file at path, or makes it, with this mode whatever the umask. Each of also is done to the
// new file before anybody sees it.
func Write(path string, data []byte, mode fs.FileMode, d Durability, also ...func(*os.File) error) error {
	p, err := Prepare(path, data, mode, d, also...)
	if err != nil {
		return err
	}
	return Place(p)
}

// Owner is for Write: it gives the new file away.
func Owner(uid, gid int) func(*os.File) error {
	return func(f *os.File) error { return f.Chown(uid, gid) }
}

// Prepared is a new content beside the file that it will replace.
type Prepared struct {
	next, path string
	durable    Durability
}

// Prepare is the part of Write that may fail for want of space. Place or Drop ends it.
func Prepare(path string, data []byte, mode fs.FileMode, d Durability, also ...func(*os.File) error) (Prepared, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp")
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{f.Name(), path, d}
	_, err = f.Write(data)
	if err == nil && mode != 0o600 { // which it has; not every file system of a stick can change modes
		err = f.Chmod(mode)
	}
	for _, do := range also {
		if err == nil {
			err = do(f)
		}
	}
	if err == nil && d == Durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		p.Drop()
	}
	return p, err
}

// Place gives new contents of one directory their names. Those after one that fails are dropped.
func Place(all ...Prepared) error {
	for i, p := range all {
		if err := os.Rename(p.next, p.path); err != nil {
			for _, p := range all[i:] {
				p.Drop()
			}
			return err
		}
	}
	if last := all[len(all)-1]; last.durable {
		return Sync(filepath.Dir(last.path))
	}
	return nil
}

// Drop removes a content that is not in its place.
func (p Prepared) Drop() { _ = os.Remove(p.next) }

// Sync waits until a file, or the names in a directory, are on the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Leftovers are what stopped writers left of the files in dir whose names match a pattern of filepath.Match.
func Leftovers(dir, pattern string) ([]string, error) {
	return filepath.Glob(filepath.Join(dir, "."+pattern+"-*.tmp"))
}
