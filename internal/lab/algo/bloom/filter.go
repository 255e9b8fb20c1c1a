// SPDX-License-Identifier: Apache-2.0

package bloom

import (
	"fmt"
	"math/bits"
	"slices"

	"minne/internal/subsystem/fastpath/tableimage"
)

// Words of the header, BLOOM_HEAD_ of bpf/algo/bloom.h.
const (
	headSeed   = tableimage.HeadOwn
	headHashes = tableimage.HeadOwn + 2
	headBlocks = tableimage.HeadOwn + 3
	headPlaces = tableimage.HeadOwn + 4
	headFirst  = tableimage.HeadOwn + 5
	headKeys   = tableimage.HeadOwn + 6
)

// stuck is a counter that is not counted down any more: nobody knows how far it would have counted.
const stuck = 15

// table is an image in the making with its places.
type table struct {
	shape
	kind  tableimage.Kind
	words []uint32 // of the image, before it is sealed
	first uint32   // word in which the places begin
	keys  int      // in it
}

func newTable(p Parameters, kind tableimage.Kind, perWord int) (table, error) {
	s, err := p.shape(perWord)
	if err != nil {
		return table{}, err
	}
	m := tableimage.New(kind)
	first := m.Place((int(s.places)+perWord-1)/perWord, blockWords)
	m.Words[headSeed], m.Words[headSeed+1] = s.seeds[0], s.seeds[1]
	m.Words[headHashes], m.Words[headBlocks], m.Words[headPlaces] = s.hashes, s.blocks, s.places
	m.Words[headFirst] = uint32(first)
	return table{shape: s, kind: kind, words: m.Words, first: uint32(first)}, nil
}

// Keys is how many keys are in the filter.
func (t *table) Keys() int { return t.keys }

// Hashes is how many places a key has.
func (t *table) Hashes() int { return int(t.hashes) }

// Bytes is the size of the filter's places, without what makes an image of them.
func (t *table) Bytes() int { return 4 * (len(t.words) - int(t.first)) }

// FalsePositives is the rate at which other keys are found, in theory, with the keys that are in the filter now.
func (t *table) FalsePositives() float64 {
	if t.keys == 0 {
		return 0
	}
	return t.falsePositives(t.keys)
}

// Image is the filter as it is now, sealed.
func (t *table) Image() (*tableimage.Image, error) {
	m := &tableimage.Image{Kind: t.kind, Words: slices.Clone(t.words)}
	m.Words[headKeys] = uint32(t.keys)
	if err := m.Seal(); err != nil {
		return nil, err
	}
	return m, nil
}

func checkKey(key []byte) error {
	if len(key) > MaxKey {
		return fmt.Errorf("key of %d bytes: at most %d", len(key), MaxKey)
	}
	return nil
}

// Filter is a Bloom filter.
type Filter struct{ table }

// New makes an empty Bloom filter.
func New(p Parameters) (*Filter, error) {
	t, err := newTable(p, tableimage.Bloom, bitsOfWord)
	if err != nil {
		return nil, err
	}
	return &Filter{t}, nil
}

// Add adds a key.
func (f *Filter) Add(key []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	h := f.hash(key)
	for i := range f.hashes {
		place := f.next(&h, i)
		f.words[f.first+place/bitsOfWord] |= 1 << (place % bitsOfWord)
	}
	f.keys++
	return nil
}

// Has tells whether a key may have been added; false is certain.
func (f *Filter) Has(key []byte) bool {
	if len(key) > MaxKey {
		return false
	}
	h := f.hash(key)
	for i := range f.hashes {
		place := f.next(&h, i)
		if f.words[f.first+place/bitsOfWord]>>(place%bitsOfWord)&1 == 0 {
			return false
		}
	}
	return true
}

// Fill is the share of bits that are set.
func (f *Filter) Fill() float64 {
	set := 0
	for _, w := range f.words[f.first:] {
		set += bits.OnesCount32(w)
	}
	return float64(set) / float64(f.places)
}

// Counting is a counting Bloom filter.
type Counting struct{ table }

// NewCounting makes an empty counting Bloom filter.
func NewCounting(p Parameters) (*Counting, error) {
	t, err := newTable(p, tableimage.CountingBloom, countOfWord)
	if err != nil {
		return nil, err
	}
	return &Counting{t}, nil
}

// counter is the word of a place and how far its 4 bits are shifted.
func (c *Counting) counter(place uint32) (word *uint32, shift uint32) {
	return &c.words[c.first+place/countOfWord], place % countOfWord * 4
}

// Add adds a key once more.
func (c *Counting) Add(key []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	h := c.hash(key)
	for i := range c.hashes {
		word, shift := c.counter(c.next(&h, i))
		if *word>>shift&15 != stuck {
			*word += 1 << shift
		}
	}
	c.keys++
	return nil
}

// Has tells whether a key may be in the filter; false is certain.
func (c *Counting) Has(key []byte) bool {
	if len(key) > MaxKey {
		return false
	}
	h := c.hash(key)
	for i := range c.hashes {
		word, shift := c.counter(c.next(&h, i))
		if *word>>shift&15 == 0 {
			return false
		}
	}
	return true
}

// Remove takes back a key, which must have been added: taking back one that is only thought to be in the
// filter takes others with it. It returns false, and does nothing, if the key is certainly not in the filter.
func (c *Counting) Remove(key []byte) bool {
	if !c.Has(key) {
		return false
	}
	h := c.hash(key)
	for i := range c.hashes {
		word, shift := c.counter(c.next(&h, i))
		if n := *word >> shift & 15; n != stuck && n != 0 {
			*word -= 1 << shift
		}
	}
	c.keys--
	return true
}

// Stuck counts the counters that have reached their end and stay there.
func (c *Counting) Stuck() int {
	n := 0
	for _, w := range c.words[c.first:] {
		for ; w != 0; w >>= 4 {
			if w&15 == stuck {
				n++
			}
		}
	}
	return n
}
