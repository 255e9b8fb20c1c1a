// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// View is a state of a service that minne show and the API give.
type View struct {
	Path  string // the words behind minne show, as "lldp neighbors"
	Short string // what it shows, for the list of commands
	Long  string // the same with more words; "" for none

	Read  func(context.Context, Running) (any, error) // what is sent as JSON
	Table func(json.RawMessage) (Table, error)        // the same for a screen

	Answer reflect.Type // of what Read returns, for the API's document
}

// Endpoint is the path of the view on the API, below /v1/show/.
func (v View) Endpoint() string { return strings.ReplaceAll(v.Path, " ", "/") }

// Table is an answer as people read it.
type Table struct {
	Head  []string // with the signs of package show in front: > figures, ~ text, ! a state
	Rows  [][]string
	Empty string // what stands in the place of a table without rows
}

// NewView returns a view of a service of type S with answers of type A; read is a method of S.
func NewView[S, A any](v View, read func(S, context.Context) (A, error), table func(A) Table) View {
	v.Answer = reflect.TypeFor[A]()
	v.Read = func(ctx context.Context, r Running) (any, error) { return read(r.Self.(S), ctx) }
	v.Table = func(text json.RawMessage) (Table, error) {
		var answer A
		if err := json.Unmarshal(text, &answer); err != nil {
			return Table{}, fmt.Errorf("answer of the daemon to show %s: %w", v.Path, err)
		}
		return table(answer), nil
	}
	return v
}
