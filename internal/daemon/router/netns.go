// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/instance"
)

// Netns finds the network namespace of an instance, which the daemon writes into its
// lock: here says that this process is in it, path is where else it is to be had. It also
// works when the daemon is dead, as long as the namespace has a name or a process. An
// instance that never had a daemon is here.
func Netns(inst instance.Instance) (path string, here bool) {
	content, err := os.ReadFile(lockFile(inst))
	if err != nil {
		return "", true
	}
	pid, its, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	if ours, err := os.Readlink("/proc/self/ns/net"); err != nil || its == "" || its == ours {
		return "", true
	}
	places := []string{"/proc/" + pid + "/ns/net"}
	named, _ := filepath.Glob("/run/netns/*") // the patterns are right
	processes, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, place := range append(append(places, named...), processes...) {
		if sameNamespace(place, its) {
			return place, false
		}
	}
	return "", false
}

// sameNamespace says whether what is at path is the network namespace that links in
// /proc call "net:[4026531833]": the number is that of its inode.
func sameNamespace(path, name string) bool {
	var s unix.Stat_t
	return unix.Stat(path, &s) == nil && name == fmt.Sprintf("net:[%d]", s.Ino)
}
