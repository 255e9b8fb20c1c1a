// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
	"minne/internal/testing/hands"
)

// Whatever others do to the rules is seen, told in words, and undone, with the live elements;
// meanwhile nothing passes that the rules don't permit, where they are gone.
func TestRecheck(t *testing.T) {
	f, d := fresh(t), school(t)
	must(t, f.Apply(t.Context(), d))
	_, err := f.ChangeSet(SetChange{Set: "web", Add: []string{"10.3.0.11"}, Timeout: time.Hour})
	must(t, err)
	image := func() nft.Image {
		t.Helper()
		i, err := nft.ReadImage(tableName)
		must(t, err)
		return i
	}
	whole := image().Digest()
	must(t, exec.Command("nft", "flush ruleset").Run())
	if words, err := f.Recheck(t.Context()); err != nil || words != nil {
		t.Errorf("of what is in place: %q, %v", words, err)
	}
	for script, want := range map[string]string{
		"delete table inet minne_policy":                                                    "the table is gone",
		"insert rule inet minne_policy forward accept":                                      "rules of chain forward changed",
		"add rule inet minne_policy from_wan accept":                                        "rules of chain from_wan changed",
		"flush chain inet minne_policy forward":                                             "rules of chain forward gone",
		"chain inet minne_policy forward { policy accept; }":                                "chain forward changed",
		"add chain inet minne_policy x { type filter hook forward priority -5; }":           "chain x new",
		"add element inet minne_policy web_v4 { 192.0.2.77 }":                               "elements of set web_v4 changed",
		"delete element inet minne_policy web_v4 { 10.3.0.11 }":                             "elements of set web_v4 changed",
		"flush set inet minne_policy blocked_v4":                                            "elements of set blocked_v4 changed",
		"flush set inet minne_policy doors_ports":                                           "elements of set doors_ports changed",
		"delete table inet minne_policy; add table inet minne_policy { comment \"mine\"; }": "another table is loaded",
	} {
		if out, err := exec.Command("nft", script).CombinedOutput(); err == nil || !strings.Contains(string(out), "not permitted") {
			t.Errorf("%s: not only the owner can do it: %v\n%s", script, err, out)
		}
		if image().Digest() != whole {
			t.Fatalf("%s: the table changed", script)
		}
		hand(t, f, d.Policy, script)
		changes, err := f.Plan(t.Context(), d)
		if err != nil || len(changes) != 1 {
			t.Errorf("%s: the preview says %v, %v", script, changes, err)
		}
		if strings.Contains(want, "gone") && !strings.Contains(listGuard(t), "policy drop") {
			t.Errorf("%s: nothing keeps packets back", script)
		}
		words, err := f.Recheck(t.Context())
		if err != nil || strings.Join(words, ", ") != want {
			t.Errorf("%s: %q, %v; want %q", script, words, err, want)
		}
		if image().Digest() != whole || isShut(listGuard(t)) {
			t.Errorf("%s: is not undone", script)
		}
		text, err := nft.Run(t.Context(), "", "list", "set", "inet", tableName, "web_v4")
		if err != nil || !strings.Contains(text, "10.3.0.11 timeout") || strings.Contains(text, "192.0.2.77") {
			t.Errorf("%s: live elements are not as before: %v %s", script, err, text)
		}
		if changes, err := f.Plan(t.Context(), d); err != nil || len(changes) > 0 {
			t.Errorf("%s: after the repair, the preview says %v, %v", script, changes, err)
		}
	}
}

// hand changes the table of a policy as one that has its owner's socket.
func hand(t *testing.T, f *Firewall, p *policy.Policy, script string) {
	t.Helper()
	text, _ := named(Text(p))
	must(t, hands.Nft(t.Context(), tableName, text+f.live.script(p), script))
}

