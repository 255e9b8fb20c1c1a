// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Where datagrams can get lost on their way. A test that misses some prints which of
// these counters moved: a full socket or a full queue in front of a host is a busy machine,
// a drop by the router, or a connection that conntrack could not keep, is not.

// places are counters by where they are and what they count.
type places map[string]uint64

// losses reads the counters of all places between the hosts.
func (n *network) losses() places {
	n.t.Helper()
	all := places{}
	for name, ns := range map[string]*namespace{"client": n.client, "router": n.namespace, "isp": n.isp} {
		ns.do(func() error {
			all.kernel(name, "/proc/thread-self/net/snmp", "Ip", "Udp")
			all.kernel(name, "/proc/thread-self/net/netstat", "IpExt")
			all.lines(name, "/proc/thread-self/net/snmp6")
			all.links(name)
			return nil
		})
	}
	for _, cpu := range strings.Split(strings.TrimSpace(n.run("", "conntrack", "-S")), "\n") {
		for _, word := range strings.Fields(cpu) {
			what, value, _ := strings.Cut(word, "=")
			if what != "cpu" {
				all.add("router conntrack "+what, value, 10)
			}
		}
	}
	for _, r := range n.observe().Reasons {
		all["router fast path "+r.Reason] += r.Count
	}
	if text, err := os.ReadFile("/proc/net/softnet_stat"); err == nil {
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			all.add("machine's softirq backlog full", strings.Fields(line)[1], 16)
		}
	}
	return all
}

func (p places) add(what, value string, base int) {
	if n, err := strconv.ParseUint(value, base, 64); err == nil {
		p[what] += n
	}
}

// kernel reads a file with a line of names and a line of values for each protocol.
func (p places) kernel(who, file string, protocols ...string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if !slices.Contains(protocols, strings.TrimSuffix(names[0], ":")) {
			continue
		}
		for k := 1; k < len(names) && k < len(values); k++ {
			p.add(who+" "+names[0]+names[k], values[k], 10)
		}
	}
}

// lines reads a file with a name and a value in each line.
func (p places) lines(who, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return
	}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) == 2 {
			p.add(who+" "+f[0], f[1], 10)
		}
	}
}

// links reads what the links dropped.
func (p places) links(who string) {
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return
	}
	for _, line := range strings.Split(string(text), "\n") {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || len(f) < 16 {
			continue
		}
		for at, what := range map[int]string{1: "received", 3: "receive drops", 9: "sent", 11: "send drops"} {
			p.add(fmt.Sprintf("%s %s %s", who, strings.TrimSpace(name), what), f[at], 10)
		}
	}
}

// overflown is how many datagrams found the socket of their receiver full.
func (p places) overflown() (n uint64) {
	for _, host := range []string{"client", "isp"} {
		n += p[host+" Udp:RcvbufErrors"] + p[host+" Udp6RcvbufErrors"]
	}
	return n
}

// since says what has moved.
func (p places) since(before places) string {
	var moved []string
	for what, n := range p {
		if n != before[what] {
			moved = append(moved, fmt.Sprintf("%s: %d", what, n-before[what]))
		}
	}
	slices.Sort(moved)
	return strings.Join(moved, "\n")
}
