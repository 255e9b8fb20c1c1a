// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/guard"
	"minne/internal/subsystem/fastpath/label"
	"minne/internal/subsystem/fastpath/mapped"
)

// The builds of a program (ordinary, tracing, capturing) and the program that makes flows have all maps in common,
// but for these, which each has for itself: scratch of the packet at hand, and a capture's own.
var privateMaps = []string{
	routerMapConnections, routerMapQuestions, routerMapLabelWorks, routerMapWindows,
	routerMapCaptureRecord, routerMapCaptureRing, routerMapCaptureTally,
}

// lastingMaps are those that the program of another shape goes on with.
var lastingMaps = []string{
	routerMapReasons, routerMapTraffic, routerMapSamples, routerMapGuardControl, routerMapGuardBudgets,
	routerMapGuardSources, routerMapGuardPorts, routerMapGuardPeers, routerMapGuardCounts,
}

// counterMaps outlive the program: their pins let a new daemon go on counting.
var counterMaps = []string{routerMapReasons, routerMapTraffic, routerMapGuardCounts}

// shape is what can't change while a program is loaded.
type shape struct {
	structure            fib.Structure
	capacity4, capacity6 fib.Capacity
	firewall             firewallShape
	tells                bool        // somebody listens to flows that end
	label                *label.Sets // nil where flows are not labelled
	bridges              bool        // a bridge has the fast path
	sessions             bool        // a PPPoE session has
	bonds                bool        // a bond has
	jumbo                bool        // a port's MTU asks for frames in several buffers
	vrfs                 vrfRoom     // for the tables of VRFs; none where no interface in one has the fast path
}

// program is a loaded fast path: the program for ports, its tracing twin for
// questions, and the maps that both share.
type program struct {
	shape
	objects routerObjects
	maps    map[string]*ebpf.Map // those of objects, by name
	tracer  *ebpf.Program
	regions [][]byte

	control     words
	interfaces  words
	own4        words
	nexthops    words
	members     words
	adjacencies words
	trace       words
	bridgePorts words
	sessionsAt  words
	bondsAt     words
	table4      *fib.Table4
	table6      *fib.Table6
	vrfs        *fib.Shared // nil without VRFs
	vrfTables   [fib.MaxShared]vrfTables
	firewall    firewallMemory
	guard       *guard.Shared
	limits      label.Limits // of flows by label
	ended       *ended       // nil when nobody listens

	spread   *spreader     // nil while no port spreads its packets
	enter    *ebpf.Program // makes flows for user space; nil where the program has none
	followed *followed     // nil when nobody asks conntrack
}

// load verifies and loads the program with empty tables, which send every packet to the kernel.
// counters are maps of an earlier program by name, to go on with.
func load(s shape, counters map[string]*ebpf.Map) (*program, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lifting the limit of locked memory: %w", err)
	}
	if err := s.room(); err != nil {
		return nil, err
	}
	spec, err := s.spec()
	if err != nil {
		return nil, err
	}
	p := &program{shape: s}
	all, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: counters})
	if err != nil {
		return nil, fmt.Errorf("load the fast path's program: %w", explainLoad(err))
	}
	defer all.Close() // what objects does not take: the constants
	p.maps = maps.Clone(all.Maps)
	maps.DeleteFunc(p.maps, func(name string, _ *ebpf.Map) bool { return strings.HasPrefix(name, ".") })
	if err := all.Assign(&p.objects); err != nil {
		return nil, fmt.Errorf("replace the fast path's program: %w", err)
	}
	if err := errors.Join(p.share(), p.loadEnter()); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// layout is the size of an image and what the program must know of it.
type layout interface {
	ImageBytes() uint32
	Constants() map[string]uint32
}

// spec is the program with the shape of its tables filled in.
func (s shape) spec() (*ebpf.CollectionSpec, error) {
	read := loadRouter
	if s.firewall.conntrack {
		read = loadRouterct
	}
	spec, err := read()
	if err != nil {
		return nil, fmt.Errorf("read the fast path's program: %w", err)
	}
	layout4, layout6 := fib.Layout4(s.structure, s.capacity4), fib.Layout6(s.capacity6)
	for name, l := range map[string]layout{
		layout4.MapName(): layout4, layout6.MapName(): layout6, routerMapVrfImage: s.vrfs.layout(),
		routerMapClassifyImage: s.firewall.rules(), routerMapSetImage: s.firewall.sets(),
	} {
		spec.Maps[name].ValueSize = l.ImageBytes()
		spec.Maps[name].Value = nil
		for name, value := range l.Constants() {
			if err := spec.Variables[name].Set(value); err != nil {
				return nil, fmt.Errorf("setting %s in the fast path's program: %w", name, err)
			}
		}
	}
	if s.firewall.on {
		if err := spec.Variables["firewall_build"].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("setting firewall_build in the fast path's program: %w", err)
		}
	}
	if err := errors.Join(s.reportsEnded(spec), s.labels(spec)); err != nil {
		return nil, err
	}
	for build, on := range map[string]bool{"bridge_build": s.bridges, "pppoe_build": s.sessions, "bond_build": s.bonds, "jumbo_build": s.jumbo, "vrf_build": s.vrfs != noVRFs} {
		if !on {
			continue
		}
		if err := spec.Variables[build].Set(uint32(1)); err != nil {
			return nil, fmt.Errorf("setting %s in the fast path's program: %w", build, err)
		}
	}
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("counting CPUs: %w", err)
	}
	spec.Maps[routerMapSpreadCpus].MaxEntries = uint32(possible)
	if s.jumbo {
		for _, one := range spec.Programs {
			one.Flags |= unix.BPF_F_XDP_HAS_FRAGS
		}
	}
	for _, entries := range []map[string]uint32{s.firewall.entries(), s.bridgeEntries(), s.sessionEntries(), s.bondEntries()} {
		for name, entries := range entries {
			spec.Maps[name].MaxEntries = entries
		}
	}
	return spec, nil
}

