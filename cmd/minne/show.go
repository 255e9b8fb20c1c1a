// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/model/api"
)

// showGroups are commands below "minne show" that only hold others.
var showGroups = map[string]string{
	"ip":    "Show IPv4 routes and neighbours",
	"ipv6":  "Show IPv6 routes and neighbours",
	"ospf":  "Show OSPFv2 and OSPFv3",
	"ospf6": "Show OSPFv3",
	"babel": "Show Babel",
}

// newShowCommand makes a command of each view.
func newShowCommand(a *app) *cobra.Command {
	top := &cobra.Command{Use: "show", Short: "Show the router's state"}
	made := map[string]*showing{}
	for _, v := range router.Views {
		text := v.About()
		words := text.Words()
		path := strings.Join(words, " ")
		if made[path] == nil {
			made[path] = newShowing(a, words[len(words)-1])
			showParent(top, made, words[:len(words)-1]).AddCommand(made[path].command)
		}
		made[path].add(v)
		if text.Begins {
			made[strings.Join(words[:len(words)-1], " ")].alone = v
		}
	}
	for path, extend := range showMore {
		extend(a, made[path].command)
	}
	return top
}

// showParent is the command that a view's stands below.
func showParent(top *cobra.Command, made map[string]*showing, words []string) *cobra.Command {
	if len(words) == 0 {
		return top
	}
	if s := made[strings.Join(words, " ")]; s != nil {
		return s.command
	}
	for _, c := range top.Commands() {
		if c.Name() == words[0] {
			return c
		}
	}
	group := &cobra.Command{Use: words[0], Short: cmp.Or(showGroups[words[0]], "Show "+strings.ToUpper(words[0]))}
	top.AddCommand(group)
	return group
}

// showing is a command that asks the daemon for a view and prints the answer as a table, or as it came with
// --json. Which of its views depends on the number of words behind it.
type showing struct {
	app     *app
	command *cobra.Command
	views   []router.AnyView
	alone   router.AnyView // instead, without a word
	asJSON  bool
}

func newShowing(a *app, word string) *showing {
	s := &showing{app: a, command: &cobra.Command{Use: word}}
	s.command.Args, s.command.RunE = s.checkWords, s.run
	s.command.Flags().BoolVar(&s.asJSON, "json", false, "print the daemon's answer as JSON")
	return s
}

// add lets the command show one more view. The first says what people read of it.
func (s *showing) add(v router.AnyView) {
	c, text := s.command, v.About()
	if s.views = append(s.views, v); len(s.views) == 1 {
		c.Use = strings.TrimSpace(c.Use + " " + text.Args)
		c.Short, c.Long, c.Aliases, c.ValidArgs = text.Short, text.Long, text.Aliases, text.Offers
	}
	fields := api.Fields(reflect.TypeOf(v.NewQuestion()))
	for _, f := range fields {
		switch {
		case isVRF(f) && c.ValidArgsFunction == nil:
			named := slices.ContainsFunc(fields, func(f api.Field) bool { return f.Names == "peer" })
			c.ValidArgs, c.ValidArgsFunction = nil, s.app.tableWords(text.Offers, named)
		case f.Flag == "" && names[f.Names] != nil && c.ValidArgsFunction == nil:
			c.ValidArgsFunction = s.app.firstWord(names[f.Names])
		case f.Flag != "" && c.Flags().Lookup(f.Flag) == nil:
			addFlag(c, f)
		}
	}
}

// isVRF says whether a field of a question names the VRF that is asked about. It stands in front of all other words, as "vrf NAME".
func isVRF(f api.Field) bool { return f.Names == "vrf" }

// inVRF takes "vrf NAME" from the front of the words of a command that has views of VRFs.
func (s *showing) inVRF(words []string) (vrf string, rest []string, err error) {
	knows := slices.ContainsFunc(s.views, func(v router.AnyView) bool {
		return slices.ContainsFunc(api.Fields(reflect.TypeOf(v.NewQuestion())), isVRF)
	})
	return vrfWord(words, knows)
}

