// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/lab/algo/dataset"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/platform/data"
)

// routeInputs are a table, keys in it and elsewhere, and the checksums of the right answers.
func routeInputs(t *testing.T, f lpm.Family, dir string) (in Inputs, want []string) {
	t.Helper()
	routes, err := data.Routes(f, 20_000, 3)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := lpm.NewReference(f, routes)
	if err != nil {
		t.Fatal(err)
	}
	in = Inputs{Table: filepath.Join(dir, "routes"), CPU: -1}
	table, err := os.Create(in.Table)
	if err == nil {
		err = WriteRoutes(table, routes)
	}
	if err != nil {
		t.Fatal(err)
	}
	table.Close()
	for name, keys := range map[string][]lpm.Key{"random": data.RandomKeys(f, 50_000, 3), "in table": data.KeysInTable(routes, 50_000, 3)} {
		var sum dataset.Checksum
		for _, k := range keys {
			sum.Add(reference.Lookup(k))
		}
		content, err := dataset.Keys(dataset.Unknown, data.KeyBytes(f, keys))
		in.Sets = append(in.Sets, file(t, dir, name, content, err))
		want = append(want, sum.String())
	}
	return in, want
}

// TestGo compares bart's answers with the reference's, and has filters find all that is in them.
func TestGo(t *testing.T) {
	t.Parallel()
	members, strangers := data.Members(100_000, 3)
	for _, p := range compiled(t, "go") {
		t.Run(p.String(), func(t *testing.T) {
			if !strings.HasPrefix(p.Version, "v") {
				t.Errorf("version %q", p.Version)
			}
			dir := t.TempDir()
			if p.Task == Filter {
				var in Inputs
				for i, keys := range [][][]byte{members, strangers} {
					content, err := dataset.Keys(dataset.Unknown, keys)
					in.Sets = append(in.Sets, file(t, dir, []string{"members", "strangers"}[i], content, err))
				}
				in.Table, in.CPU = in.Sets[0], -1
				s := session(t, p, in)
				if int(s.Sets[0].Sum) != len(members) {
					t.Errorf("%d of %d members found", s.Sets[0].Sum, len(members))
				}
				if wrong := float64(s.Sets[1].Sum) / float64(len(strangers)); wrong > 0.02 {
					t.Errorf("%.3f %% of strangers found", 100*wrong)
				}
				return
			}
			family := map[Task]lpm.Family{IPv4: lpm.IPv4, IPv6: lpm.IPv6}[p.Task]
			in, want := routeInputs(t, family, dir)
			for i, set := range session(t, p, in).Sets {
				if set.Checksum != want[i] {
					t.Errorf("%s: checksum %s, expected %s", in.Sets[i], set.Checksum, want[i])
				}
			}
		})
	}
}

// session asks a peer and has it measure once.
func session(t *testing.T, p Peer, in Inputs) *Session {
	t.Helper()
	s, err := Open(t.Context(), p, in)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := s.Round(1)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range ns {
		if !(v > 0) {
			t.Errorf("%+v: %v ns", s.Ways[i], v)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return s
}

// TestRefusals shows what is said about files that a peer can't use, and about programs that don't run.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, _ := routeInputs(t, lpm.IPv4, dir)
	wide, _ := routeInputs(t, lpm.IPv6, t.TempDir())
	junk := file(t, dir, "junk", []byte("192.0.2.0/24 0\n"), nil)
	p := compiled(t, "go")[0]
	for _, c := range []struct {
		in   Inputs
		says string
	}{
		{Inputs{Table: junk, Sets: in.Sets, CPU: -1}, "from 1 on"},
		{Inputs{Table: in.Table, Sets: wide.Sets, CPU: -1}, "keys of 16 bytes, expected 4"},
		{Inputs{Table: in.Table, Sets: []string{junk}, CPU: -1}, "not a file of keys"},
		{Inputs{Table: filepath.Join(dir, "none"), Sets: in.Sets, CPU: -1}, "no such file"},
	} {
		if _, err := Open(t.Context(), p, c.in); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, expected %q in it", err, c.says)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "minne-peer-re2"), []byte("#!/bin/sh\necho libre2.so: not found >&2\nexit 127\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	list, err := Available(t.Context(), dir)
	if len(list) > 0 || err == nil || !strings.Contains(err.Error(), "libre2.so: not found") {
		t.Errorf("%v, %v", list, err)
	}
}
