// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

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

// Down sweeps what dead processes have left, and has the processes of all labs on
// this host end, which remove their own.
func Down(ctx context.Context) error {
	if err := needRoot(); err != nil {
		return err
	}
	owners := map[int]bool{}
	for _, p := range places() {
		id, _, _ := strings.Cut(p.lab, "-")
		pid, _ := strconv.Atoi(id) // the expression takes digits only
		owners[pid] = true
	}
	errs := []error{Sweep()}
	for pid := range owners {
		if !isMinne(pid) {
			errs = append(errs, fmt.Errorf("a lab belongs to process %d, which is another program than this one: end it yourself", pid))
			continue
		}
		if err := unix.Kill(pid, unix.SIGTERM); err != nil && err != unix.ESRCH {
			errs = append(errs, fmt.Errorf("end the lab of process %d: %w", pid, err))
			continue
		}
		errs = append(errs, Until(ctx, 30*time.Second, fmt.Sprintf("the lab of process %d to end", pid), func() error {
			if !abandoned(strconv.Itoa(pid)) {
				return errors.New("it still runs")
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

// isMinne says whether a process runs the same program as this one.
func isMinne(pid int) bool {
	theirs, err1 := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	own, err2 := os.Stat("/proc/self/exe")
	return err1 == nil && err2 == nil && os.SameFile(theirs, own)
}
