// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
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

// Exec replaces this process by a command in the named node of the lab that is
// up. With several labs up it takes the first.
func Exec(node string, argv []string) error {
	found, err := filepath.Glob(filepath.Join(namespaceDir, "minne-*-*-"+node))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("no lab with a node %q is up: start one with minne lab up", node)
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return inside(filepath.Base(found[0]), func() error { return unix.Exec(program, argv, os.Environ()) })
}

// Down sweeps what dead processes have left, and has the processes of all labs on
// this host end, which remove their own.
func Down(ctx context.Context) error {
	owners := map[int]bool{}
	spaces, _ := os.ReadDir(namespaceDir) // there may be none
	for _, e := range spaces {
		if m := runName.FindStringSubmatch(e.Name()); m != nil && !abandoned(m[2]) {
			pid, _ := strconv.Atoi(m[2]) // the expression takes digits only
			owners[pid] = true
		}
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
