// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"os/exec"
	"strings"
	"testing"
)

// The guard is what it says, and no hand but its owner's takes it away.
func TestGuard(t *testing.T) {
	const table = "lab_guard"
	g := Guard{Table: table, Comment: "a guard", Mark: 1 << 31}
	list := func() string {
		text, err := Table(t.Context(), table, "-s")
		must(t, err)
		return text
	}
	must(t, g.Write())
	must(t, g.Write())
	for _, want := range []string{
		`comment "a guard"`,
		"type filter hook forward priority filter + 10; policy drop;",
		"meta mark set meta mark & 0x7fffffff accept",
	} {
		if !strings.Contains(list(), want) {
			t.Errorf("no %q in\n%s", want, list())
		}
	}
	for _, script := range []string{"delete table inet " + table, "flush chain inet " + table + " forward", "insert rule inet " + table + " forward accept"} {
		if out, err := exec.Command("nft", script).CombinedOutput(); err == nil {
			t.Errorf("%s: done\n%s", script, out)
		}
	}
	if out, err := exec.Command("nft", "flush ruleset").CombinedOutput(); err != nil || list() == "" {
		t.Errorf("flush ruleset: %v %s, leaves %q", err, out, list())
	}
	g.Shut = true
	must(t, g.Write())
	if text := list(); strings.Contains(text, "accept") {
		t.Errorf("shut, it is\n%s", text)
	}
	must(t, RemoveGuard(table))
	must(t, RemoveGuard(table))
	if text := list(); text != "" {
		t.Errorf("left:\n%s", text)
	}
}
