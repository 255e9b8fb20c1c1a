// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

type bartTable struct{ bart.Table[uint32] }

func buildBart(file string) (table, error) {
	t := &bartTable{}
	return t, readRoutes(file, t.Insert)
}

func (t *bartTable) prepare(keys [][]byte) (each func(int, func(uint32)), sum func(int) uint32) {
	list := addresses(keys)
	each = func(n int, take func(uint32)) {
		for _, a := range list[:n] {
			hop, _ := t.Lookup(a)
			take(hop)
		}
	}
	return each, func(n int) (s uint32) {
		for _, a := range list[:n] {
			hop, _ := t.Lookup(a)
			s += hop
		}
		return s
	}
}

type fastTable struct{ bart.Fast[uint32] }

func buildFast(file string) (table, error) {
	t := &fastTable{}
	return t, readRoutes(file, t.Insert)
}

func (t *fastTable) prepare(keys [][]byte) (each func(int, func(uint32)), sum func(int) uint32) {
	list := addresses(keys)
	each = func(n int, take func(uint32)) {
		for _, a := range list[:n] {
			hop, _ := t.Lookup(a)
			take(hop)
		}
	}
	return each, func(n int) (s uint32) {
		for _, a := range list[:n] {
			hop, _ := t.Lookup(a)
			s += hop
		}
		return s
	}
}

func addresses(keys [][]byte) []netip.Addr {
	list := make([]netip.Addr, len(keys))
	for i, k := range keys {
		list[i], _ = netip.AddrFromSlice(k) // of 4 or 16 bytes
	}
	return list
}
