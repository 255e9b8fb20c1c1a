// SPDX-License-Identifier: Apache-2.0

package thread

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNeverTheFirstThread(t *testing.T) {
	var first, ran int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				Alone(func() {
					mu.Lock()
					defer mu.Unlock()
					if ran++; unix.Gettid() == unix.Getpid() {
						first++
					}
				})
			}
		})
	}
	all.Wait()
	if ran != 8*500 || first != 0 {
		t.Errorf("ran %d times, expected %d; %d times on the first thread", ran, 8*500, first)
	}
}
