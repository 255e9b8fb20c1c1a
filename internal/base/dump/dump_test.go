// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestAnInterruptedListIsReadAgain(t *testing.T) {
	asked := 0
	list, err := Whole(func() ([]int, error) {
		if asked++; asked < 4 {
			return []int{1}, netlink.ErrDumpInterrupted
		}
		return []int{1, 2}, nil
	})
	if err != nil || len(list) != 2 || asked != 4 {
		t.Errorf("list %v after %d questions, %v", list, asked, err)
	}
	if _, err := Whole(func() ([]int, error) { return nil, netlink.ErrDumpInterrupted }); !errors.Is(err, netlink.ErrDumpInterrupted) {
		t.Errorf("a list that never comes whole: %v", err)
	}
	asked = 0
	if _, err := Whole(func() ([]int, error) { asked++; return nil, errors.ErrUnsupported }); err == nil || asked != 1 {
		t.Errorf("another error: %v after %d questions", err, asked)
	}
}
