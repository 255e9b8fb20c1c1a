// SPDX-License-Identifier: Apache-2.0

package api

import (
	"reflect"
	"testing"

	"minne/internal/base/health"
)

// A router is healthy when its daemon is through with its start, and not before.
func TestOverall(t *testing.T) {
	t.Parallel()
	ready, starting := []TaskStatus{{Ready: true}}, []TaskStatus{{Ready: true}, {}}
	for _, c := range []struct {
		s    Status
		want State
	}{
		{Status{Running: 1, Tasks: ready}, Healthy},
		{Status{Running: 1, Tasks: starting}, Starting},
		{Status{Tasks: starting}, Starting},
		{Status{Tasks: ready}, Unconfigured},
		{Status{Running: 1, Tasks: starting, Degraded: []string{"step kernel: no"}}, Degraded},
		{Status{Running: 1, Tasks: []TaskStatus{{Error: "ended"}}}, Degraded},
	} {
		if got := c.s.Overall(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.s, got, c.want)
		}
	}
}

// What is wrong is said once.
func TestUnsaid(t *testing.T) {
	t.Parallel()
	faults := []health.Fault{
		{Key: "port wan", Text: "no link with name wan; present: lo"},
		{Key: "port lan", Text: "address 192.0.2.1/24 on lan: file exists"},
	}
	got := Unsaid([]string{
		"step kernel: interface wan: no link with name wan; present: lo, lan",
		"interface wan: no link with name wan; present: lo",
		"kernel: address 192.0.2.1/24 on lan: file exists",
		"interface dmz: no link with name dmz; present: lo",
		"step services: wan is not there",
	}, faults)
	want := []string{"interface dmz: no link with name dmz; present: lo", "step services: wan is not there"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
