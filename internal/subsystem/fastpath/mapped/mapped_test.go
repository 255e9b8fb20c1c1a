// SPDX-License-Identifier: Apache-2.0

package mapped

import (
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

func array(flags uint32) *ebpf.MapSpec {
	return &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 3, Flags: flags}
}

// TestArraysShareTheirMemory writes on one side and reads on the other. Entries of 4 bytes lie 8 apart.
func TestArraysShareTheirMemory(t *testing.T) {
	spec := &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"one": array(unix.BPF_F_MMAPABLE), "two": array(unix.BPF_F_MMAPABLE), "other": array(0)}}
	a, err := NewArrays(spec, "one", "two")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if len(a.Maps) != 2 {
		t.Errorf("%d maps, expected the 2 that were named", len(a.Maps))
	}
	type entry struct{ value, _ uint32 }
	one, two := View[entry](a.Memory("one")), View[entry](a.Memory("two"))
	one[2].value = 7
	if err := a.Maps["two"].Put(uint32(1), uint32(9)); err != nil {
		t.Fatal(err)
	}
	var got uint32
	if err := a.Maps["one"].Lookup(uint32(2), &got); err != nil || got != 7 {
		t.Errorf("the map has %d (%v), expected the 7 that was written to its memory", got, err)
	}
	if two[1].value != 9 || two[2].value != 0 {
		t.Errorf("memory %v, expected the 9 that was put into the map", two[:3])
	}
	if _, err := NewArrays(spec, "one", "other"); err == nil {
		t.Error("an array without BPF_F_MMAPABLE was mapped")
	}
}
