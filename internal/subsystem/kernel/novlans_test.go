// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A kernel without VLANs says "operation not supported", which helps nobody.
func TestNoVLANs(t *testing.T) {
	if err := noVLANs(unix.EOPNOTSUPP); !errors.Is(err, unix.EOPNOTSUPP) || !strings.Contains(err.Error(), "modprobe 8021q") {
		t.Errorf("%v", err)
	}
	if err := noVLANs(unix.EEXIST); err != unix.EEXIST {
		t.Errorf("%v", err)
	}
	if err := noVLANs(nil); err != nil {
		t.Errorf("%v", err)
	}
}
