// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/instance"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
)

// TestOpenAPI holds docs/reference/openapi.json against what the daemon answers.
func TestOpenAPI(t *testing.T) {
	const page = "../../docs/reference/openapi.json"
	want, err := router.Document()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: run go test ./cmd/minne -run TestOpenAPI -update", page)
	}
}

// What programs rely on: every reference leads somewhere, all names are snake_case, operations have names of their own.
func TestOpenAPIIsConsistent(t *testing.T) {
	text, err := router.Document()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]struct {
			ID         string `json:"operationId"`
			Parameters []struct{ Name, In string }
			Responses  map[string]any
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		if _, ok := d.Components.Schemas[m[1]]; !ok {
			t.Errorf("nothing is said of %s", m[1])
		}
	}
	snake := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	for name, s := range d.Components.Schemas {
		for property := range s.Properties {
			if !snake.MatchString(property) {
				t.Errorf("%s.%s is not snake_case", name, property)
			}
		}
	}
	ids := map[string]bool{}
	for path, methods := range d.Paths {
		for method, o := range methods {
			if ids[o.ID] || o.Responses["200"] == nil || o.Responses["default"] == nil {
				t.Errorf("%s %s: id %q, responses %v", method, path, o.ID, o.Responses)
			}
			ids[o.ID] = true
			var holes []string
			for _, p := range o.Parameters {
				if p.In == "path" {
					holes = append(holes, "{"+p.Name+"}")
				}
			}
			found := regexp.MustCompile(`\{\w+\}`).FindAllString(path, -1)
			if slices.Sort(holes); !slices.Equal(holes, slices.Sorted(slices.Values(found))) {
				t.Errorf("%s has %v, parameters are %v", path, found, holes)
			}
		}
	}
}

// socket is where the box's daemon listens.
func (b *box) socket() string {
	inst, err := instance.New(b.name)
	if err != nil {
		b.t.Fatal(err)
	}
	return inst.Under(b.root).ControlSocket()
}

// A program without Minne's client finds views where their commands are, and errors of one shape.
func TestAPIByHand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.config("byhand", "192.0.2.1/24", "198.51.100.1/24"))
	hand := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.socket())
	}}}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/v1/show/ip/route?prefix=192.0.2.7":      {200, `"prefix":"192.0.2.0/24"`},
		"/v1/show/ip/route?limit=1":               {200, `"total":`},
		"/v1/show/interfaces/lan":                 {200, `"name":"lan"`},
		"/v1/show/interfaces/lane":                {404, `{"error":{"code":"missing","message":"no interface has the name \"lane\": did you mean lan?`},
		"/v1/show/ip/route?prefx=192.0.2.7":       {400, `{"error":{"code":"usage","message":"\"prefx\" is no part of a question`},
		"/v1/show/ip/route?limit=many":            {400, `{"error":{"code":"usage","message":"limit \"many\": expected a number from 0`},
		"/v1/show/bgp/198.51.100.0%2F24":          {200, `"paths":[]`}, // the slash is a part of the prefix
		"/v1/show/bgp/neighbors/isp/sent":         {400, `expected received or advertised`},
		"/v1/show/nothing":                        {404, `{"error":{"code":"missing","message":"this daemon answers no GET /v1/show/nothing"}}`},
		"/v1/show/flows?by=host&sort=connections": {200, `"connections":`},
		"/v1/show/flows?sort=connections":         {400, `a flow is one connection`},
		"/v1/show/drops?reason=spoofed":           {200, `"per_second":`},
		"/v1/revisions/running":                   {200, `"config":`},
		"/v1/revisions/77":                        {404, `{"error":{"code":"missing"`},
	} {
		answer, err := hand.Get("http://minne" + path)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, err = text.ReadFrom(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != want.status || !strings.Contains(text.String(), want.text) || answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s, expected %d %s", path, answer.StatusCode, text.String(), want.status, want.text)
		}
	}
}

// The trial of an upgrade compares what the daemon answers: its interfaces, sessions and gateways can be read.
func TestWorksCanBeAsked(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.file("works.yaml", `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24]}
  wan: {addresses: [198.51.100.1/24]}
routing: {static: [{prefix: 0.0.0.0/0, via: [198.51.100.2]}]}
`))
	running := runningRouter{api.NewClient(b.socket())}
	eventually(t, "the interfaces and OSPF", func() bool {
		w, err := running.Works(t.Context(), nil)
		if err != nil {
			t.Log(err)
		}
		return err == nil && slices.Contains(w.Interfaces, "lan") && slices.Contains(w.Interfaces, "wan")
	})
	hosts, err := running.gateways(t.Context())
	if err != nil || len(hosts) != 1 || hosts[0].String() != "198.51.100.2" {
		t.Errorf("gateways: %v, %v", hosts, err)
	}
}
