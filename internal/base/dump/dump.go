// SPDX-License-Identifier: Apache-2.0

// Package dump asks the kernel for whole lists. What changes while a list is being read makes the
// kernel mark it as interrupted (NLM_F_DUMP_INTR): entries may be missing or there twice. Such a list
// is read again; a router that judges by half a list takes away what it only did not see.
package dump

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink"
)

// tries is how often a list is read at most, with pauses that grow from a millisecond: on a kernel
// that never rests for so long, the error is the caller's.
const tries = 8

// Whole returns what ask lists, read again while the kernel says that it changed meanwhile.
func Whole[T any](ask func() ([]T, error)) (list []T, err error) {
	for try := range tries {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return list, err
		}
		time.Sleep(time.Millisecond << try)
	}
	return list, err
}
