// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// What the shell offers comes from the router; commands that take nothing offer no files.
func TestCompletion(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.file("guests.yaml", guestsConfig))
	for line, want := range map[string]string{
		"sho":                         "show\tShow the router's state",
		"show inter":                  "interfaces\tShow links, addresses and counters",
		"show interfaces ":            "lan\tup, 192.0.2.1/24",
		"clear counters ":             "wan\tup, 198.51.100.1/24",
		"ping --from ":                "lan\tup",
		"explain --in ":               "wan\tup",
		"rollback ":                   "1\t20",
		"show config --revision ":     "1\t20",
		"show config --e":             "--effective\t",
		"set add ":                    "blocked\t1 prefixes",
		"capture --reason ":           "spoofed\t",
		"capture --rule ":             "default\twhat no rule matched",
		"show flows ":                 "host\n",
		"show flows zone ":            "wan\tzone of wan",
		"show flows proto tcp state ": "established\n",
		"clear connections ":          "all\n",
		"show flows --by ":            "zone\n",
		"show arp ":                   ":4\n", // no file
		"status ":                     ":4\n",
	} {
		words := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			words = append(words, "")
		}
		if a := b.minne(append([]string{"__complete"}, words...)...); a.code != 0 || !strings.Contains("\n"+a.out, "\n"+want) {
			t.Errorf("minne %s: exit code %d, no %q in\n%s%s", line, a.code, want, a.out, a.err)
		}
	}
	// A router that does not answer is no reason to wait, nor to say something in the middle of a line.
	b.end(9)
	if a := b.minne("__complete", "show", "interfaces", ""); a.code != 0 || !strings.HasPrefix(a.out, ":4") {
		t.Errorf("without a daemon: exit code %d\n%s%s", a.code, a.out, a.err)
	}
}

// The tables of names speak of commands and flags that there are.
func TestCompletionNamesCommands(t *testing.T) {
	root := newRootCommand(&app{})
	look := func(path, flag string) {
		c, rest, err := root.Find(strings.Fields(path)[1:])
		if err != nil || len(rest) > 0 || flag != "" && c.Flags().Lookup(flag) == nil {
			t.Errorf("%s --%s: there is none", path, flag)
		}
	}
	for path := range argumentNames {
		look(path, "")
	}
	for path := range flagNames {
		command, flag, _ := strings.Cut(path, " --")
		look(command, flag)
	}
	for path := range flagWords {
		command, flag, _ := strings.Cut(path, " --")
		look(command, flag)
	}
}
