// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Who logged in by SSH is told that a firewall ends the login, before it does, and
// also from under sudo, which takes SSH_CONNECTION away.
func TestOwnLogin(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.config("open.yaml", "192.0.2.1/24", ""))
	shut := b.file("shut.yaml", "version: 1\ninterfaces:\n  lan: {zone: lan, addresses: [192.0.2.1/24]}\n")
	open := b.file("ssh.yaml", "version: 1\ninterfaces:\n  lan: {zone: lan, addresses: [192.0.2.1/24]}\n"+
		"firewall: {policies: [{from: lan, to: self, rules: [permit tcp any self ssh]}]}\n")
	minne := func(session string, args ...string) string {
		t.Helper()
		// A shell of the login, and below it a program without the variable.
		c := b.command(args...)
		login := exec.Command("sh", append([]string{"-c", `env -u SSH_CONNECTION "$0" "$@"; exit $?`, c.Path}, args...)...)
		login.Env = append(c.Env, "SSH_CONNECTION="+session)
		out, err := login.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	const login, warning = "192.0.2.7 50000 192.0.2.1 22", "this ends your own login by SSH: no rule from zone lan to self permits TCP from 192.0.2.7 to port 22"
	const advice = "with --confirm 5m"
	for _, c := range []struct {
		session      string
		args         []string
		wants, never string
	}{
		{login, []string{"apply", "--dry-run", shut}, warning, ""},
		{login, []string{"apply", "--dry-run", shut}, advice, ""},
		{login, []string{"apply", "--dry-run", "--confirm", "1m", shut}, warning, advice},
		{login, []string{"apply", "--dry-run", open}, "nothing was applied", "login"},
		{"198.51.100.7 50000 198.51.100.1 22", []string{"apply", "--dry-run", shut}, "nothing was applied", "login"},
		{login, []string{"apply", "--dry-run", "--json", shut}, `"session": "no rule from zone lan`, ""},
		{login, []string{"apply", open}, "applied: revision 2", "login"},
		{login, []string{"apply", shut}, warning, ""},
	} {
		out := minne(c.session, c.args...)
		if !strings.Contains(out, c.wants) || c.never != "" && strings.Contains(out, c.never) {
			t.Errorf("%v: want %q and not %q in:\n%s", c.args, c.wants, c.never, out)
		}
	}
}
