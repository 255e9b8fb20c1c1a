// SPDX-License-Identifier: Apache-2.0

package automatonbench

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/mapped"
	"minne/internal/subsystem/fastpath/tableimage"
)

// Bounds of bpf/automatonbench.bpf.c.
const (
	Groups     = 16
	Defaults   = 4
	Reports    = 32
	Tails      = 256
	TailMemory = 256
	// FirstBytes are those of a packet that First looks at.
	FirstBytes = 128
	// DataBytes bounds what Search takes at once.
	DataBytes  = 1 << 22
	foundWords = 256
)

// Words of an image's header that those bounds are about: bpf/algo/d2fa.h and hybrid.h.
const (
	headGroups   = tableimage.HeadOwn + 1
	headDefaults = tableimage.HeadOwn + 3
	headReports  = tableimage.HeadOwn + 4
	headTails    = tableimage.HeadOwn + 5
	headMemory   = tableimage.HeadOwn + 7
	headBits     = tableimage.HeadOwn + 8
)

// run mirrors struct run of bpf/bench_run.h; what nobody sets or reads here has no name.
type run struct {
	first, count, dependent, _ uint32
	ns, _                      uint64
}

// streams mirrors struct streams of bpf/automatonbench.bpf.c; what nobody reads here has no name.
type streams struct {
	_, _  [Groups]uint32
	_     [Tails]uint32
	_     [TailMemory]uint32
	found [foundWords]uint32
}

// Program is an image loaded into the kernel, and one search in it.
type Program struct {
	objs    *ebpf.Collection
	run     *run
	streams *streams
	data    []byte
	mapping [][]byte
}

// fits names what of an image is beyond the bounds that the programs were compiled with.
func fits(m *tableimage.Image) error {
	for _, b := range []struct {
		what string
		at   int
		most uint32
	}{
		{"automata", headGroups, Groups}, {"defaults in a row", headDefaults, Defaults},
		{"patterns found by one state", headReports, Reports}, {"tails", headTails, Tails},
		{"words of the tails' states", headMemory, TailMemory}, {"words of tails that are NFAs", headBits, 0},
	} {
		if m.Words[b.at] > b.most {
			return fmt.Errorf("image with %d %s: the eBPF programs take %d at most", m.Words[b.at], b.what, b.most)
		}
	}
	if m.Kind != tableimage.D2FA && m.Kind != tableimage.Hybrid {
		return fmt.Errorf("image of kind %d: expected a D²FA or a hybrid FA", m.Kind)
	}
	return nil
}

// Load loads an image. Root (or CAP_BPF) is needed.
func Load(m *tableimage.Image) (*Program, error) {
	if err := fits(m); err != nil {
		return nil, err
	}
	spec, err := loadAutomatonbench()
	if err != nil {
		return nil, err
	}
	spec.Maps["table"].ValueSize = uint32(4 * len(m.Words))
	constants := map[string]uint32{"table_mask": uint32(len(m.Words) - 1), "hybrid": 0}
	if m.Kind == tableimage.Hybrid {
		constants["hybrid"] = 1
	}
	for name, v := range constants {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	objs, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the programs that search for patterns: %w", err)
	}
	p := &Program{objs: objs}
	for _, name := range []string{"table", "run", "streams", "data"} {
		memory, err := mapped.Memory(objs.Maps[name])
		if err != nil {
			p.Close()
			return nil, err
		}
		p.mapping = append(p.mapping, memory)
	}
	copy(mapped.View[uint32](p.mapping[0]), m.Words)
	p.run = &mapped.View[run](p.mapping[1])[0]
	p.streams = &mapped.View[streams](p.mapping[2])[0]
	p.data = p.mapping[3][:DataBytes]
	return p, nil
}

// Close gives everything back.
func (p *Program) Close() {
	for _, m := range p.mapping {
		_ = unix.Munmap(m) // can't fail: it was mapped by us
	}
	p.objs.Close()
}

const xdpPass = 2

func (p *Program) call(name string, frame []byte) error {
	code, err := p.objs.Programs[name].Run(&ebpf.RunOptions{Data: frame})
	if err != nil {
		return fmt.Errorf("run %s: %w", name, err)
	}
	if code != xdpPass {
		return fmt.Errorf("run %s: it returned %d", name, code)
	}
	return nil
}

// nothing is a packet that programs don't look at.
var nothing = make([]byte, 64)

// Begin forgets the search before.
func (p *Program) Begin() {
	*p.streams = streams{}
	p.run.dependent = 0
}

// Feed searches the next bytes of the stream, at most DataBytes, and returns how long that took in the kernel.
func (p *Program) Feed(data []byte) (time.Duration, error) {
	if len(data) > DataBytes {
		return 0, fmt.Errorf("%d bytes at once: at most %d", len(data), DataBytes)
	}
	copy(p.data, data)
	p.run.first, p.run.count = 0, uint32(len(data))
	err := p.call("search", nothing)
	p.run.dependent = 1
	return time.Duration(p.run.ns), err
}

// Finish tells that the stream has ended.
func (p *Program) Finish() error { return p.call("finish", nothing) }

// First has the first bytes of a packet searched by the program of a bounded loop, in a search of its own. Only D²FA of one group are.
func (p *Program) First(packet []byte) error {
	p.Begin()
	return p.call("first", packet)
}

// Found are the numbers of the patterns found since Begin, ascending.
func (p *Program) Found() []int {
	var ids []int
	for id := range 32 * foundWords {
		if p.streams.found[id/32]>>(id%32)&1 != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}
