// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/base/health"
)

// What the fast path has in the kernel, and nobody else should touch: a link and its program on each port,
// and pins. The kernel announces neither that a link is detached (bpftool link detach), nor that another program is
// put under it, nor that a pin goes (rm, umount). So all of it is looked at twice a second, which costs a few
// microseconds a port, and put back at once.

// lookEvery is how often.
const lookEvery = 500 * time.Millisecond

// Keys of the health book.
const (
	healthAll  = "fast path"
	healthPort = "fast path on " // and the interface
)

// ReportTo makes what is wrong, and what was repaired, known to a book. It is called before anything else.
func (f *FastPath) ReportTo(b *health.Book) { f.health = b }

// Watch is the task that looks after what the fast path has in the kernel.
type Watch struct{ f *FastPath }

// Watch is the fast path's task.
func (f *FastPath) Watch() Watch { return Watch{f} }

func (Watch) String() string { return "fast-path-watch" }

// Ready is ready from the beginning.
func (Watch) Ready() <-chan struct{} { return Collector{}.Ready() }

// Run looks until ctx ends.
func (w Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.f.look()
		}
	}
}

// look finds what others have changed, and puts it back.
func (f *FastPath) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables == nil || !f.applied || f.adopted > 0 && !f.tables.complete {
		return // a program of an earlier daemon is still there, or none is wanted yet
	}
	if f.offByHand() {
		return // which is told (Trouble)
	}
	if f.inst.RunDir != "" {
		done, err := tryAlone(f.inst)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return // an operator is taking the programs off
		}
		if err == nil {
			defer done()
		}
	}
	if f.offByHand() {
		return // since then
	}
	again := f.foreign
	for _, p := range f.ports {
		again = f.lookAt(p, programID(f.onPort(p))) || again
	}
	if again {
		f.reconcileLogged()
	}
	f.lookAtPins()
}

// lookAt looks at a port, which should have a program of this number. It reports whether the port has to be attached
// again, or asked whether it sends.
func (f *FastPath) lookAt(p *port, own ebpf.ProgramID) (again bool) {
	if p.link == nil || !p.current {
		return false
	}
	i, err := p.link.Info()
	on := 0
	if err == nil && i.XDP() != nil {
		on = int(i.XDP().Ifindex)
	}
	switch {
	case on != p.ifindex && f.tables.links[p.ifindex] == nil:
		return false // its device is gone, which is told
	case on != p.ifindex:
		f.health.Repaired(healthPort+p.name, "Minne's XDP program was detached by another process; it is attached again")
		f.forget(p)
		return true
	case i.Program != own:
		if err := p.take(f.onPort(p)); err != nil {
			f.log.Error("cannot replace another XDP program on a port", "interface", p.name, "error", err)
			f.forget(p)
			return true
		}
		f.health.Repaired(healthPort+p.name, fmt.Sprintf("XDP program %d had replaced Minne's; Minne's is back", i.Program))
	}
	return p.proved.doubted()
}

// forget takes in that a port has the program no more.
func (f *FastPath) forget(p *port) {
	_ = p.detach() // detached already, or of a device that is gone: only handle and pin are left
	delete(f.ports, p.ifindex)
	f.tables.forgetPort(p.ifindex)
}

// forgetDetached forgets ports whose program somebody has detached.
func (f *FastPath) forgetDetached() {
	for ifindex, p := range f.ports {
		if p.link == nil {
			continue
		}
		if on, err := attachedTo(p.link); err != nil || on != ifindex {
			f.forget(p)
		}
	}
}

// lookAtPins puts pins back that are gone or lead to something else, without which packets would not go on when
// the daemon ends.
func (f *FastPath) lookAtPins() {
	mended, err := f.mendPins()
	if mended {
		f.health.Repaired(healthAll, "pins below "+f.inst.BPFDir+" were gone or were others'; they are back")
	}
	if err != nil {
		f.health.Fault("fast path's pins", err.Error()+": the fast path stops with the daemon")
		return
	}
	f.health.Clear("fast path's pins")
}

func (f *FastPath) mendPins() (mended bool, err error) {
	if err := ensureDir(f.inst.BPFDir); err != nil {
		return false, err
	}
	var failed []error
	for _, p := range f.ports {
		if p.link == nil {
			continue
		}
		did, err := p.mendPin(f.inst.BPFDir)
		mended, failed = mended || did, append(failed, err)
	}
	did, err := mendCounters(f.inst.BPFDir, f.prog)
	return mended || did, errors.Join(append(failed, err)...)
}

func pinOf(dir string, ifindex int) string { return filepath.Join(dir, portPin+strconv.Itoa(ifindex)) }

// mendPin pins a port's link where it is not.
func (p *port) mendPin(dir string) (mended bool, err error) {
	path := pinOf(dir, p.ifindex)
	own, err := p.link.Info()
	if err != nil {
		return false, fmt.Errorf("asking for the link on %s: %w", p.name, err)
	}
	if there, err := link.LoadPinnedLink(path, &ebpf.LoadPinOptions{}); err == nil {
		i, err := there.Info()
		there.Close()
		if err == nil && i.ID == own.ID {
			return false, nil
		}
	}
	if err := os.RemoveAll(path); err != nil {
		return false, fmt.Errorf("making place for the pin of %s: %w", p.name, err)
	}
	handle, err := link.NewFromID(own.ID) // a link remembers its first pin, and would not be pinned again
	if err != nil {
		return false, fmt.Errorf("opening the link on %s: %w", p.name, err)
	}
	defer handle.Close()
	if err := handle.Pin(path); err != nil {
		return false, fmt.Errorf("pinning the program on %s at %s: %w", p.name, path, err)
	}
	return true, nil
}

// mendCounters pins the program's counters where they are not.
func mendCounters(dir string, p *program) (mended bool, err error) {
	for _, name := range counterMaps {
		path := filepath.Join(dir, name)
		if there, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true}); err == nil {
			same := mapID(there) == mapID(p.maps[name])
			there.Close()
			if same {
				continue
			}
		}
		if err := os.RemoveAll(path); err != nil {
			return mended, fmt.Errorf("making place for the pin of the counters: %w", err)
		}
		mended = true
	}
	if !mended {
		return false, nil
	}
	return true, pinCounters(dir, p)
}

func mapID(m *ebpf.Map) ebpf.MapID {
	i, err := m.Info()
	if err != nil {
		return 0
	}
	id, _ := i.ID()
	return id
}
