// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"

	"minne/internal/base/plan"
)

// Ports with a large MTU (jumbo frames). A frame that does not fit into a driver's buffer comes to a program in several
// (multi-buffer XDP), if the program says that it can take such frames. With one that can't, drivers refuse a large MTU,
// and a large MTU refuses the program. So the program is exchanged before the MTU grows, and again after it has shrunk:
// the other program asks for the length of no frame, and far ends of veth pairs need not cut what they send.

// oneBuffer is the largest MTU, in bytes, for which every driver has one buffer for a frame.
const oneBuffer = 2000

// jumbo says whether a configured MTU wants several buffers for a frame.
func (d Desired) jumbo() bool {
	for _, i := range d.Interfaces {
		if i.FastPath && i.MTU > oneBuffer {
			return true
		}
	}
	return false
}

// needsJumbo says the same, and of the links as they are: those of bonds and bridges have the MTU of these.
func (f *FastPath) needsJumbo(d Desired) bool {
	if d.jumbo() {
		return true
	}
	for _, l := range f.tables.links {
		if l.MTU > oneBuffer && (f.ports[l.Index] != nil || d.Interfaces[l.Name].FastPath) {
			return true
		}
	}
	return false
}

// Frames is the step of a commit before links get their MTU.
type Frames struct{ *FastPath }

// Plan tells nothing: the links' MTU tells what changes.
func (Frames) Plan(context.Context, Desired) ([]plan.Change, error) { return nil, nil }

// Apply has a program that runs take frames of the size that the configuration asks for.
func (f Frames) Apply(_ context.Context, d Desired) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prog == nil || f.prog.shape.jumbo || !d.jumbo() {
		return nil
	}
	s := f.prog.shape
	s.jumbo = true
	if err := f.reshape(s); err != nil {
		return err
	}
	return f.reconcile()
}

// reshape exchanges the program for one of another shape. Drivers limit an MTU when a port gets its first program: where
// that changes, the ports are the kernel's until reconcile gives them the new one.
func (f *FastPath) reshape(s shape) error {
	if s.jumbo != f.prog.shape.jumbo {
		if err := f.dropPorts(nil); err != nil {
			return err
		}
	}
	return f.rebuild(s)
}
