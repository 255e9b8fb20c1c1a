// SPDX-License-Identifier: Apache-2.0

package lpmbench

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"

	"minne/internal/lab/algo/lpm"
)

// Trie is a contender that asks the kernel's own map for longest prefix match (BPF_MAP_TYPE_LPM_TRIE). used is
// what the kernel says that the map takes, in bytes, or 0 if it does not.
func (b *Bench) Trie(f lpm.Family, routes []lpm.Route) (c *Contender, used int, err error) {
	name := fmt.Sprintf("trie%d", f)
	if c, err = b.load(f, askTrie, "", 0, nil, map[string]uint32{name: uint32(max(len(routes), 1))}); err != nil {
		return nil, 0, err
	}
	m := c.objs.Maps[name]
	if err := fillTrie(m, f, routes); err != nil {
		c.Close()
		return nil, 0, err
	}
	if info, err := m.Info(); err == nil {
		bytes, _ := info.Memlock()
		used = int(bytes)
	}
	return c, used, nil
}

// fillTrie writes routes in batches. A key is the length of the prefix in the CPU's byte order, then the address.
func fillTrie(m *ebpf.Map, f lpm.Family, routes []lpm.Route) error {
	const batch = 1 << 14
	for at := 0; at < len(routes); at += batch {
		part := routes[at:min(at+batch, len(routes))]
		hops := make([]uint32, len(part))
		var count int
		var err error
		if f == lpm.IPv4 {
			keys := make([][8]byte, len(part))
			for i, r := range part {
				binary.NativeEndian.PutUint32(keys[i][:], uint32(r.Prefix.Bits()))
				copy(keys[i][4:], r.Prefix.Addr().AsSlice())
				hops[i] = r.NextHop
			}
			count, err = m.BatchUpdate(keys, hops, nil)
		} else {
			keys := make([][20]byte, len(part))
			for i, r := range part {
				binary.NativeEndian.PutUint32(keys[i][:], uint32(r.Prefix.Bits()))
				copy(keys[i][4:], r.Prefix.Addr().AsSlice())
				hops[i] = r.NextHop
			}
			count, err = m.BatchUpdate(keys, hops, nil)
		}
		if err != nil {
			return fmt.Errorf("fill the kernel's trie: route %d: %w", at+count+1, err)
		}
	}
	return nil
}
