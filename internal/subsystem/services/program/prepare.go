// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
)

// Directory is one outside the program's own.
type Directory struct {
	Path string
	Mode fs.FileMode
	User string // and its group
}

// MakeDirectories makes those that are missing; Debian's packages have made theirs.
func MakeDirectories(list []Directory) error {
	for _, d := range list {
		if _, err := os.Stat(d.Path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := own(d.Path, d.Mode, d.User); err != nil {
			return fmt.Errorf("%s: %w", d.Path, err)
		}
	}
	return nil
}

// own makes a directory of a user's.
func own(dir string, mode fs.FileMode, name string) error {
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("%w (is its package installed?)", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

// prepare makes what the program needs beside its own directory.
func (d Desired) prepare(ctx context.Context) error {
	if d.Needs != nil {
		if err := d.Needs(); err != nil {
			return err
		}
	}
	if err := MakeDirectories(d.Directories); err != nil {
		return err
	}
	if d.Prepare != nil {
		return d.Prepare(ctx)
	}
	return nil
}
