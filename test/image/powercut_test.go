// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/model/revisions"
	"minne/internal/testing/testimage"
)

// cuts is how often the power fails while the router commits one revision after the other.
const cuts = 100

// TestPowerCuts stops the machine at random moments while it commits, and looks at
// what the medium has then, as a machine that starts with it would: the file system
// can be repaired, and the last revision that the router said to have is whole.
//
// Only what the machine has handed to its disk is there: the copies are taken with the
// emulator stopped, between two writes of the disk.
func TestPowerCuts(t *testing.T) {
	disk := configured(t)
	m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	up(m)
	m.Write("/tmp/a.yaml", plain)
	m.Write("/tmp/b.yaml", strings.Replace(plain, "edge", "other", 1))
	m.Type("i=1; while :; do minne apply /tmp/b.yaml >/dev/null && minne apply /tmp/a.yaml >/dev/null && i=$((i+2)) && echo \"revision=$i.\"; done\n")
	m.Expect(`revision=3\.`)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	lowest, highest := 1<<30, 0
	for i := range cuts {
		time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
		m.Monitor("stop")
		promised := promised(m.Said())
		number, err := survivor(t, disk, promised)
		if err != nil {
			t.Errorf("cut %d: %v", i, err)
		}
		lowest, highest = min(lowest, number), max(highest, number)
		m.Monitor("cont")
	}
	t.Logf("%d cuts between revisions %d and %d", cuts, lowest, highest)
	if lowest == highest {
		t.Error("the router did not commit anything while its power was cut")
	}
}

// promised is the number of the last revision that the console was told of.
func promised(said string) int {
	number := 0
	if at := strings.LastIndex(said, "\nrevision="); at >= 0 {
		_, _ = fmt.Sscanf(said[at:], "\nrevision=%d.", &number)
	}
	return number
}

// survivor returns the newest confirmed revision on a medium whose machine lost its power.
func survivor(t *testing.T, disk string, promised int) (int, error) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "cut-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	p := partitions(t, disk)["minne-config"]
	copied := filepath.Join(dir, "config.img")
	out, err := exec.Command("dd", "if="+disk, "of="+copied, "bs=1M", "iflag=skip_bytes,count_bytes", "conv=sparse",
		fmt.Sprintf("skip=%d", p.start), fmt.Sprintf("count=%d", p.size)).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("dd: %v: %s", err, out)
	}
	// Replays the journal, as the kernel does when it mounts; 1 is "repaired".
	out, err = exec.Command("e2fsck", "-p", copied).CombinedOutput()
	var code *exec.ExitError
	if err != nil && (!errors.As(err, &code) || code.ExitCode() > 1) {
		return 0, fmt.Errorf("e2fsck: %v: %s", err, out)
	}
	if out, err := exec.Command("debugfs", "-R", "rdump /var/lib/minne/revisions "+dir, copied).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("debugfs: %v: %s", err, out)
	}
	store, err := revisions.Open(filepath.Join(dir, "revisions"), slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	last, ok := store.Confirmed(0)
	if !ok {
		return 0, errors.New("no confirmed revision")
	}
	if last.Number < promised {
		return last.Number, fmt.Errorf("the last confirmed revision is %d, the router had confirmed %d", last.Number, promised)
	}
	if _, ok := store.Get(last.Number); !ok || !strings.HasPrefix(last.Config, "version: 1\n") {
		return last.Number, fmt.Errorf("revision %d is not whole", last.Number)
	}
	return last.Number, nil
}
