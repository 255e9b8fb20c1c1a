// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/config"
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
	if meant := meantBy(c, word); meant != "" {
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

// meantBy is the command that a word below c probably stands for: one that is there but
// mistyped, one that is elsewhere, or what does the same as another router's word.
func meantBy(c *cobra.Command, word string) string {
	below := func(name string) string { return c.CommandPath() + " " + name }
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(append(names, sub.Name()), sub.Aliases...)
		}
	}
	lower := strings.ToLower(word)
	if slices.Contains(names, lower) {
		return below(lower)
	}
	if found := elsewhere(c.Root(), lower); found != "" {
		return found
	}
	if found := foreign[lower]; found != "" {
		return c.Root().Name() + " " + found
	}
	if near := config.Nearest(lower, names); near != "" {
		return below(near)
	}
	if near := config.Nearest(lower, slices.Sorted(maps.Keys(foreign))); near != "" {
		return c.Root().Name() + " " + foreign[near]
	}
	for _, sub := range c.Root().Commands() {
		if sub.IsAvailableCommand() && config.Nearest(lower, []string{sub.Name()}) != "" {
			return sub.CommandPath()
		}
	}
	return ""
}

// elsewhere is the path of the first command below c of that name, those of the lab and of benchmarks left out.
func elsewhere(c *cobra.Command, name string) string {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || slices.Contains([]string{"lab", "bench", "help", "completion"}, sub.Name()) {
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
