// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

// The process id is the first number of a run's name.
var runName = regexp.MustCompile(`^minne-((\d+)-\d+)-`)

// Sweep removes what labs have left behind whose process no longer runs:
// namespaces with all that runs in them, directories, pinned programs.
func Sweep() error {
	runs := map[string]bool{}
	spaces, err := os.ReadDir(namespaceDir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var errs []error
	for _, e := range spaces {
		if m := runName.FindStringSubmatch(e.Name()); m != nil && abandoned(m[2]) {
			runs[m[1]] = true
			errs = append(errs, removeNamespace(e.Name()))
		}
	}
	dirs, _ := os.ReadDir(baseDir) // it need not exist
	for _, e := range dirs {
		if m := runName.FindStringSubmatch("minne-" + e.Name() + "-"); m != nil && abandoned(m[2]) {
			runs[m[1]] = true
		}
	}
	for run := range runs {
		errs = append(errs, removeInstances(run), os.RemoveAll(filepath.Join(baseDir, run)))
	}
	return errors.Join(errs...)
}

// abandoned says whether no process has that id.
func abandoned(id string) bool {
	pid, err := strconv.Atoi(id)
	return err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
