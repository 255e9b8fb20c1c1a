// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/binary"
	"fmt"
	"time"

	"minne/internal/lab/algo/bloom"
	"minne/internal/lab/algo/dataset"
	"minne/internal/subsystem/fastpath/tableimage"
)

// Parameters of the filters.
const (
	bitsPerKey = 10
	// askedKeys bounds the keys that a filter is asked for.
	askedKeys = 1 << 20
)

// filter is what a Bloom filter and a counting one have in common.
type filter interface {
	Add([]byte) error
	Has([]byte) bool
	Image() (*tableimage.Image, error)
	Bytes() int
	Hashes() int
}

// filterWorkloads are Bloom filters with the members in them. They are asked for members and for strangers.
func (b *builder) filterWorkloads(members, strangers [][]byte, what string) error {
	if err := b.keysForPeers(members, strangers, fmt.Sprintf("%s %s", grouped(len(members)), what)); err != nil {
		return err
	}
	for _, c := range []struct {
		algorithm, native string
		blocked           bool
		make              func(bloom.Parameters) (filter, error)
	}{
		{BloomFilter, "bloom", false, func(p bloom.Parameters) (filter, error) { return bloom.New(p) }},
		{BlockedBloom, "bloom", true, func(p bloom.Parameters) (filter, error) { return bloom.New(p) }},
		{CountingBloom, "counting-bloom", false, func(p bloom.Parameters) (filter, error) { return bloom.NewCounting(p) }},
	} {
		if !b.wanted(c.algorithm) {
			continue
		}
		holds := fmt.Sprintf("%s %s", grouped(len(members)), what)
		b.step("build %s, %s", c.algorithm, holds)
		begin := time.Now()
		f, err := c.make(bloom.Parameters{Keys: len(members), BitsPerKey: bitsPerKey, Blocked: c.blocked, Seed: Seed})
		if err != nil {
			b.missing(c.algorithm, holds, err)
			continue
		}
		for _, k := range members {
			if err := f.Add(k); err != nil {
				return err
			}
		}
		took := time.Since(begin)
		m, err := f.Image()
		if err != nil {
			return err
		}
		w := &workload{algorithm: c.algorithm, native: c.native, holds: holds, build: took, used: f.Bytes(), memory: 4 * len(m.Words)}
		sets, rate, err := b.filterSets(f, members, strangers)
		if err != nil {
			return err
		}
		w.detail = fmt.Sprintf("%d hashes, %.3f %% false positives", f.Hashes(), 100*rate)
		w.inKernel = func(k *kernelSide) (contender, error) {
			return k.filter(m, [][][]byte{strangers[:min(len(strangers), askedKeys)], members[:min(len(members), askedKeys)]})
		}
		if err := b.add(w, m.Bytes(binary.NativeEndian), sets); err != nil {
			return err
		}
	}
	return nil
}

// filterSets asks a filter in Go, and tells how many strangers it takes for members. A member that is not found is an error.
func (b *builder) filterSets(f filter, members, strangers [][]byte) (sets []*set, falsePositives float64, err error) {
	for i, s := range []*set{{name: "random", origin: dataset.Random}, {name: "in table", origin: dataset.InTable}} {
		keys := strangers
		if s.origin == dataset.InTable {
			keys = members
		}
		keys = keys[:min(len(keys), askedKeys)]
		var sum dataset.Checksum
		found := 0
		for _, k := range keys {
			has := f.Has(k)
			if sum.AddBool(has); has {
				found++
			}
		}
		s.checksum = sum.String()
		if s.origin == dataset.Random {
			falsePositives = float64(found) / float64(len(keys))
		} else if found != len(keys) {
			return nil, 0, fmt.Errorf("a Bloom filter does not find %d of its %d keys", len(keys)-found, len(keys))
		}
		content, err := dataset.Keys(s.origin, keys)
		if err != nil {
			return nil, 0, err
		}
		if s.file, err = store(b.dir, fmt.Sprintf("members-%d", i), content); err != nil {
			return nil, 0, err
		}
		sets = append(sets, s)
	}
	return sets, falsePositives, nil
}
