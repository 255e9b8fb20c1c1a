// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxListed bounds a list or rule file, in bytes: a million addresses are 16 MB.
const maxListed = 64 << 20

// ReadListed reads a file that the configuration names. Messages quote its lines
// to whoever may ask for a preview, so only files that everybody may read are
// taken: the secrets beside the configuration never are.
func ReadListed(dir, name string) (path, text string, _ error) {
	path = name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not block
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
	case !info.Mode().IsRegular():
		return path, "", fmt.Errorf("%s is not an ordinary file", path)
	case info.Mode().Perm()&0o004 == 0:
		return path, "", fmt.Errorf("%s may not be read by everybody (chmod 644), as files with rules and addresses must be", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxListed+1))
	if err == nil && len(data) > maxListed {
		err = fmt.Errorf("%s has more than %d MB", path, maxListed>>20)
	}
	return path, string(data), err
}
