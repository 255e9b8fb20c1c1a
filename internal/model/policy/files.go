// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxListed bounds a list or rule file, in bytes: a million addresses are 16 MB.
const maxListed = 64 << 20

// Reach says which files a configuration may name.
type Reach int

const (
	// Everywhere is for a configuration that root applies.
	Everywhere Reach = iota
	// Beside is for one that somebody else asks to see a preview of: files in the directory of the
	// configuration and below it. Else root's daemon would open for him what he may not.
	Beside
)

// ReadListed reads a file that the configuration names. Messages quote its lines
// to whoever may ask for a preview, so only files that everybody may read are
// taken: the secrets beside the configuration never are. Without a reach, files may be everywhere.
func ReadListed(dir, name string, reach ...Reach) (path, text string, _ error) {
	path = name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	beside := len(reach) > 0 && reach[0] == Beside
	file, err := openListed(dir, path, beside)
	if errors.Is(err, fs.ErrNotExist) {
		return path, "", fmt.Errorf("there is no file %s", path)
	}
	if err != nil {
		return path, "", err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return path, "", err
	case info.Mode().Perm()&0o004 == 0:
		return path, "", fmt.Errorf("%s may not be read by everybody (chmod 644), as files with rules and addresses must be", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxListed+1))
	if err == nil && len(data) > maxListed {
		err = fmt.Errorf("%s has more than %d MB", path, maxListed>>20)
	}
	return path, string(data), err
}

// openListed opens an ordinary file. What it is, is found out before it is opened in earnest: opening alone arms a
// watchdog, rewinds a tape, or wakes what reads a pipe.
func openListed(dir, path string, beside bool) (*os.File, error) {
	fd, err := locate(dir, path, beside)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s is not an ordinary file", path)
	}
	file, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return file, nil
}

// locate finds a file without opening it (O_PATH).
func locate(dir, path string, beside bool) (int, error) {
	if !beside {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
	outside := fmt.Errorf("%s is not below %s: only root may ask about files elsewhere (sudo)", path, dir)
	name, err := filepath.Rel(dir, path)
	if err != nil || name == "." || name == ".." || strings.HasPrefix(name, "../") {
		return -1, outside
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	for rest := name; ; {
		step, after, more := strings.Cut(rest, "/")
		fd, err := unix.Openat(at, step, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(at)
		var st unix.Stat_t
		if err == nil {
			err = unix.Fstat(fd, &st)
		}
		switch {
		case err != nil:
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			err = outside
		case !more:
			return fd, nil
		case st.Mode&0o001 == 0:
			err = fmt.Errorf("%s is below a directory that not everybody may enter (chmod o+x): only root may ask about it (sudo)", path)
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		at, rest = fd, after
	}
}
