// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Lab is a network that has been built.
type Lab struct {
	Run string // names its namespaces and router instances
	Dir string // configurations, logs and state of its nodes; removed with it

	binary string // the minne command, for machines

	mu        sync.Mutex
	nodes     map[string]*Running
	processes []*Process
	cleanups  []func() error // run last to first
	closed    bool
}

// Running is a node that has been built.
type Running struct {
	Name      string
	Namespace string
	Dir       string // its files

	lab         *Lab
	kind        MachineKind
	image, card string  // of a node in QEMU
	machine     Machine // nil when the node stands in its namespace
}

// baseDir holds the directory of every lab on this host. It is in memory: nothing in it survives a reboot.
const baseDir = "/run/minne-lab"

var labs atomic.Int32 // started by this process

// Start builds a topology. When it fails, or ctx ends, nothing is left behind.
func Start(ctx context.Context, t Topology) (*Lab, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	if err := needRoot(); err != nil {
		return nil, err
	}
	if err := Sweep(); err != nil {
		return nil, err
	}
	run := fmt.Sprintf("%d-%d", os.Getpid(), labs.Add(1))
	l := &Lab{Run: run, Dir: filepath.Join(baseDir, run), binary: t.Binary, nodes: map[string]*Running{}}
	if err := l.build(ctx, t); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// needRoot says so plainly, before something fails for want of it.
func needRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab is made of network namespaces, which only root may make and enter: run this as root")
	}
	return nil
}

func (l *Lab) build(ctx context.Context, t Topology) error {
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return err
	}
	if t.Name != "" {
		if err := os.WriteFile(filepath.Join(l.Dir, nameFile), []byte(t.Name), 0o644); err != nil {
			return err
		}
	}
	for _, n := range t.Nodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := &Running{Name: n.Name, Namespace: namespaceName(l.Run, n.Name), Dir: filepath.Join(l.Dir, n.Name), lab: l, kind: n.kind(), image: n.Image, card: cmp.Or(n.Card, DefaultCard)}
		if err := os.MkdirAll(filepath.Join(r.Dir, toolsDir), 0o755); err != nil {
			return err
		}
		l.nodes[n.Name] = r
		if err := addNamespace(r.Namespace); err != nil {
			return err
		}
	}
	for _, c := range t.Links {
		if err := l.cable(c); err != nil {
			return err
		}
	}
	for _, n := range t.Nodes {
		if err := l.furnish(ctx, n, t.Links); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}

// furnish makes a node what its description says, in its namespace or in its machine.
func (l *Lab) furnish(ctx context.Context, n Node, links []Link) error {
	if n.kind() != Namespace {
		return l.enter(ctx, n, links)
	}
	return l.nodes[n.Name].Do(func() error { return configure(n) })
}

func namespaceName(run, node string) string { return "minne-" + run + "-" + node }

// Node returns a node of the topology; asking for one that isn't in it is a mistake of the caller.
func (l *Lab) Node(name string) *Running {
	n := l.nodes[name]
	if n == nil {
		panic("lab: no node " + name)
	}
	return n
}

// Do runs f on a thread in the node's network namespace. Of a node that is a machine of its own, that is only where
// its cables end.
func (n *Running) Do(f func() error) error { return inside(n.Namespace, f) }

// OnClose has f run when the lab is closed, before what was there earlier is taken away.
func (l *Lab) OnClose(f func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, f)
}

func (l *Lab) addProcess(p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = append(l.processes, p)
}

// Close ends what runs in the lab and removes every trace of it.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	var errs []error
	var stopping sync.WaitGroup
	for _, p := range slices.Backward(l.processes) {
		stopping.Go(func() { p.Stop(5 * time.Second) })
	}
	stopping.Wait()
	for _, f := range slices.Backward(l.cleanups) {
		errs = append(errs, f())
	}
	for _, n := range l.nodes {
		errs = append(errs, removeNamespace(n.Namespace))
	}
	errs = append(errs, os.RemoveAll(l.Dir))
	return errors.Join(errs...)
}
