// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/subsystem/kernel"
)

// InterfaceQuestion asks for one interface, by its name or a former one.
type InterfaceQuestion struct {
	Name string `json:"name" names:"interface" doc:"'name' of the interface"`
}

// Interface is show interfaces NAME.
var Interface = View[InterfaceQuestion, show.InterfaceView]{
	Text:  Text{Path: "interfaces/{name}", Short: "Show all about one interface"},
	Read:  readInterface,
	Print: only[InterfaceQuestion](show.Interface),
}

func readInterface(ctx context.Context, d *Daemon, q InterfaceQuestion) (v show.InterfaceView, err error) {
	all, err := d.parts.interfaces(ctx)
	if err != nil {
		return v, err
	}
	if v.Interface, err = findInterface(q.Name, all); err != nil {
		return v, err
	}
	v.Since = d.zero.fromInterface(&v.Interface)
	if v.Details, err = d.parts.kernel.Details(ctx, v.Name); err != nil {
		return v, err
	}
	d.zero.fromDetails(v.Index, &v.Details)
	v.Zone = d.parts.firewall.Zones()[v.Name]
	o, err := d.parts.fastpath.Observe(ctx)
	if err != nil {
		return v, err
	}
	d.zero.fromFastPath(&o)
	for _, p := range o.Ports {
		if p.Index == v.Index {
			v.FastPath = &p
		}
	}
	for _, t := range o.Traffic {
		if t.Index == v.Index {
			v.Forwarded = &t
		}
	}
	return v, nil
}

// findInterface finds an interface by its name, or one that it had.
func findInterface(name string, all []kernel.Interface) (kernel.Interface, error) {
	var names []string
	for _, i := range all {
		if i.Name == name {
			return i, nil
		}
		names = append(names, i.Name)
	}
	for _, i := range all {
		if slices.Contains(i.Former, name) {
			return i, nil
		}
	}
	return kernel.Interface{}, noSuch(name, "no interface has the name", names)
}

// noSuch says which names there are.
func noSuch(name, problem string, names []string) error {
	hint := "."
	if near := config.Nearest(name, names); near != "" {
		hint = fmt.Sprintf(": did you mean %s?", near)
	}
	return &api.Error{Kind: api.Missing, Message: fmt.Sprintf("%s %q%s There are %s", problem, name, hint, strings.Join(slices.Compact(names), ", "))}
}

// SourceQuestion asks which addresses packets from an interface or a zone have.
type SourceQuestion struct {
	From string `json:"from" doc:"'name' of an interface or a zone"`
}

// Source is where ping and its like take their addresses from.
var Source = api.Operation[SourceQuestion, SourceView]{Method: "GET", Path: "/v1/source", Short: "Find the addresses of an interface or a zone"}

func (d *Daemon) answerSource(r *http.Request, q SourceQuestion) (SourceView, error) {
	all, err := d.parts.interfaces(r.Context())
	if err != nil {
		return SourceView{}, err
	}
	return sourceOf(q.From, all, d.parts.firewall.Zones())
}
