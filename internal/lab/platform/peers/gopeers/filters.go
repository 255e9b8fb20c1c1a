// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/FastFilter/xorfilter"
	"github.com/bits-and-blooms/bloom/v3"
)

// bitsPerKey is what the Bloom filter gets; xor8 and binary-fuse8 take about 9.8 and 9.
const bitsPerKey = 10

// bloomHashes are best for so many bits per key: bitsPerKey · ln 2.
const bloomHashes = 7

type bloomTable struct{ *bloom.BloomFilter }

func buildBloom(file string) (table, error) {
	keys, err := readKeys(file)
	if err != nil {
		return nil, err
	}
	t := bloomTable{bloom.New(uint(len(keys)*bitsPerKey), bloomHashes)}
	for _, k := range keys {
		t.Add(k)
	}
	return t, nil
}

func (t bloomTable) prepare(keys [][]byte) (each func(int, func(uint32)), sum func(int) uint32) {
	each = func(n int, take func(uint32)) {
		for _, k := range keys[:n] {
			take(number(t.Test(k)))
		}
	}
	return each, func(n int) (s uint32) {
		for _, k := range keys[:n] {
			s += number(t.Test(k))
		}
		return s
	}
}

func number(yes bool) uint32 {
	if yes {
		return 1
	}
	return 0
}

// hashed is a filter of numbers of 64 bits, to which longer keys are hashed.
type hashed[F interface{ Contains(uint64) bool }] struct{ filter F }

func buildXor(file string) (table, error) {
	numbers, err := readNumbers(file)
	if err != nil {
		return nil, err
	}
	f, err := xorfilter.Populate(numbers)
	return hashed[*xorfilter.Xor8]{f}, err
}

func buildFuse(file string) (table, error) {
	numbers, err := readNumbers(file)
	if err != nil {
		return nil, err
	}
	f, err := xorfilter.PopulateBinaryFuse8(numbers)
	return hashed[*xorfilter.BinaryFuse8]{f}, err
}

func readNumbers(file string) ([]uint64, error) {
	keys, err := readKeys(file)
	if err != nil {
		return nil, err
	}
	numbers := make([]uint64, len(keys))
	for i, k := range keys {
		numbers[i] = fold(k)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil // these filters want each once
}

func (t hashed[F]) prepare(keys [][]byte) (each func(int, func(uint32)), sum func(int) uint32) {
	each = func(n int, take func(uint32)) {
		for _, k := range keys[:n] {
			take(number(t.filter.Contains(fold(k))))
		}
	}
	return each, func(n int) (s uint32) {
		for _, k := range keys[:n] {
			s += number(t.filter.Contains(fold(k)))
		}
		return s
	}
}

// fold is a key as a number: itself up to 8 bytes, else a hash (64-bit words, multiplied and folded).
func fold(key []byte) uint64 {
	var h uint64
	for ; len(key) >= 8; key = key[8:] {
		hi, lo := bits.Mul64(h^binary.LittleEndian.Uint64(key), 0x9e3779b97f4a7c15)
		h = hi ^ lo
	}
	var last [8]byte
	if copy(last[:], key) > 0 {
		h ^= binary.LittleEndian.Uint64(last[:])
	}
	return h
}
