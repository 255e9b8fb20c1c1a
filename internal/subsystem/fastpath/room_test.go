// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASmallMachineIsNotAskedForMemoryItLacks(t *testing.T) {
	before := memoryFile
	t.Cleanup(func() { memoryFile = before })
	memoryFile = filepath.Join(t.TempDir(), "meminfo")
	plain, firewall := shape{}, shape{}
	firewall.firewall.on = true
	for _, test := range []struct {
		available int // MiB
		shape     shape
		loads     bool
	}{
		{48, plain, false}, {64, plain, true}, {64, firewall, false}, {128, firewall, true},
	} {
		text := fmt.Sprintf("MemTotal:  131072 kB\nMemFree:  1024 kB\nMemAvailable:  %d kB\n", test.available<<10)
		if err := os.WriteFile(memoryFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := test.shape.room()
		if (err == nil) != test.loads || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%d MB are available", test.available)) {
			t.Errorf("%d MiB available, firewall %v: %v", test.available, test.shape.firewall.on, err)
		}
	}
	memoryFile = filepath.Join(t.TempDir(), "none")
	if err := plain.room(); err != nil {
		t.Errorf("where nobody tells how much is available: %v", err)
	}
}
