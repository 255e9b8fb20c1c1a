// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/lab/algo/bloom"
	"minne/internal/lab/algo/dataset"
)

// filter writes a Bloom filter and keys of which the first half are in it, and returns the files and what they answer.
func filter(t *testing.T) (image, keys, want string) {
	t.Helper()
	f, err := bloom.New(bloom.Parameters{Keys: 500, BitsPerKey: 8})
	if err != nil {
		t.Fatal(err)
	}
	var asked [][]byte
	for i := range 1000 {
		k := binary.BigEndian.AppendUint32(nil, uint32(i))
		if asked = append(asked, k); i < 500 {
			if err := f.Add(k); err != nil {
				t.Fatal(err)
			}
		}
	}
	var sum dataset.Checksum
	for _, k := range asked {
		sum.AddBool(f.Has(k))
	}
	m, err := f.Image()
	if err != nil {
		t.Fatal(err)
	}
	file, err := dataset.Keys(dataset.Unknown, asked)
	if err != nil {
		t.Fatal(err)
	}
	image, keys = filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "keys")
	for name, data := range map[string][]byte{image: m.Bytes(binary.NativeEndian), keys: file} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return image, keys, sum.String()
}

func TestRun(t *testing.T) {
	image, keys, want := filter(t)
	p, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, s := range []Spec{
		{CPU: Any},
		{CPU: Any, Seconds: 0.02, Hot: 10, Repetitions: 11, Huge: true},
		{CPU: Any, Check: true},
	} {
		s.Algorithm, s.Image, s.Sets = "bloom", image, []string{keys, keys}
		r, err := p.Run(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range r.Sets {
			if set.Checksum != want || set.Count != 1000 || set.Bytes != 4 || set.Origin != "unknown" {
				t.Errorf("%+v; expected checksum %s", set, want)
			}
		}
		if r.Algorithm != "bloom" || r.Turned || r.Machine == "" || r.Compiler == "" || r.Memory.Table == 0 || r.Memory.Keys != 8000 || r.Memory.Peak == 0 {
			t.Errorf("%+v", r)
		}
		figures, repetitions := 4, 9 // two sets in two orders; 2048 hot keys would be all of them
		if s.Hot != 0 {
			figures, repetitions = 8, 11
		}
		if s.Check {
			figures = 0
		} else if r.Clock != "cpu" && r.Clock != "wall" {
			t.Errorf("clock %q", r.Clock)
		}
		if len(r.Figures) != figures {
			t.Errorf("%d figures, expected %d", len(r.Figures), figures)
		}
		for _, f := range r.Figures {
			if len(f.Repetitions) != repetitions || f.Per != "key" || f.Ns.Median <= 0 || f.Ns.Low > f.Ns.Median || f.Ns.High < f.Ns.Median {
				t.Errorf("%+v", f)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	image, keys, _ := filter(t)
	for want, s := range map[string]Spec{
		"minne-procbench d2fa: " + keys + ": it does not begin as a table image": {Algorithm: "d2fa", Image: keys, Sets: []string{keys}, CPU: Any},
		"it is a table of another algorithm":                                     {Algorithm: "tree-bitmap", Image: image, Sets: []string{keys}, CPU: Any},
		"CPU 1000: Invalid argument":                                             {Algorithm: "bloom", Image: image, Sets: []string{keys}, CPU: 1000},
		"quick: no algorithm of this name":                                       {Algorithm: "quick", Image: image, Sets: []string{keys}, CPU: Any},
	} {
		if _, err := run(context.Background(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; expected %q", err, want)
		}
	}
}

func TestEnded(t *testing.T) {
	image, keys, _ := filter(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := run(ctx, Spec{Algorithm: "bloom", Image: image, Sets: []string{keys}, CPU: Any, Seconds: 3600}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected %v", err, context.Canceled)
	}
}

func TestNotEmbedded(t *testing.T) {
	whole := program
	program = nil
	defer func() { program = whole }()
	if _, err := run(context.Background(), Spec{}); !errors.Is(err, ErrNotEmbedded) {
		t.Errorf("%v, expected %v", err, ErrNotEmbedded)
	}
}

// run loads the program, runs it once and frees it.
func run(ctx context.Context, s Spec) (Result, error) {
	p, err := Load()
	if err != nil {
		return Result{}, err
	}
	defer p.Close()
	return p.Run(ctx, s)
}
