// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"minne/internal/appliance/remotehands"
)

// consoles are where a person may hold the key at boot.
var consoles = []string{"/dev/tty1", "/dev/ttyS0"}

// watchForHands watches the consoles from now on. The function that it returns ends that,
// once: if the key was held, the archive is written to the stick in the background, after
// the daemon has started.
func watchForHands(console io.Writer) (end func()) {
	watcher := remotehands.Watch(consoles...)
	return sync.OnceFunc(func() {
		if !watcher.Held() {
			return
		}
		c := exec.Command("/proc/self/exe", "tech-support", "--to-stick", "--wait", "60s")
		c.Dir, c.Env, c.Stdout, c.Stderr = "/", os.Environ(), console, console
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives this boot step
		if err := c.Start(); err != nil {
			fmt.Fprintln(console, "minne: tech-support:", err)
		}
	})
}
