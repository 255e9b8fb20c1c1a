// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"minne/internal/lab/rulegen"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/mapped"
	"minne/internal/testing/policygen"
)

const none = 7 // verdict of no rule

// dissent returns the first key on which the program or the Go lookup does not agree with the
// plain way; nil when there is none.
func (b *bed) dissent(t *testing.T, rules []classify.Rule, keys []classify.Key, s classify.Structure) (*classify.Key, string) {
	t.Helper()
	tables, err := classify.Compile(rules, classify.Options{None: none, Structure: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.policy.Swap(tables); err != nil {
		t.Fatal(err)
	}
	copy(b.keys, keys)
	if err := b.run.Check(b.objs, "check", len(keys)); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		want := classify.Match(rules, &keys[i], none)
		if got := tables.Lookup(&keys[i]); got != want {
			return &keys[i], fmt.Sprintf("Lookup says %d, want %d", got, want)
		}
		if b.answers[i] != want {
			return &keys[i], fmt.Sprintf("eBPF says %d, want %d", b.answers[i], want)
		}
	}
	return nil, ""
}

// shrink leaves out rules as long as the key is still judged wrongly.
func (b *bed) shrink(t *testing.T, rules []classify.Rule, k classify.Key, s classify.Structure) []classify.Rule {
	t.Helper()
	for step := max(1, len(rules)/2); step > 0; step /= 2 {
		for at := 0; at+step <= len(rules); {
			fewer := append(append([]classify.Rule{}, rules[:at]...), rules[at+step:]...)
			if wrong, _ := b.dissent(t, fewer, []classify.Key{k}, s); wrong != nil {
				rules = fewer
				continue
			}
			at += step
		}
	}
	return rules
}

func (b *bed) mustAgree(t *testing.T, rules []classify.Rule, keys []classify.Key, s classify.Structure) {
	t.Helper()
	k, what := b.dissent(t, rules, keys, s)
	if k == nil {
		return
	}
	rules = b.shrink(t, rules, *k, s)
	var text strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&text, "\n\t%+v", r)
	}
	t.Fatalf("%s for %+v; %d rules are enough:%s", what, *k, len(rules), text.String())
}

// TestRandomPoliciesAgree is 600 policies that overlap in every way, 1,000 packets at the edges of
// each: eBPF program, Go lookup and plain way must agree on every one.
func TestRandomPoliciesAgree(t *testing.T) {
	b := newTestBed(t)
	hit, ipv6 := 0, 0
	for seed := range uint64(600) {
		rules := policygen.Rules(1+int(seed)%60, seed)
		keys := append(rulegen.Keys(rules, 500, false, rulegen.Edges, seed), rulegen.Keys(rules, 500, true, rulegen.Edges, seed)...)
		b.mustAgree(t, rules, keys, classify.Structure(seed%2))
		for i := range keys {
			if b.answers[i] != none {
				hit++
				if keys[i].IPv6 {
					ipv6++
				}
			}
		}
	}
	if hit < 200_000 || hit > 580_000 || ipv6 < 50_000 {
		t.Errorf("%d of 600,000 packets met a rule, %d of them IPv6: the packets miss the point", hit, ipv6)
	}
}

// TestShapedPoliciesAgree is policies like real ones.
func TestShapedPoliciesAgree(t *testing.T) {
	b := newTestBed(t)
	for _, shape := range rulegen.Shapes {
		for _, n := range []int{1, 100, 600, 1000, 10_000} {
			for _, ipv6 := range []bool{false, true} {
				rules := rulegen.Rules(shape, n, ipv6, 11)
				var keys []classify.Key
				for _, aim := range []rulegen.Aim{rulegen.Hits, rulegen.Edges, rulegen.Stray} {
					keys = append(keys, rulegen.Keys(rules, 1000, ipv6, aim, 5)...)
				}
				b.mustAgree(t, rules, keys, classify.Split)
			}
		}
	}
}

