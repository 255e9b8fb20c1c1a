// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"regexp"
	"strings"
	"testing"

	"minne/internal/testing/testimage"
)

// TestCPUsOfQueues has a card with several queues on a machine of three CPUs, one of them for programs: the interrupts of
// queue 0 go to CPU 0, those of queue 1 to CPU 1, which send through these queues, and programs run on CPU 2.
func TestCPUsOfQueues(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t), CPUs: 3, Extra: queued(t, 2)})
	shell(m)
	configure(m, strings.Replace(plain, "{hostname: edge}", "{hostname: edge, cpus: {control: [2]}}", 1))
	serving := m.Run(`for i in /sys/kernel/irq/*; do case $(cat $i/actions) in *put.*) echo "$(cat $i/actions) on $(cat /proc/irq/${i##*/}/smp_affinity_list)";; esac; done | sort`)
	t.Log(serving)
	for _, line := range []string{"virtio.-input.0 on 0", "virtio.-output.0 on 0", "virtio.-input.1 on 1", "virtio.-output.1 on 1"} {
		if n := len(regexp.MustCompile(`(?m)^`+line+`\s*$`).FindAllString(serving, -1)); n != 2 {
			t.Errorf("%q: on %d ports, expected both", line, n)
		}
	}
	queues := m.Run("minne show queues")
	t.Log(queues)
	if n := len(regexp.MustCompile(`(?m)^\w+ +0 +0 .* 0 .*\n\w+ +1 +1 .* 1 `).FindAllString(queues, -1)); n != 2 {
		t.Errorf("%d ports with queues 0 and 1 on CPUs 0 and 1, expected both", n)
	}
	programs := m.Run(`for p in $(pidof minne zebra); do grep Cpus_allowed_list /proc/$p/status; done`)
	if strings.Contains(programs, "-") || !regexp.MustCompile(`list:\s+2\b`).MatchString(programs) {
		t.Errorf("programs run on:\n%s", programs)
	}
	m.Run("for i in /proc/irq/*/smp_affinity_list; do echo 2 >$i; done 2>/dev/null; true")
	m.Run(`for i in $(seq 100); do minne show queues | grep -q '^[a-z]* *1 *1 ' && break; sleep 1; done`)
	if again := m.Run("minne show queues"); !regexp.MustCompile(`(?m)^\w+ +1 +1 `).MatchString(again) {
		t.Errorf("what a hand has changed stays:\n%s", again)
	}
}

// TestFlowsOfQueues has cards that spread flows by a table (RSS), and CPU 0 for programs: no flow goes to queue 0.
func TestFlowsOfQueues(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t), CPUs: 3, Extra: queued(t, 3, "rss=on", "hash=on")})
	shell(m)
	table := func() string { return m.Run(`ethtool -x wan | grep -E '^ +[0-9]+:'`) }
	configure(m, plain)
	if before := table(); !regexp.MustCompile(`(?m)^ +0: .*\b0\b.*\b1\b.*\b2\b`).MatchString(before) {
		t.Fatalf("the card spreads flows:\n%s, expected over all queues", before)
	}
	configure(m, strings.Replace(plain, "{hostname: edge}", "{hostname: edge, cpus: {control: [0]}}", 1))
	if now := table(); !regexp.MustCompile(`(?m)^ +0: +1 +2 +1 +2 +1 +2 +1 +2\s*$`).MatchString(now) || regexp.MustCompile(`: .*\b0\b`).MatchString(now) {
		t.Errorf("the card spreads flows:\n%s, expected over queues 1 and 2", now)
	}
}
