// SPDX-License-Identifier: Apache-2.0

package medium

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A router that runs from memory may lose its medium: somebody pulls the stick. When one
// comes back it must be the same, and as it was: not another router's, nor one that another
// machine has started from and written to meanwhile. So what is on it is noted after each write.

// markFile has the mark of the medium as it was left.
const markFile = "/run/minne-medium.mark"

// ErrGone is wrapped by errors of reading a medium that was pulled out.
var ErrGone = errors.New("cannot read the boot medium: it is removed or damaged")

// Note notes what is on the medium. Where that can't be read whole, or not be noted, no medium will be the same:
// it takes a restart, but what has been written is as good as ever.
func Note() {
	mark, err := markOf(Mount)
	if err != nil {
		mark = ""
	}
	_ = os.WriteFile(markFile, []byte(mark), 0o600) // an older mark fits no medium that was written to since
}

// Alive tells whether the medium is there. That something of it can be read is no proof: the kernel keeps
// much in memory.
func Alive() bool {
	var mount unix.Stat_t
	if unix.Stat(Mount, &mount) != nil {
		return false
	}
	dev := uint64(mount.Dev) // 32 bits on MIPS
	_, err := os.Stat(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev)))
	return err == nil
}

// Noted tells whether there was a medium whose contents were noted.
func Noted() bool {
	_, err := os.Stat(markFile)
	return err == nil
}

// Same tells whether a file system mounted at dir holds what was noted.
func Same(dir string) (bool, error) {
	noted, err := os.ReadFile(markFile)
	if err != nil {
		return false, err
	}
	mark, err := markOf(dir)
	return mark == string(noted), err
}

// markOf is a hash of the names, sizes, modes and times of all files below dir.
func markOf(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %d %v %d\n", name, info.Size(), info.Mode(), info.ModTime().UnixNano())
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}
