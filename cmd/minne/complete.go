// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/flows"
)

// Completion in the shell: commands and flags are cobra's, names come from the daemon. Without
// one, or without the right to ask it, there are none.

// completeLimit bounds how long the operator's shell waits for the daemon.
const completeLimit = 2 * time.Second

// namesOf asks the daemon for what may stand in a place; behind a tab, what it is.
type namesOf func(ctx context.Context, c *api.Client) []string

// names are those that fields of questions speak of.
var names = map[string]namesOf{"interface": interfaceNames, "reason": reasonNames, "peer": peersIn("")}

// argumentNames are for the first argument of commands, by their path.
var argumentNames = map[string]namesOf{
	"minne clear counters":    interfaceNames,
	"minne clear arp":         interfaceNames,
	"minne clear neighbors":   interfaceNames,
	"minne clear bgp":         both(peersIn(""), func(context.Context, *api.Client) []string { return []string{"all\tevery peer"} }),
	"minne rollback":          revisionNumbers,
	"minne set add":           setNames,
	"minne set del":           setNames,
	"minne set list":          setNames,
	"minne show flows":        nil, // words: see flowWords
	"minne clear connections": nil,
}

// flagNames are for the values of flags.
var flagNames = map[string]namesOf{
	"minne explain --in":           interfaceNames,
	"minne capture --in":           interfaceNames,
	"minne capture --reason":       reasonNames,
	"minne capture --rule":         ruleNames,
	"minne show config --revision": revisionNumbers,
	"minne ping --from":            both(interfaceNames, zoneNames),
	"minne traceroute --from":      both(interfaceNames, zoneNames),
	"minne mtr --from":             both(interfaceNames, zoneNames),
}

// flagWords are values of flags that are known here.
var flagWords = map[string][]string{
	"minne capture --verdict": {"forwarded", "dropped", "punted"},
}

