// SPDX-License-Identifier: Apache-2.0

package mapped

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Arrays are arrays that several loads of programs share, with their memory.
type Arrays struct {
	Maps   map[string]*ebpf.Map // by name, as ebpf.CollectionOptions.MapReplacements wants them
	memory map[string][]byte
}

// NewArrays creates arrays of a collection, which must have BPF_F_MMAPABLE, and maps all of their
// memory. The caller closes them.
func NewArrays(spec *ebpf.CollectionSpec, names ...string) (*Arrays, error) {
	a := &Arrays{Maps: map[string]*ebpf.Map{}, memory: map[string][]byte{}}
	for _, name := range names {
		if err := a.add(name, spec.Maps[name]); err != nil {
			a.Close()
			return nil, err
		}
	}
	return a, nil
}

func (a *Arrays) add(name string, spec *ebpf.MapSpec) error {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return fmt.Errorf("create map %s: %w", name, err)
	}
	a.Maps[name] = m
	a.memory[name], err = Memory(m)
	return err
}

// Memory is the memory of one of the arrays. It is gone after Close.
func (a *Arrays) Memory(name string) []byte { return a.memory[name] }

// Close gives the memory and the arrays back. Programs that use the arrays keep them.
func (a *Arrays) Close() {
	for _, b := range a.memory {
		if b != nil {
			_ = unix.Munmap(b) // can't fail: it was mapped by us
		}
	}
	for _, m := range a.Maps {
		_ = m.Close()
	}
}
