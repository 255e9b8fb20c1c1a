// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"minne/internal/subsystem/fastpath"
)

// jsonViews are the commands that print an answer for programs and need no argument.
func jsonViews(c *cobra.Command) (all [][]string) {
	for _, sub := range c.Commands() {
		all = append(all, jsonViews(sub)...)
	}
	if c.Flags().Lookup("json") == nil || c.Args != nil && c.Args(c, nil) != nil {
		return all
	}
	return append(all, strings.Fields(c.CommandPath())[1:])
}

// What programs read of a router without anything is an object without null, whatever the view.
func TestJSONIsAnObject(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	show, _, err := newRootCommand(&app{}).Find([]string{"show"})
	if err != nil {
		t.Fatal(err)
	}
	views := append(jsonViews(show), []string{"revisions"}, []string{"status"}, []string{"fast-path", "status"}, []string{"show", "ip", "route", "203.0.113.0/24"})
	if len(views) < 18 {
		t.Errorf("only %d views: %q", len(views), views)
	}
	for _, view := range views {
		if view[1%len(view)] == "boot" { // of the image
			continue
		}
		a := b.minne(append(view, "--json")...)
		if a.code != 0 { // routing does not run: nothing to print
			if !strings.Contains(a.err, "no configuration is in force") && !strings.Contains(a.err, "not running") {
				t.Errorf("%q: exit code %d: %s", view, a.code, a.err)
			}
			continue
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(a.out), &answer); err != nil || answer == nil {
			t.Errorf("%q is no object: %v\n%.200s", view, err, a.out)
		}
		if strings.Contains(a.out, ": null") {
			t.Errorf("%q has null in it:\n%.2000s", view, a.out)
		}
	}
}

// A command that is asked outside of the router's network namespace names the router's ports,
// not the links here that have the same numbers.
func TestFastPathStatusOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.config("ports", "192.0.2.1/24", "198.51.100.1/24"))
	named := func() {
		t.Helper()
		for range 2 {
			var o fastpath.Observed
			b.json(&o, "fast-path", "status", "--json")
			if len(o.Ports) != 2 || o.Ports[0].Name != "lan" || o.Ports[1].Name != "wan" {
				t.Errorf("ports: %+v", o.Ports)
			}
		}
	}
	eventually(t, "fast path on both ports", func() bool {
		return strings.Count(b.minne("fast-path", "status").out, "native") == 2
	})
	named()
	b.end(9) // the namespace has no daemon any more, but a name in the lock, and processes
	named()
	ns, err := netns.GetFromPath(b.netns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if _, err := netlink.LinkByName("lan"); err == nil {
		t.Error("the test itself sees the router's ports: it shows nothing")
	}
}

// Commands may be shortened; what is none, or more than one, is answered by what it may be.
func TestWordsOfCommands(t *testing.T) {
	for line, want := range map[string]string{
		"sh in --bogus":             "unknown flag: --bogus; see minne show interfaces --help",
		"sh ip ro x":                `"x": expected a prefix`,
		"conf":                      `"conf" may be config or confirm of minne`,
		"show i":                    `"i" may be interfaces, ip or ipv6 of minne show`,
		"show interfaecs":           `minne show has no command "interfaecs": did you mean "minne show interfaces"?`,
		"show running-config":       `did you mean "minne show config"?`,
		"interfaces":                `did you mean "minne show interfaces"?`,
		"aply":                      `did you mean "minne apply"?`,
		"show statsu":               `did you mean "minne `,
		"commit":                    `did you mean "minne apply"?`,
		"show IP":                   `did you mean "minne show ip"?`,
		"bgp":                       `did you mean "minne show bgp"?`,
		"show ip bgp summary":       `did you mean "minne show bgp"?`,
		"show ip ospf neighbor":     `did you mean "minne show ospf"?`,
		"clear ip bgp isp":          `did you mean "minne clear bgp"?`,
		"clear ip ospf":             `did you mean "minne clear ospf"?`,
		"clear sessions":            `did you mean "minne clear connections"?`,
		"ping -c 1 192.0.2.9":       `put options of ping itself after --, as in minne ping --from lan 192.0.2.99 -- -c 3`,
		"show config 1":             `"1": expected minne show config --revision 1`,
		"clear bgp":                 `incomplete command: expected minne clear bgp [vrf NAME] PEER|all [soft]; see`,
		"clear connections":         `incomplete command: expected minne clear connections FILTER…|all`,
		"show bgp 198.051.100.0/24": `did you mean 198.51.100.0/24?`,
		"show services dns":         `unexpected "dns": minne show services takes no more words`,
		"xyzzyplugh":                `minne has no command "xyzzyplugh"; see minne --help`,
	} {
		var out, errOut strings.Builder
		if code := run(t.Context(), append(strings.Fields(line), "--root", t.TempDir()), &out, &errOut); code != exitUsage || !strings.Contains(errOut.String(), want) {
			t.Errorf("minne %s: exit code %d, %q, want %q", line, code, errOut.String(), want)
		}
	}
	root := newRootCommand(&app{})
	for word, command := range foreign {
		if found, rest, err := root.Find(strings.Fields(command)); err != nil || len(rest) > 0 || found == root {
			t.Errorf("%s stands for %q, which there is not", word, command)
		}
	}
}
