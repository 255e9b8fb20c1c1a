// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/kernel"
	"minne/internal/lab/device"
)

// program builds the minne command.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "minne")
	cmd := exec.Command("go", "build", "-o", path, "minne/cmd/minne")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// Every router of the rig forwards every random packet, and its rules see them: a figure
// of a firewall that nothing reaches would be worth nothing.
func TestFirewallsOfRandomPackets(t *testing.T) {
	p, err := NewPolicies(t.Context(), device.Means{Binary: program(t), Load: kernel.BulkRoutes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	const n = 1 << 12
	for _, path := range []*Path{p.Open, p.Few, p.Many, p.Blocked, p.Linear} {
		if trial, err := path.TryWhole(t.Context(), p.Random, n); err != nil || trial.Lost != 0 || trial.Arrived.Received != n {
			t.Errorf("router %s: %+v, %v", path.device.Node().Name, trial, err)
		}
	}
	if met, err := p.Met(t.Context(), p.Few); err != nil || met < 0.2 || met > 0.8 {
		t.Errorf("%.2f of the packets met one of few rules, %v; expected about half", met, err)
	}
	if met, err := p.Met(t.Context(), p.Many); err != nil || met < 0.8 {
		t.Errorf("%.2f of the packets met one of many rules, %v; expected nearly all", met, err)
	}
	out, err := p.Device(linearPlace).Node().Run(t.Context(), "nft", "list", "ruleset")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out, "accept comment"); n != FewRules+1 || !strings.Contains(out, "#601 default permit") || strings.Contains(out, "ct state") {
		t.Errorf("%d rules in the kernel:\n%.2000s", n, out)
	}
	if counting := strings.Count(out, " packets ") - strings.Count(out, " packets 0 "); counting < 10 {
		t.Errorf("%d rules of the kernel have counted packets", counting)
	}
}
