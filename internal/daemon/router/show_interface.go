// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
)

// InterfaceView answers show interfaces NAME.
type InterfaceView struct {
	kernel.Interface
	kernel.Details
	Zone      string                    `json:"zone,omitempty"`
	Since     time.Time                 `json:"counters_since,omitzero"` // when they were cleared
	FastPath  *fastpath.ObservedPort    `json:"fast_path,omitempty"`     // nil where the fast path is not for it
	Forwarded *fastpath.ObservedTraffic `json:"fast_path_traffic,omitempty"`
}

// viewInterface answers with all about the interface that the query names, by its name or a former one.
func viewInterface(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	name := query.Get("name")
	all, err := d.parts.interfaces(ctx)
	if err != nil {
		return nil, err
	}
	v := InterfaceView{}
	if v.Interface, err = findInterface(name, all); err != nil {
		return nil, err
	}
	v.Since = d.zero.fromInterface(&v.Interface)
	if v.Details, err = d.parts.kernel.Details(ctx, v.Name); err != nil {
		return nil, err
	}
	d.zero.fromDetails(v.Index, &v.Details)
	v.Zone = d.parts.firewall.Zones()[v.Name]
	o, err := d.parts.fastpath.Observe(ctx)
	if err != nil {
		return nil, err
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

// viewSource answers with the addresses of the interface or zone that the query names.
func viewSource(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	all, err := d.parts.interfaces(ctx)
	if err != nil {
		return nil, err
	}
	return sourceOf(query.Get("from"), all, d.parts.firewall.Zones())
}