// A new daemon knows the table that an earlier one has loaded, and a change to it in between.
func TestRecheckByAnother(t *testing.T) {
	f, d := fresh(t), school(t)
	must(t, f.Apply(t.Context(), d))
	again := newFirewall(t, filepath.Dir(f.live.path))
	must(t, again.Restore(t.Context(), d))
	if again.Writes() != 0 || !again.InForce(d.Policy) || isShut(listGuard(t)) {
		t.Errorf("the table was loaded again (%d writes), or is not in force", again.Writes())
	}
	hand(t, f, d.Policy, "insert rule inet minne_policy forward accept")
	again = newFirewall(t, filepath.Dir(f.live.path))
	must(t, again.Restore(t.Context(), d))
	if again.Writes() != 1 {
		t.Errorf("a rule that somebody has put in stays")
	}
	// Rules that stand without an owner, as an earlier version has loaded them, get one.
	must(t, nft.Remove(tableName))
	script, _ := named(Text(d.Policy))
	_, err := nft.Run(t.Context(), script, "-f", "-")
	must(t, err)
	image, err := nft.ReadImage(tableName)
	must(t, err)
	must(t, again.writeGuard(image.Digest(), d.Policy))
	again = newFirewall(t, filepath.Dir(f.live.path))
	must(t, again.Restore(t.Context(), d))
	if image, err = nft.ReadImage(tableName); err != nil || !image.Owned() {
		t.Errorf("anybody may change the rules: %v", err)
	}
}

// Where the rules can't be loaded, nothing is forwarded, and they are once they can be.
func TestRestoreWithoutNft(t *testing.T) {
	for name, program := range map[string]string{"missing": "", "fails": "#!/bin/sh\nexit 1\n", "killed": "#!/bin/sh\nkill -9 $$\n"} {
		t.Run(name, func(t *testing.T) {
			f, d := fresh(t), school(t)
			whole := os.Getenv("PATH")
			dir := t.TempDir()
			if program != "" {
				must(t, os.WriteFile(filepath.Join(dir, "nft"), []byte(program), 0o755))
			}
			t.Setenv("PATH", dir+":/nowhere")
			if err := f.Restore(t.Context(), d); err == nil {
				t.Error("no error")
			}
			must(t, f.Stands(d))
			t.Setenv("PATH", whole)
			if text := listGuard(t); !isShut(text) || f.InForce(d.Policy) {
				t.Errorf("the way is open:\n%s", text)
			}
			must(t, f.Restore(t.Context(), d))
			if isShut(listGuard(t)) || !f.InForce(d.Policy) {
				t.Error("the way stays shut")
			}
			must(t, f.Stands(d))
			// Another policy that can't be loaded: neither it nor the one before is right.
			other := school(t)
			less := *other.Policy
			less.MSSClamp = !less.MSSClamp
			other.Policy = &less
			t.Setenv("PATH", dir+":/nowhere")
			if err := f.Apply(t.Context(), other); err == nil {
				t.Error("no error")
			}
			t.Setenv("PATH", whole)
			if isShut(listGuard(t)) || !f.InForce(d.Policy) {
				t.Error("an apply that failed has changed something")
			}
			must(t, f.Stands(other))
			if !isShut(listGuard(t)) {
				t.Error("the former rules let pass what the configuration may deny")
			}
			must(t, f.Restore(t.Context(), d))
		})
	}
}

// A helper that the kernel lacks is left out where there is no way back, and refused else.
func TestRestoreWithoutHelper(t *testing.T) {
	f, d := fresh(t), school(t)
	writes := f.Writes()
	more := *d.Policy
	more.Helpers = append([]policy.Helper{{Name: "ftq", Protocol: 6, Port: 21}}, d.Policy.Helpers...)
	d.Policy = &more
	const words = "this kernel has no ftq"
	if err := f.Apply(t.Context(), d); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("apply: %v", err)
	}
	for range 2 {
		if err := f.Restore(t.Context(), d); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("restore: %v", err)
		}
	}
	if !f.InForce(d.Policy) || f.Writes() != writes+1 || isShut(listGuard(t)) {
		t.Errorf("the rest of the policy is not in force, or was loaded %d times", f.Writes()-writes)
	}
	must(t, f.Stands(d))
	if words, err := f.Recheck(t.Context()); err != nil || words != nil {
		t.Errorf("recheck: %q %v", words, err)
	}
}