// TestSwapNeverMixes judges packets while two policies take turns. In one of them all verdicts are
// odd, in the other even, and which rule is first differs: a verdict of neither would be a mix.
func TestSwapNeverMixes(t *testing.T) {
	b := newTestBed(t)
	var tables [2]*classify.Tables
	policies := [2][]classify.Rule{rulegen.Rules(rulegen.ACL, 600, false, 1), rulegen.Rules(rulegen.Firewall, 600, false, 2)}
	keys := append(rulegen.Keys(policies[0], 4000, false, rulegen.Hits, 1), rulegen.Keys(policies[1], 4000, false, rulegen.Hits, 2)...)
	var want [2][]uint32
	for i, rules := range policies {
		for j := range rules {
			rules[j].Verdict = uint32(2*j + i)
		}
		var err error
		if tables[i], err = classify.Compile(rules, classify.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			want[i] = append(want[i], classify.Match(rules, &k, 0))
		}
	}
	if err := b.policy.Swap(tables[0]); err != nil {
		t.Fatal(err)
	}
	copy(b.keys, keys)
	done, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		var seen [2]int
		for {
			select {
			case <-done:
				if seen[0] == 0 || seen[1] == 0 {
					failed <- fmt.Errorf("only one policy was ever in force: %v", seen)
				}
				return
			default:
			}
			if err := b.run.Check(b.objs, "check", len(keys)); err != nil {
				failed <- err
				return
			}
			for i := range keys {
				which := b.answers[i] & 1
				if b.answers[i] != want[which][i] {
					failed <- fmt.Errorf("%+v: verdict %d, want %d or %d", keys[i], b.answers[i], want[0][i], want[1][i])
					return
				}
				seen[which]++
			}
		}
	}()
	for i := range 400 {
		if err := b.policy.Swap(tables[(i+1)%2]); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// TestCorruptImageLeadsNowhere fills the image with random words: every lookup ends.
func TestCorruptImageLeadsNowhere(t *testing.T) {
	b := newTestBed(t)
	rng := rand.New(rand.NewPCG(9, 9))
	image := mapped.View[uint32](b.memory[3])[:1<<16]
	for i := range b.keys {
		b.keys[i] = rulegen.Keys(nil, 1, i%2 == 0, rulegen.Stray, uint64(i))[0]
	}
	for range 20 {
		for i := range image {
			image[i] = rng.Uint32()
		}
		if err := b.run.Check(b.objs, "check", keyCount); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSwapRefusesWhatDoesNotFit keeps the policy in force.
func TestSwapRefusesWhatDoesNotFit(t *testing.T) {
	b, err := newBed(classify.Small)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	small := rulegen.Rules(rulegen.ACL, 10, false, 1)
	keys := rulegen.Keys(small, 100, false, rulegen.Hits, 1)
	b.mustAgree(t, small, keys, classify.Split)
	large, err := classify.Compile(rulegen.Rules(rulegen.ACL, 10_000, false, 1), classify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.policy.Swap(large); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Fatalf("a policy that does not fit: %v", err)
	}
	if err := b.run.Check(b.objs, "check", len(keys)); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if b.answers[i] != classify.Match(small, &keys[i], none) {
			t.Fatal("the policy in force changed")
		}
	}
}

// TestVerifier says what the verifier had to look at, and holds it to a tenth of its limit of
// a million instructions.
func TestVerifier(t *testing.T) {
	spec, err := loadClassbench()
	if err != nil {
		t.Fatal(err)
	}
	objs, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
	if err != nil {
		t.Fatal(err)
	}
	defer objs.Close()
	for name, p := range objs.Programs {
		var processed int
		for _, line := range strings.Split(p.VerifierLog, "\n") {
			if _, err := fmt.Sscanf(line, "processed %d insns", &processed); err == nil {
				break
			}
		}
		t.Logf("%s: %d instructions", name, processed)
		if processed == 0 || processed > 100_000 {
			t.Errorf("%s: the verifier processed %d instructions, expected 1 to 100,000", name, processed)
		}
	}
}
