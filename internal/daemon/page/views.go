// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
)

// section is one entry of the menu: pages that belong together. A view that no section names is in the last one, so that
// what is added to minne show is on the page, too.
type section struct {
	Title string
	Path  string // of its first page
	Tabs  []tab
}

// tab is one page of a section.
type tab struct{ Title, Path string }

var menu = []section{
	{Title: "Interfaces", Tabs: []tab{{"Interfaces", "interfaces"}, {"Rates", "rates"}, {"Neighbours", "neighbors"}, {"Bridges", "bridge"}, {"Queues", "queues"}}},
	{Title: "Routing", Tabs: []tab{{"IPv4 routes", "ip/route"}, {"IPv6 routes", "ipv6/route"}, {"BGP", "bgp/summary"}, {"BGP peers", "bgp/neighbors"}, {"OSPF", "ospf/neighbor"},
		{"OSPFv3", "ospf6/neighbor"}, {"Babel", "babel/neighbor"}}},
	{Title: "Firewall", Tabs: []tab{{"Rules", "firewall"}, {"NAT", "nat"}, {"Explain", "/explain"}}},
	{Title: "Drops", Tabs: []tab{{"Drops", "drops"}}},
	{Title: "Connections", Tabs: []tab{{"Summary", "flows/summary"}, {"Connections", "flows"}, {"Labels", "labels"}}},
	{Title: "Services", Tabs: []tab{{"Services", "services"}, {"DHCP", "dhcp"}, {"Time", "ntp"}, {"Cables", "lldp/neighbors"}, {"Wi-Fi", "wifi"}, {"WireGuard", "wireguard"}, {"Web page", "web"}}},
	{Title: "Fast path", Tabs: []tab{{"Fast path", "fast-path"}, {"Drivers", "fast-path/drivers"}}},
	{Title: "Log", Tabs: []tab{{"Log", "log"}}},
	{Title: "Configuration", Tabs: []tab{{"Edit", "/configuration"}, {"Revisions", "/revisions"}}},
}

// hidden are views that other pages show better.
var hidden = []string{"config"}

// sections is the menu with the views that there are.
var sections = sync.OnceValue(func() []section {
	taken := map[string]bool{}
	all := []section{{Title: "Overview", Path: "/"}}
	views := byPath()
	for _, s := range menu {
		next := section{Title: s.Title}
		for _, t := range s.Tabs {
			if !strings.HasPrefix(t.Path, "/") {
				if views[t.Path] == nil {
					continue
				}
				taken[t.Path] = true
				t.Path = "/show/" + t.Path
			}
			next.Tabs = append(next.Tabs, t)
		}
		if len(next.Tabs) > 0 {
			next.Path = next.Tabs[0].Path
			all = append(all, next)
		}
	}
	more := section{Title: "More"}
	for _, v := range router.Views {
		about := v.About()
		if path := about.Path; !taken[path] && !slices.Contains(hidden, path) && !strings.Contains(path, "{") {
			title := strings.Join(about.Words(), " ")
			more.Tabs = append(more.Tabs, tab{strings.ToUpper(title[:1]) + title[1:], "/show/" + path})
		}
	}
	slices.SortFunc(more.Tabs, func(a, b tab) int { return cmp.Compare(a.Title, b.Title) })
	if len(more.Tabs) > 0 {
		more.Path = more.Tabs[0].Path
		all = append(all, more)
	}
	return all
})

// byPath are the views.
func byPath() map[string]router.AnyView {
	all := map[string]router.AnyView{}
	for _, v := range router.Views {
		all[v.About().Path] = v
	}
	return all
}

// sectionOf is the section that a page stands in.
func sectionOf(path string) section {
	for _, s := range sections() {
		if slices.ContainsFunc(s.Tabs, func(t tab) bool { return t.Path == path }) {
			return s
		}
	}
	return section{}
}

// viewBody is what the page of a view shows.
type viewBody struct {
	Section section
	Path    string
	Short   string
	Fields  []input
	Trouble string
	Parts   []show.Part
}

// input is a field of a view's question.
type input struct {
	api.Field
	Text  string // what was asked
	Label string
}

// Check says whether it is yes or no.
func (i input) Check() bool { return i.Type.Kind() == reflect.Bool }

// find returns the view of a path, with what in the path belongs to the question: show/interfaces/lan.
func find(path string) (router.AnyView, map[string]string) {
	if v := byPath()[path]; v != nil && !strings.Contains(path, "{") {
		return v, nil
	}
	asked := strings.Split(path, "/")
next:
	for _, v := range router.Views {
		its := strings.Split(v.About().Path, "/")
		if len(its) != len(asked) {
			continue
		}
		holes := map[string]string{}
		for i, word := range its {
			if strings.HasPrefix(word, "{") {
				holes[strings.Trim(word, "{}")] = asked[i]
			} else if word != asked[i] {
				continue next
			}
		}
		return v, holes
	}
	return nil, nil
}

// show is the page of a view, whatever it is.
func (p *Page) show(w http.ResponseWriter, r *request) {
	path := r.PathValue("view")
	v, holes := find(path)
	if v == nil {
		p.fail(w, r, http.StatusNotFound, "There is no such page.")
		return
	}
	about := v.About()
	b := viewBody{Section: sectionOf("/show/" + path), Path: "/show/" + path, Short: strings.TrimPrefix(about.Short, "Show ")}
	if b.Section.Title == "" {
		b.Section = sectionOf("/show/" + strings.Split(path, "/")[0] + "s")
	}
	b.Short = strings.ToUpper(b.Short[:1]) + b.Short[1:]
	q, err := b.question(v, holes, r)
	if err == nil {
		ctx, end := bounded(r)
		defer end()
		var a any
		if a, err = v.AskAny(ctx, r.client, q); err == nil {
			b.Parts, err = printed(func(paper *show.Paper) error { return v.PrintAny(paper, q, a) })
		}
	}
	status := http.StatusOK
	if err != nil {
		b.Trouble = err.Error()
		if k := api.KindOf(err); k == api.Denied || k == api.Missing {
			status = http.StatusNotFound
		}
	}
	title := about.Path
	for _, t := range b.Section.Tabs {
		if t.Path == b.Path {
			title = t.Title
		}
	}
	p.page(w, r, status, "view", b.Section.Title, title, b)
}

// question reads what is asked out of the path and the form.
func (b *viewBody) question(v router.AnyView, holes map[string]string, r *request) (any, error) {
	q := v.NewQuestion()
	err := api.SetDefaults(q)
	given := r.URL.Query()
	for _, f := range api.Fields(reflect.TypeOf(q)) {
		if text, ok := holes[f.Name]; ok {
			err = errors.Join(err, f.Set(q, text))
			continue
		}
		name := cmp.Or(f.Name, f.Flag)
		text := given.Get(name)
		if text == "" && !given.Has(name) {
			text = f.Default
		}
		i := input{Field: f, Text: text, Label: strings.ReplaceAll(name, "_", " ")}
		i.Name = name
		b.Fields = append(b.Fields, i)
		if text != "" {
			err = errors.Join(err, f.Set(q, text))
		}
	}
	return q, err
}
