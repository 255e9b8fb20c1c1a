// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// maxAncestors bounds the processes that are asked for a login.
const maxAncestors = 32

// loginSession is the SSH_CONNECTION of this process, or of the nearest one above it
// that has one: sudo and su take it away.
func loginSession() string {
	const name = "SSH_CONNECTION="
	if s := os.Getenv(strings.TrimSuffix(name, "=")); s != "" {
		return s
	}
	pid := os.Getppid()
	for range maxAncestors {
		if pid <= 1 {
			return ""
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			return "" // of another user, or gone
		}
		for one := range bytes.SplitSeq(environ, []byte{0}) {
			if s, ok := strings.CutPrefix(string(one), name); ok && s != "" {
				return s
			}
		}
		pid = parentOf(pid)
	}
	return ""
}

// parentOf reads the parent of a process, 0 when it is gone.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name before may hold blanks and brackets: proc_pid_stat(5).
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(f[1])
	return parent
}
