// SPDX-License-Identifier: Apache-2.0

//go:build image

package campus_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/campus"
	"minne/internal/testing/testbuild"
)

// emulated is how much of the table an emulated router gets.
const emulated = 2000

// TestCampusOnTheImage is the campus whose border router is the disk image build/minne.img, with its own kernel, drivers and FRR, on
// a PC that QEMU emulates: ports of virtio with a queue for each CPU, native XDP on them.
func TestCampusOnTheImage(t *testing.T) {
	image, err := filepath.Abs("../../build/minne.img")
	if err != nil {
		t.Fatal(err)
	}
	report := campus.NewReport(t.Output())
	c, err := campus.Build(t.Context(), campus.Options{Binary: testbuild.Minne(t, t.TempDir()), Table: part(t, emulated), Image: image}, report)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{c, report, 20 * time.Second}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the router's log:\n%s", c.Border.Log(40))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	s.run(t, "one file makes the router", func(t *testing.T) {
		s.step(t, c.Apply)
		s.step(t, c.AwaitSessions)
		s.step(t, c.AwaitTable)
		s.step(t, c.AwaitFastPath)
	})
	s.run(t, "every port has several queues", s.queues)
	s.run(t, "hosts reach each other", func(t *testing.T) { s.step(t, c.Reach) })
	s.run(t, "an unconfirmed commit reverts", s.unconfirmed)
	s.run(t, "an ISP fails", func(t *testing.T) { s.step(t, c.FailISP) })
	s.run(t, "the daemon is killed and starts again", func(t *testing.T) { s.step(t, c.RestartDaemon) })
	t.Logf("\n%s", s.inside(t, "uname -r; free -m; minne show fast-path; minne show bgp summary; minne show drops"))
}

// inside runs a command in the border router.
func (s *scenario) inside(t *testing.T, command string) string {
	t.Helper()
	out, err := s.Lab.Node("border").Run(t.Context(), "sh", "-c", command)
	if err != nil {
		t.Error(err)
	}
	return out
}

func (s *scenario) queues(t *testing.T) {
	for _, port := range []string{"isp-a", "isp-b", "core"} {
		_, now, _ := strings.Cut(s.inside(t, "ethtool -l "+port), "Current hardware settings")
		combined := 0
		for line := range strings.Lines(now) {
			fmt.Sscanf(strings.TrimSpace(line), "Combined: %d", &combined)
		}
		if combined < 2 {
			t.Errorf("%s has %d queues in use:\n%s", port, combined, now)
		}
	}
}
