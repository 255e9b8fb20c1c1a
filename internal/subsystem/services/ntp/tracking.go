// SPDX-License-Identifier: Apache-2.0

package ntp

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// settling is how long chronyd may take to find the time after its start.
const settling = 2 * time.Minute

// Trouble says why the time is not synchronised, "" when it is or when none is asked for.
func (s *Daemon) Trouble(ctx context.Context) string {
	state := s.State("")
	if !state.Running || time.Since(state.Since) < settling {
		return ""
	}
	return s.ask(ctx)
}

// ask asks the chronyd that runs.
func (s *Daemon) ask(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "chronyc", "-h", filepath.Join(s.Of("").Dir(), "var", socket), "-n", "-c", "tracking").CombinedOutput()
	if err != nil {
		return "chronyd does not answer: " + strings.TrimSpace(string(out)+" "+err.Error())
	}
	return unsynchronised(string(out))
}

// unsynchronised reads the report of chronyc -c tracking: fields with commas between, of which the last
// is the state of leap seconds, which says so when there is no time.
func unsynchronised(report string) string {
	f := strings.Split(strings.TrimSpace(report), ",")
	if leap := f[len(f)-1]; len(f) < 10 || leap == "Not synchronised" {
		return "the time is not synchronised: no time server has answered (chronyc sources, minne show services)"
	}
	return ""
}
