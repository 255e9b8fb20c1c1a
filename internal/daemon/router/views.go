// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"minne/internal/model/api"
)

// Views is all that "minne show" shows, in the order of its help. The command line, the answers below
// /v1/show/ and the OpenAPI document are made of it.
var Views = append([]AnyView{
	Interfaces, Interface,
	Routes("ip", "ipv4"), Neighbors("ip/neighbors", "ipv4", "arp"),
	Routes("ipv6", "ipv6"), Neighbors("ipv6/neighbors", "ipv6", "nd"),
	Neighbors("neighbors", ""), Neighbors("arp", "ipv4"), Bridge, SpanningTree, Queues, Shape, Subscribers,
	BGPPaths, BGPSummary, BGPNeighbors, BGPRoutes,
	OSPFNeighbors("ospf", 0), OSPFInterfaces("ospf", 0), OSPFDatabase("ospf", 0),
	OSPFNeighbors("ospf6", 3), OSPFInterfaces("ospf6", 3), OSPFDatabase("ospf6", 3),
	BabelNeighbors, BabelRoutes,
	Uplinks, PolicyRouting,
	FastPath, Drivers, Firewall, Flows, FlowsSummary, Connections, FlowLog, NAT, Labels,
	Optics, Sensors, Power, Services, DHCP, NTP, Drops, Rates, Config, Log, Boot, Version, Doctor, Alarms,
}, ServiceViews()...)

// View is something that can be shown: what is asked, what is answered, and how that is printed.
// To add one, write such a value and name it in Views.
type View[Q, A any] struct {
	Text
	Read  func(context.Context, *Daemon, Q) (A, error) // reads the subsystems and changes nothing
	Print func(io.Writer, Q, A) error
}

// Nothing is the question of a view that always shows all.
type Nothing = api.Empty

// Text is what people read of a view, and where it is.
type Text struct {
	Path    string   // below /v1/show/: "bgp/neighbors"; its words are those behind "minne show". {name} is a field of the question
	Short   string   // for lists
	Long    string   // for the help; "" for Short
	Args    string   // words that may stand behind, for the help
	Offers  []string // such words, for the shell
	Aliases []string // other names of the last word
	Begins  bool     // it is also shown when only the words before its last are given
}

// ErrNoWord is returned by the Words of a question when a word is none that it knows: it may be a command.
var ErrNoWord = errors.New("no such word")

// AnyView is a view of whatever types.
type AnyView interface {
	About() Text
	NewQuestion() any // a pointer to an empty one
	AskAny(ctx context.Context, c *api.Client, question any) (any, error)
	PrintAny(w io.Writer, question, answer any) error
	serve(s *api.Server, d *Daemon)
}

// operation is the view for server and client.
func (v View[Q, A]) operation() api.Operation[Q, A] {
	return api.Operation[Q, A]{Method: http.MethodGet, Path: "/v1/show/" + v.Path, Short: v.Short}
}

// Ask asks the daemon.
func (v View[Q, A]) Ask(ctx context.Context, c *api.Client, q Q) (A, error) {
	return v.operation().Ask(ctx, c, q)
}

// About says where the view is and what it shows.
func (v View[Q, A]) About() Text { return v.Text }

// NewQuestion returns a pointer to a question.
func (v View[Q, A]) NewQuestion() any { return new(Q) }

// AskAny asks the daemon; the question is of NewQuestion.
func (v View[Q, A]) AskAny(ctx context.Context, c *api.Client, question any) (any, error) {
	return v.Ask(ctx, c, *question.(*Q))
}

// PrintAny prints an answer of AskAny.
func (v View[Q, A]) PrintAny(w io.Writer, question, answer any) error {
	return v.Print(w, *question.(*Q), answer.(A))
}

func (v View[Q, A]) serve(s *api.Server, d *Daemon) {
	api.Serve(s, v.operation(), func(r *http.Request, q Q) (A, error) { return v.Read(r.Context(), d, q) })
}

// Words are the fixed ones of the view's command, behind "minne show".
func (t Text) Words() (words []string) {
	for word := range strings.SplitSeq(t.Path, "/") {
		if !strings.HasPrefix(word, "{") {
			words = append(words, word)
		}
	}
	return words
}

// only is how an answer is printed whatever was asked.
func only[Q, A any](print func(io.Writer, A) error) func(io.Writer, Q, A) error {
	return func(w io.Writer, _ Q, a A) error { return print(w, a) }
}