// completeNames teaches the commands below c what may stand in their places.
func (a *app) completeNames(c *cobra.Command) {
	path := c.CommandPath()
	ask, known := argumentNames[path]
	switch {
	case known && ask == nil:
		c.ValidArgs, c.ValidArgsFunction = nil, a.flowWords
	case known:
		c.ValidArgsFunction = a.firstWord(ask)
	case c.ValidArgs == nil && c.Args != nil && c.Args(c, []string{"x"}) != nil: // it takes nothing, no file either
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for flag, ask := range flagNames {
		if command, name, _ := strings.Cut(flag, " --"); command == path {
			_ = c.RegisterFlagCompletionFunc(name, func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return a.askNames(c, ask), cobra.ShellCompDirectiveNoFileComp
			}) // fails where there is no such flag: a test compares
		}
	}
	for flag, words := range flagWords {
		if command, name, _ := strings.Cut(flag, " --"); command == path {
			_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for _, sub := range c.Commands() {
		a.completeNames(sub)
	}
}

// firstWord offers names for the first word behind a command.
func (a *app) firstWord(ask namesOf) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.askNames(c, ask), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) askNames(c *cobra.Command, ask namesOf) []string {
	client, err := a.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
	defer cancel()
	return ask(ctx, client)
}

// tableWords offers vrf as the first word, behind it a VRF's name, and then what is offered without it: some words, and
// maybe the peers in that table.
func (a *app) tableWords(offers []string, peers bool) cobra.CompletionFunc {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		vrf, words := "", slices.Clone(offers)
		switch {
		case len(given) == 0:
			words = append(words, "vrf")
		case given[0] == "vrf" && len(given) == 1:
			return a.askNames(c, vrfNames), cobra.ShellCompDirectiveNoFileComp
		case given[0] == "vrf":
			vrf, given = given[1], given[2:]
		}
		if peers && len(given) == 0 {
			words = append(words, a.askNames(c, peersIn(vrf))...)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// flowWords are the words of a filter for connections, and what may stand behind each.
func (a *app) flowWords(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	words := []string{"src", "dst", "host", "port", "proto", "vrf", "zone", "state", "label", flows.PathFast, flows.PathKernel}
	last := ""
	if len(given) > 0 {
		last = given[len(given)-1]
	}
	switch last {
	case "zone":
		words = a.askNames(c, zoneNames)
	case "vrf":
		words = a.askNames(c, vrfNames)
	case "proto":
		words = []string{"tcp", "udp", "icmp", "gre", "esp"}
	case "state":
		words = flows.States()
	case "src", "dst", "host", "port", "label":
		words = nil
	}
	if c.Name() == "connections" && len(given) == 0 {
		words = append(words, "all")
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// both are the names of several kinds.
func both(kinds ...namesOf) namesOf {
	return func(ctx context.Context, c *api.Client) (all []string) {
		for _, k := range kinds {
			for _, name := range k(ctx, c) {
				word, _, _ := strings.Cut(name, "\t")
				if !slices.ContainsFunc(all, func(had string) bool { return had == word || strings.HasPrefix(had, word+"\t") }) {
					all = append(all, name)
				}
			}
		}
		return all
	}
}

func vrfNames(ctx context.Context, c *api.Client) (list []string) {
	v, _ := router.Interfaces.Ask(ctx, c, router.Nothing{}) // nothing, when it can't be asked
	for _, i := range v.Interfaces {
		if i.Kind == "vrf" {
			list = append(list, i.Name)
		}
	}
	return list
}

func interfaceNames(ctx context.Context, c *api.Client) (list []string) {
	v, _ := router.Interfaces.Ask(ctx, c, router.Nothing{}) // nothing, when it can't be asked
	for _, i := range v.Interfaces {
		what := i.State
		if len(i.Addresses) > 0 {
			what += ", " + i.Addresses[0].String()
		}
		list = append(list, i.Name+"\t"+what)
	}
	return list
}

func firewallNow(ctx context.Context, c *api.Client) (o firewall.Observed) {
	o, _ = router.Firewall.Ask(ctx, c, router.FirewallQuestion{}) // nothing, when it can't be asked
	return o
}

func zoneNames(ctx context.Context, c *api.Client) (list []string) {
	for _, z := range firewallNow(ctx, c).Zones {
		list = append(list, z.Name+"\tzone of "+strings.Join(z.Interfaces, ", "))
	}
	return list
}

func setNames(ctx context.Context, c *api.Client) (list []string) {
	for _, s := range firewallNow(ctx, c).Sets {
		list = append(list, fmt.Sprintf("%s\t%d %s", s.Name, s.Configured+s.Live, s.Holds))
	}
	return list
}

func ruleNames(ctx context.Context, c *api.Client) []string {
	list := []string{"default\twhat no rule matched"}
	for _, r := range firewallNow(ctx, c).Rules {
		list = append(list, fmt.Sprintf("%d\t%s", r.ID, r.Text))
	}
	return list
}

func reasonNames(ctx context.Context, c *api.Client) (list []string) {
	v, _ := router.Drops.Ask(ctx, c, router.DropsQuestion{}) // nothing, when it can't be asked
	for _, d := range v.Drops {
		list = append(list, d.Reason+"\t"+d.Text)
	}
	return list
}

func revisionNumbers(ctx context.Context, c *api.Client) (list []string) {
	all, _ := api.GetRevisions.Ask(ctx, c, api.Empty{}) // nothing, when it can't be asked
	for _, r := range slices.Backward(all.Revisions) {
		list = append(list, fmt.Sprintf("%d\t%s %s %s", r.Number, r.Time.Format(time.DateTime), r.State, r.Comment))
	}
	return list
}

// peersIn are the names of the peers in a VRF, "" for the main table.
func peersIn(vrf string) namesOf {
	return func(ctx context.Context, c *api.Client) []string { return peerNames(ctx, c, vrf) }
}

func peerNames(ctx context.Context, c *api.Client, vrf string) (list []string) {
	s, _ := router.BGPSummary.Ask(ctx, c, router.VRFQuestion{VRF: vrf}) // nothing, when it can't be asked
	found := map[string]string{}
	for _, p := range s.Peers {
		name := p.Name
		name = cmp.Or(name, p.Address)
		found[name] = fmt.Sprintf("AS %d, %s", p.ASN, p.State)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, name+"\t"+found[name])
	}
	return list
}
