// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/model/config"
)

// Words that are no command of ours, and what was probably meant by them.

// foreign are words of other routers and tools, and the command that does the same here.
var foreign = map[string]string{
	"running-config": "show config", "startup-config": "show config", "configuration": "show config",
	"route": "show ip route", "routes": "show ip route", "routing": "show ip route",
	"connections": "show flows", "conntrack": "show flows", "sessions": "show flows", "session": "show flows",
	"translations": "show nat", "masquerade": "show nat", "clock": "show ntp", "time": "show ntp", "access-list": "show firewall", "access-lists": "show firewall", "acl": "show firewall",
	"policy": "show firewall", "rules": "show firewall", "zones": "show firewall", "filter": "show firewall",
	"leases": "show dhcp", "logging": "show log", "logs": "show log", "journal": "show log",
	"counters": "show interfaces", "statistics": "show interfaces", "stats": "show interfaces", "link": "show interfaces", "links": "show interfaces",
	"address": "show interfaces", "addresses": "show interfaces", "ports": "show interfaces", "port": "show interfaces",
	"xdp": "show fast-path", "history": "revisions", "commits": "revisions",
	"commit": "apply", "configure": "apply", "write": "apply", "save": "apply", "load": "apply", "reload": "apply", "copy": "apply",
	"undo": "rollback", "revert": "rollback", "restart": "stop", "shutdown": "stop", "test": "check", "validate": "check", "verify": "check",
	"tcpdump": "capture", "monitor": "capture", "sniff": "capture", "packet-tracer": "explain", "trace": "explain",
	"support": "tech-support", "techsupport": "tech-support", "health": "status", "state": "status",
}

// foreignClear are such words after clear: what begins anew must be what was meant.
var foreignClear = map[string]string{
	"flows": "connections", "conntrack": "connections", "sessions": "connections", "session": "connections", "states": "connections",
	"nat": "connections", "translations": "connections", "interfaces": "counters", "interface": "counters", "drops": "counters",
	"statistics": "counters", "stats": "counters", "firewall": "counters", "ospf6": "ospf", "ospfv3": "ospf",
}

// noCommand refuses a word that is no command below c, or that may be several, and says what it may be.
func noCommand(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	word := given[0]
	if several := begunBy(c, word); len(several) > 1 {
		return usageError{fmt.Errorf("%q may be %s of %s: type more of it", word, either(several), c.CommandPath())}
	}
	hint := "; see"
	if meant := meantBy(c, given); meant != "" {
		hint = fmt.Sprintf(": did you mean %q? See", meant)
	}
	return usageError{fmt.Errorf("%s has no command %q%s %s --help", c.CommandPath(), word, hint, c.CommandPath())}
}

// begunBy are the names of the commands below c that begin with a word.
func begunBy(c *cobra.Command, word string) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), word) {
			names = append(names, sub.Name())
		}
	}
	return names
}

// verbOf is the word behind the program's that a command is below of, itself included: nil at the root.
func verbOf(c *cobra.Command) *cobra.Command {
	for ; c.HasParent(); c = c.Parent() {
		if !c.Parent().HasParent() {
			return c
		}
	}
	return nil
}

// meantBy is the command that words below c probably stand for: one that is there but
// mistyped, one that is elsewhere, or what does the same as another router's word. Who wants to look is
// never told a command that changes something.
func meantBy(c *cobra.Command, given []string) string {
	below := func(name string) string { return c.CommandPath() + " " + name }
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	lower := strings.ToLower(given[0])
	if slices.Contains(names, lower) {
		return below(lower)
	}
	root, verb := c.Root(), verbOf(c)
	if verb != nil && verb != c || verb != nil && verb.Name() == "clear" {
		for _, word := range given { // "show ip bgp summary", "clear ip bgp isp"
			if found := elsewhere(verb, strings.ToLower(word)); found != "" {
				return found
			}
		}
	}
	if verb != nil && verb.Name() == "clear" {
		if found := foreignClear[lower]; found != "" {
			return verb.CommandPath() + " " + found
		}
		if near := config.Nearest(lower, names); near != "" {
			return verb.CommandPath() + " " + near
		}
		return ""
	}
	if found := elsewhere(root, lower); found != "" {
		return found
	}
	if found := foreign[lower]; found != "" {
		return root.Name() + " " + found
	}
	if near := config.Nearest(lower, names); near != "" {
		return below(near)
	}
	if near := config.Nearest(lower, slices.Sorted(maps.Keys(foreign))); near != "" {
		return root.Name() + " " + foreign[near]
	}
	for _, sub := range root.Commands() {
		if sub.IsAvailableCommand() && config.Nearest(lower, []string{sub.Name()}) != "" {
			return sub.CommandPath()
		}
	}
	return ""
}

// elsewhere is the path of the first command below c of that name. Those of the lab and of benchmarks are
// left out, and what clears, unless c does.
func elsewhere(c *cobra.Command, name string) string {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || slices.Contains([]string{"lab", "bench", "help", "completion"}, sub.Name()) ||
			sub.Name() == "clear" && sub.Name() != name {
			continue
		}
		if sub.Name() == name || slices.Contains(sub.Aliases, name) {
			return sub.CommandPath()
		}
		if found := elsewhere(sub, name); found != "" {
			return found
		}
	}
	return ""
}

// either lists words: "a", "a or b", "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