// vrfWord takes "vrf NAME" from the front of words, where it may stand.
func vrfWord(words []string, knows bool) (vrf string, rest []string, err error) {
	switch {
	case !knows || len(words) == 0 || words[0] != "vrf":
		return "", words, nil
	case len(words) == 1:
		return "", nil, usageError{errors.New("vrf: expected the name of a VRF behind it")}
	}
	return words[1], words[2:], nil
}

func addFlag(c *cobra.Command, f api.Field) {
	doc := strings.ReplaceAll(f.Doc, "'", "`")
	switch f.Type.Kind() {
	case reflect.Bool:
		c.Flags().BoolP(f.Flag, f.Letter, false, doc)
	case reflect.Int:
		n, _ := strconv.Atoi(f.Default) // 0 for none
		c.Flags().IntP(f.Flag, f.Letter, n, doc)
	default:
		c.Flags().StringP(f.Flag, f.Letter, f.Default, doc)
	}
	if f.Values != nil {
		_ = c.RegisterFlagCompletionFunc(f.Flag, cobra.FixedCompletions(f.Values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
}

// worded is a question that reads the words behind its command itself.
type worded interface{ Words(words []string) error }

// takes says how many words may stand behind a view: its fields that are no flags, of which those in its path must.
func takes(v router.AnyView) (least, most int) {
	q := v.NewQuestion()
	path := v.About().Path
	for _, f := range api.Fields(reflect.TypeOf(q)) {
		if strings.Contains(path, "{"+f.Name+"}") {
			least++
		}
		if f.Flag == "" && !isVRF(f) {
			most++
		}
	}
	if _, ok := q.(worded); ok && least == 0 {
		most = 100 // its own affair
	}
	return least, most
}

// choose is the view for so many words, nil for none.
func (s *showing) choose(n int) router.AnyView {
	if n == 0 && s.alone != nil {
		return s.alone
	}
	for _, v := range s.views {
		if least, most := takes(v); least <= n && n <= most {
			return v
		}
	}
	return nil
}

func (s *showing) checkWords(c *cobra.Command, words []string) error {
	_, words, err := s.inVRF(words)
	if err != nil {
		return err
	}
	if s.choose(len(words)) != nil {
		return nil
	}
	longest := 0
	for _, v := range s.views {
		_, most := takes(v)
		longest = max(longest, most)
	}
	if longest == 0 {
		return cobra.NoArgs(c, words)
	}
	return cobra.MaximumNArgs(longest)(c, words)
}

func (s *showing) run(c *cobra.Command, words []string) error {
	vrf, words, err := s.inVRF(words)
	if err != nil {
		return err
	}
	v := s.choose(len(words))
	q, err := question(c, v, vrf, words)
	if errors.Is(err, router.ErrNoWord) {
		return noCommand(c, words)
	}
	if err != nil {
		return usageError{err}
	}
	client, err := s.app.client()
	if err != nil {
		return err
	}
	answer, err := v.AskAny(c.Context(), client, q)
	if err != nil {
		return err
	}
	return s.app.printView(v, q, answer, s.asJSON)
}

// question is what the flags and words of a command line ask.
func question(c *cobra.Command, v router.AnyView, vrf string, words []string) (any, error) {
	q := v.NewQuestion()
	own, readsWords := q.(worded)
	if readsWords {
		if err := own.Words(words); err != nil {
			return q, err
		}
	}
	for _, f := range api.Fields(reflect.TypeOf(q)) {
		text := ""
		switch {
		case isVRF(f):
			text = vrf
		case f.Flag != "":
			text = c.Flags().Lookup(f.Flag).Value.String()
		case !readsWords && len(words) > 0:
			text, words = words[0], words[1:]
		}
		if text == "" {
			continue
		}
		if err := f.Set(q, text); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (a *app) printView(v router.AnyView, question, answer any, asJSON bool) error {
	if asJSON {
		return a.printJSON(answer)
	}
	screen := a.screen()
	return errors.Join(v.PrintAny(screen, question, answer), screen.Flush())
}
