// SPDX-License-Identifier: Apache-2.0

package flowbench

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/fastpath/mapped"
)

// Values of work in bpf/flowbench.bpf.c and, from 16 on, of bpf/flowbench_rivals.h.
const (
	workNothing     = 0
	workHash        = 1
	workLookup      = 2
	workForward     = 3
	workInsert      = 4
	workDelete      = 5
	workTranslate   = 6
	workHashMap     = 16
	workLRU         = 17
	workSipHash     = 18
	workHalfSipHash = 19
	workFillHashMap = 20
	workFillLRU     = 21
	workChain       = 22
	workFillChain   = 23
	workKnown       = 24
)

// keyCount is how many flows the array of keys holds.
const keyCount = 1 << 20

// pair mirrors struct flow_pair: the keys of both directions, and their sides' numbers for workKnown.
type pair struct {
	key    [2][5]uint64
	number [2]uint32
	_      [5]uint64
}

// run mirrors struct run of bpf/flowbench.bpf.c; what nobody sets or reads here has no name.
type run struct {
	first, count, mask, direction, dependent, _ uint32
	ns, sum                                     uint64
	now, _                                      uint32
	wrong                                       uint64
	base, _                                     uint32
	salt                                        uint64
}

// shared are the arrays that every table's programs use: keys, answers and the order of a run.
type shared struct {
	*mapped.Arrays
	runs    []run
	pairs   []pair
	answers []uint64
}

func newShared() (*shared, error) {
	spec, err := loadFlowbench()
	if err != nil {
		return nil, err
	}
	a, err := mapped.NewArrays(spec, "run", "pairs", "answers")
	if err != nil {
		return nil, err
	}
	return &shared{
		Arrays:  a,
		runs:    mapped.View[run](a.Memory("run"))[:2],
		pairs:   mapped.View[pair](a.Memory("pairs"))[:keyCount],
		answers: mapped.View[uint64](a.Memory("answers"))[:keyCount],
	}, nil
}

// rig is one flow table of a size, and the programs that work on it. Each kind of work is a load
// of its own, so that the verifier drops all others from it.
type rig struct {
	shared  *shared
	size    flow.Size
	maps    map[string]*ebpf.Map
	memory  [][]byte
	regions flow.Memory
	table   *flow.Table
	rest    uint32 // flow_rest_ticks
	tells   uint32 // flow_wake_bytes
	loads   map[load]*ebpf.Collection
}

// The maps of a rig, and of its rivals when it has some.
var (
	ownMaps   = []string{"flow_control", "flow_index", "flow_sides", "flow_free", "flow_sources", "flow_counts", "flow_ended"}
	rivalMaps = []string{"rival_hash", "rival_lru", "rival_heads", "rival_chain"}
)

// newRig makes an empty table, and rivals of the same size if asked for. rest is how long an ended flow rests, in
// ticks of 2^24 ns.
func newRig(s *shared, size flow.Size, timeouts flow.Timeouts, rest uint32, rivals bool) (*rig, error) {
	spec, err := loadFlowbench()
	if err != nil {
		return nil, err
	}
	r := &rig{shared: s, size: size, maps: map[string]*ebpf.Map{}, rest: rest, loads: map[load]*ebpf.Collection{}}
	entries := size.Entries()
	names := ownMaps
	if rivals {
		names = append(names[:len(names):len(names)], rivalMaps...)
		entries["rival_hash"], entries["rival_lru"] = uint32(size.Flows), uint32(size.Flows)
		entries["rival_heads"] = 1 << bits.Len(uint(size.Flows-1))
		entries["rival_chain"] = uint32(size.Flows + 1)
	}
	for _, name := range names {
		if n, ok := entries[name]; ok {
			spec.Maps[name].MaxEntries = n
		}
		m, err := ebpf.NewMap(spec.Maps[name])
		if err != nil {
			r.close()
			return nil, fmt.Errorf("create map %s: %w", name, err)
		}
		r.maps[name] = m
	}
	for i, region := range []*[]byte{&r.regions.Control, &r.regions.Index, &r.regions.Sides, &r.regions.Free, &r.regions.Sources} {
		b, err := mapped.Memory(r.maps[ownMaps[i]])
		if err != nil {
			r.close()
			return nil, err
		}
		*region = b
		r.memory = append(r.memory, b)
	}
	if r.table, err = flow.New(r.regions, size, timeouts); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// load is one of the programs, for a kind of work.
type load struct {
	program string
	work    int
}

// load loads a program for a kind of work, unless it is loaded.
func (r *rig) load(program string, work int) (*ebpf.Collection, error) {
	key := load{program, work}
	if c := r.loads[key]; c != nil {
		return c, nil
	}
	spec, err := loadFlowbench()
	if err != nil {
		return nil, err
	}
	set := map[string]uint32{"work": uint32(work), "flow_rest_ticks": r.rest, "flow_wake_bytes": r.tells}
	use := map[string]*ebpf.Map{}
	for name, m := range r.shared.Maps {
		use[name] = m
	}
	for name, m := range r.maps {
		spec.Maps[name].MaxEntries = m.MaxEntries()
		use[name] = m
	}
	if heads := r.maps["rival_heads"]; heads != nil {
		set["rival_mask"] = heads.MaxEntries() - 1
	}
	for name, v := range set {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{program: spec.Programs[program]}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: use})
	if err != nil {
		return nil, fmt.Errorf("load program %s for work %d: %w", program, work, err)
	}
	r.loads[key] = c
	return c, nil
}

// unload drops all programs of the rig; do loads them again.
func (r *rig) unload() {
	for _, c := range r.loads {
		c.Close()
	}
	clear(r.loads)
}

func (r *rig) close() {
	r.unload()
	for _, b := range r.memory {
		_ = unix.Munmap(b)
	}
	for _, m := range r.maps {
		_ = m.Close()
	}
}

// do runs one of the programs of bpf/flowbench.bpf.c, with its order in one of the two places.
func (r *rig) do(program string, which, work int, order run) (run, error) {
	c, err := r.load(program, work)
	if err != nil {
		return run{}, err
	}
	slot := &r.shared.runs[which]
	*slot = order
	ret, err := c.Programs[program].Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err != nil {
		return run{}, fmt.Errorf("run %s for work %d: %w", program, work, err)
	}
	if ret != 2 { // XDP_PASS
		return run{}, fmt.Errorf("%s for work %d ended with %d", program, work, ret)
	}
	return *slot, nil
}

// counts are the program's, of all CPUs.
func (r *rig) counts() ([]flow.Counts, error) {
	var c []flow.Counts
	if err := r.maps["flow_counts"].Lookup(uint32(0), &c); err != nil {
		return nil, fmt.Errorf("read the counts: %w", err)
	}
	return c, nil
}
