// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/base/atomicfile"
	"minne/internal/base/medium"
)

// Works is what works on a router at one moment.
type Works struct {
	Interfaces []string     `json:"interfaces,omitempty"` // that are up
	Sessions   []string     `json:"sessions,omitempty"`   // routing sessions that stand: "BGP 192.0.2.1", "OSPF 10.0.0.2 on lan"
	Hosts      []netip.Addr `json:"hosts,omitempty"`      // that answer a ping: gateways, and from where the operator was logged in
}

// Router answers what works, for a trial.
type Router interface {
	// Works returns what works now; of hosts, which of the given ones answer. An error means that
	// the router does not answer at all.
	Works(ctx context.Context, hosts []netip.Addr) (Works, error)
}

// Outcome is what became of an upgrade.
type Outcome string

// The outcomes.
const (
	Pending  Outcome = "pending"   // written, and the trial is not over
	Good     Outcome = "good"      // the router boots it from now on
	FellBack Outcome = "fell back" // the router runs the old system again
)

// NotChecked is why an upgrade fell back when the new system left no result.
const NotChecked = "the new system did not reach its checks, or the power failed before it booted"

// Promise is made by the old system before a trial and kept by the new one.
type Promise struct {
	From    slot.System   `json:"from"`
	To      slot.System   `json:"to"`
	Slot    string        `json:"slot"` // that To is in
	Made    time.Time     `json:"made"`
	Within  time.Duration `json:"within_ns"` // after the boot
	Works   Works         `json:"works"`
	Outcome Outcome       `json:"outcome"`
	Reason  string        `json:"reason,omitempty"` // of falling back
}

// Missing is what worked once and does not now, one line each.
func (w Works) Missing(now Works) (out []string) {
	for _, name := range w.Interfaces {
		if !slices.Contains(now.Interfaces, name) {
			out = append(out, fmt.Sprintf("interface %s is not up", name))
		}
	}
	for _, name := range w.Sessions {
		if !slices.Contains(now.Sessions, name) {
			out = append(out, fmt.Sprintf("session %s is not up", name))
		}
	}
	for _, host := range w.Hosts {
		if !slices.Contains(now.Hosts, host) {
			out = append(out, fmt.Sprintf("%s does not answer", host))
		}
	}
	return out
}

// ReadPromise reads the promise of the last upgrade; none is os.ErrNotExist.
func ReadPromise(path string) (Promise, error) {
	var p Promise
	data, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Write stores the promise, whole or not at all.
func (p Promise) Write(path string) error {
	data, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	done, err := medium.Writable(path)
	if err != nil {
		return err
	}
	return errors.Join(atomicfile.Write(path, data, 0o600, atomicfile.Durable), done())
}

// lookEvery is how often a router on trial is looked at.
const lookEvery = 2 * time.Second

// FinishTrial waits until all works that p promises, and makes the running system the one that
// boots. When the time is over it notes that the slot failed and returns why: the caller
// restarts the machine then. Without a promise (the configuration's partition was lost),
// it is enough that the router answers.
func (m Medium) FinishTrial(ctx context.Context, r Router, p Promise) error {
	deadline, stop := context.WithTimeout(ctx, p.Within)
	defer stop()
	var why error
	for {
		now, err := r.Works(deadline, p.Works.Hosts)
		if err == nil {
			missing := p.Works.Missing(now)
			if len(missing) == 0 {
				return m.setState(slot.State{Slot: m.Booted})
			}
			err = errors.New(strings.Join(missing, "; "))
		}
		if why == nil || deadline.Err() == nil {
			why = err
		}
		select {
		case <-time.After(lookEvery):
		case <-deadline.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			why = fmt.Errorf("not within %v after the start: %w", p.Within, why)
			return errors.Join(why, m.setState(slot.State{Slot: slot.Other(m.Booted), Failed: m.Booted}))
		}
	}
}