// reportsEnded lets a program tell of flows that it ends, when somebody listens.
func (s shape) reportsEnded(spec *ebpf.CollectionSpec) error {
	if !s.tells || !s.firewall.conntrack {
		return nil
	}
	if err := spec.Variables["flow_wake_bytes"].Set(s.firewall.size().RingRecords()); err != nil {
		return fmt.Errorf("setting flow_wake_bytes in the fast path's program: %w", err)
	}
	return nil
}

// loadTracer loads the same program once more, over the same maps, to write down what it decides.
// Most routers are never asked, so it is loaded with the first question.
func (p *program) loadTracer() error {
	if p.tracer != nil {
		return nil
	}
	spec, err := p.spec()
	if err != nil {
		return err
	}
	if err := spec.Variables["trace_build"].Set(uint32(1)); err != nil {
		return fmt.Errorf("setting trace_build in the fast path's program: %w", err)
	}
	var twin struct {
		Router *ebpf.Program `ebpf:"router"`
	}
	if err = spec.LoadAndAssign(&twin, &ebpf.CollectionOptions{MapReplacements: p.shared()}); err != nil {
		return fmt.Errorf("load the tracing build of the fast path's program: %w", explainLoad(err))
	}
	p.tracer = twin.Router
	return nil
}

// loadEnter loads the program that makes flows for user space, over the same maps.
func (p *program) loadEnter() error {
	if !p.shape.firewall.conntrack {
		return nil
	}
	spec, err := loadFlowenter()
	if err != nil {
		return fmt.Errorf("reading the program that makes flows: %w", err)
	}
	if err := p.shape.reportsEnded(spec); err != nil {
		return err
	}
	shared := map[string]*ebpf.Map{}
	for name, m := range p.shared() {
		if at := spec.Maps[name]; at != nil {
			at.MaxEntries = m.MaxEntries()
			shared[name] = m
		}
	}
	var loaded struct {
		Enter *ebpf.Program `ebpf:"flow_enter"`
	}
	if err := spec.LoadAndAssign(&loaded, &ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		return fmt.Errorf("loading the program that makes flows: %w", explainLoad(err))
	}
	p.enter = loaded.Enter
	return nil
}

// mapsOf is some of the maps by name.
func (p *program) mapsOf(names []string) map[string]*ebpf.Map {
	some := map[string]*ebpf.Map{}
	for _, name := range names {
		some[name] = p.maps[name]
	}
	return some
}

// shared is the maps that a twin has in common with the program.
func (p *program) shared() map[string]*ebpf.Map {
	all := maps.Clone(p.maps)
	maps.DeleteFunc(all, func(name string, _ *ebpf.Map) bool { return slices.Contains(privateMaps, name) })
	return all
}

// share maps the tables into this process.
func (p *program) share() error {
	layout4, layout6 := fib.Layout4(p.structure, p.capacity4), fib.Layout6(p.capacity6)
	m := &p.objects.routerMaps
	for _, t := range []struct {
		from *ebpf.Map
		to   *words
	}{
		{m.Control, &p.control}, {m.Interfaces, &p.interfaces}, {m.Own4, &p.own4}, {m.Nexthops, &p.nexthops},
		{m.Members, &p.members}, {m.Adjacencies, &p.adjacencies}, {m.Trace, &p.trace}, {m.BridgePorts, &p.bridgePorts},
		{m.Sessions, &p.sessionsAt}, {m.Bonds, &p.bondsAt},
	} {
		region, err := p.region(t.from)
		if err != nil {
			return err
		}
		*t.to = mapped.View[uint64](region)
	}
	image4, err := p.region(m.Fib4Image)
	if err != nil {
		return err
	}
	image6, err := p.region(m.Fib6Image)
	if err != nil {
		return err
	}
	grace := fib.Options{Grace: mapped.WaitForReaders}
	if p.table4, err = fib.NewTable4(image4, layout4, grace); err != nil {
		return err
	}
	if p.table6, err = fib.NewTable6(image6, layout6, grace); err != nil {
		return err
	}
	if p.shape.vrfs != noVRFs {
		images, err := p.region(m.VrfImage)
		if err != nil {
			return err
		}
		if p.vrfs, err = fib.NewShared(images, p.shape.vrfs.layout(), grace); err != nil {
			return err
		}
	}
	return errors.Join(p.shareFirewall(), p.shareGuard(), p.shareMatch())
}

func (p *program) region(m *ebpf.Map) ([]byte, error) {
	region, err := mapped.Memory(m)
	if err != nil {
		return nil, err
	}
	p.regions = append(p.regions, region)
	return region, nil
}

// close lets go of the program. What is attached or pinned stays in the kernel. Nothing may use
// the tables any more.
func (p *program) close() {
	p.followed.close()
	p.ended.close()
	for _, r := range p.regions {
		_ = unix.Munmap(r) // can't fail: it was mapped by us
	}
	p.regions = nil
	if p.tracer != nil {
		p.tracer.Close()
	}
	if p.enter != nil {
		p.enter.Close()
	}
	p.spread.close()
	p.objects.Close()
}

// explainLoad adds the verifier's last words, or what an operator can do.
func explainLoad(err error) error {
	var refused *ebpf.VerifierError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("the kernel's verifier refuses it (please report this): %-12v", refused)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (root or CAP_BPF and CAP_NET_ADMIN is needed)", err)
	}
	return err
}
