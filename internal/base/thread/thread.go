// SPDX-License-Identifier: Apache-2.0

// Package thread runs work on a thread of its own: what changes the thread, its namespace for one, ends with it.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Alone runs a function on a thread that nobody else uses, waits for it, and lets the thread end.
//
// It is never the process's first thread. Go can't end that one: it would stay as the function left it, and
// /proc/self, which is the first thread's, would show a namespace that the process is not in.
func Alone(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if unix.Gettid() == unix.Getpid() {
			Alone(do) // on another one, as this one is taken
			runtime.UnlockOSThread()
			return
		}
		do()
	}()
	<-done
}
