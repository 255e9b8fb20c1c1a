// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// This file finds the labs that are up on this host, those of other processes too, and runs commands
// in their nodes.

// Files of a lab's directory.
const (
	nameFile = "name" // what its topology is called
	toolsDir = "bin"  // in a node's directory: commands that reach the daemons of this node
)

// addTool makes a command for Exec that runs a program with arguments in front of the caller's: birdc
// that finds the socket of the node's own BIRD.
func (n *Running) addTool(name, program string, args ...string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	return n.writeTool(name, path, args...)
}

// writeTool does so for a program by its path.
func (n *Running) writeTool(name, path string, args ...string) error {
	line := "exec"
	for _, word := range append([]string{path}, args...) {
		line += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return os.WriteFile(filepath.Join(n.Dir, toolsDir, name), []byte("#!/bin/sh\n"+line+" \"$@\"\n"), 0o755)
}

// place is a node of a lab that is up.
type place struct {
	lab, name, node string // run and name of the lab
	namespace       string
}

func (p place) String() string {
	if p.name != "" {
		return fmt.Sprintf("%s/%s (lab %s)", p.lab, p.node, p.name)
	}
	return p.lab + "/" + p.node
}

// places lists the nodes of all labs that are up, as far as this process can enter them.
func places() []place {
	spaces, _ := os.ReadDir(namespaceDir) // there may be none
	var found []place
	for _, e := range spaces {
		m := runName.FindStringSubmatch(e.Name())
		if m == nil || abandoned(m[2]) || !isNamespace(filepath.Join(namespaceDir, e.Name())) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(baseDir, m[1], nameFile)) // it need not have one
		found = append(found, place{m[1], string(name), strings.TrimPrefix(e.Name(), m[0]), e.Name()})
	}
	return found
}

// isNamespace tells a mounted namespace from the empty file that another mount namespace sees in its place.
func isNamespace(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Type == unix.NSFS_MAGIC
}

// find returns the node that is meant by NODE or LAB/NODE, LAB being a lab's run or name.
func find(which string, all []place) (place, error) {
	lab, node, chosen := strings.Cut(which, "/")
	if !chosen {
		lab, node = "", which
	}
	var fit []place
	for _, p := range all {
		if p.node == node && (!chosen || p.lab == lab || p.name == lab) {
			fit = append(fit, p)
		}
	}
	switch {
	case len(fit) == 1:
		return fit[0], nil
	case len(all) == 0:
		return place{}, errors.New("no lab is up: start one with minne lab up")
	case len(fit) == 0:
		return place{}, fmt.Errorf("no node %q in the labs that are up, which have:\n  %s", which, list(all))
	}
	return place{}, fmt.Errorf("several labs have a node %q: write LAB/NODE, one of\n  %s", node, list(fit))
}

func list(places []place) string {
	var words []string
	for _, p := range places {
		words = append(words, p.String())
	}
	slices.Sort(words)
	return strings.Join(words, "\n  ")
}

// Exec replaces this process by a command in a node of a lab that is up, named NODE or, where several
// labs have one of that name, LAB/NODE. There birdc, vtysh and minne reach the node's own daemons.
func Exec(which string, argv []string) error {
	if err := needRoot(); err != nil {
		return err
	}
	p, err := find(which, places())
	if err != nil {
		return err
	}
	if socket := filepath.Join(baseDir, p.lab, p.node, machineSocket); exists(socket) {
		return execIn(socket, argv)
	}
	tools := filepath.Join(baseDir, p.lab, p.node, toolsDir)
	if err := os.Setenv("PATH", tools+":"+os.Getenv("PATH")); err != nil {
		return err
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return inside(p.namespace, func() error { return unix.Exec(program, argv, os.Environ()) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
