// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/fastpath/choice"
)

// fresh is a choice for this machine and a version.
func fresh(version string) choice.Choice {
	key, _ := choice.Here(version)
	return choice.Choice{Schema: 1, Measured: time.Now(), Key: key, Structure: "range18", Figures: []choice.Figure{{Structure: "range18", Ns: 20}}}
}

func TestStructuresAreMeasuredOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		stored   string // version; empty: nothing is stored
		looks    []bool // idle?
		fails    bool
		measured int
		says     string
	}{
		{name: "stored", stored: "1.0"},
		{name: "nothing stored", looks: []bool{true}, measured: 1, says: "measured the routing table's structures"},
		{name: "stored by another release", stored: "0.9", looks: []bool{true}, measured: 1, says: "measured the routing table's structures"},
		{name: "busy for a while", looks: []bool{false, false, true}, measured: 1, says: "measured the routing table's structures"},
		{name: "it fails", looks: []bool{true}, fails: true, measured: 1, says: "level=WARN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			log := slog.New(slog.NewTextHandler(&said, nil))
			store := choice.NewStore(t.TempDir(), t.TempDir(), "1.0", log)
			if c.stored != "" {
				if err := store.Write(fresh(c.stored)); err != nil {
					t.Fatal(err)
				}
			}
			m := newMeasuring(log, store)
			m.wait = 0
			looked, measured := 0, 0
			m.idle = func(context.Context) (bool, error) { looked++; return c.looks[looked-1], nil }
			m.measure = func(context.Context) error {
				measured++
				if c.fails {
					return errors.New("no eBPF")
				}
				return store.Write(fresh("1.0"))
			}
			if err := m.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if looked != len(c.looks) || measured != c.measured || !strings.Contains(said.String(), c.says) {
				t.Errorf("looked %d times, measured %d times, said %q", looked, measured, said.String())
			}
		})
	}
}

// TestMeasuringEndsWithTheDaemon: it waits for a quiet moment, and the daemon ends.
func TestMeasuringEndsWithTheDaemon(t *testing.T) {
	m := newMeasuring(slog.New(slog.DiscardHandler), choice.NewStore(t.TempDir(), t.TempDir(), "1.0", slog.New(slog.DiscardHandler)))
	m.measure = func(context.Context) error { t.Error("measured"); return nil }
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
	if idle, all, err := processorTimes(); err != nil || idle > all || all == 0 {
		t.Errorf("idle %g of %g, %v", idle, all, err)
	}
}
