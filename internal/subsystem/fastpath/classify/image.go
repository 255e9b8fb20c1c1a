// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Capacity is how much tables may take.
type Capacity uint8

// Full holds 10,000 rules of every shape measured, in 32 MiB for both buffers; Small some 5,000 in
// 4 MiB; Empty none, for a fast path without rules.
const (
	Full Capacity = iota
	Small
	Empty
)

// Names of the eBPF arrays.
const (
	ImageMap  = "classify_image"
	ActiveMap = "classify_active"
)

const slackBytes = 64 // CLASSIFY_SLACK

// Layout is the size of the shared memory: two buffers of one policy each.
type Layout struct{ bufferBytes int }

// LayoutOf is the layout for a capacity.
func LayoutOf(c Capacity) Layout {
	return Layout{[...]int{Full: fullBytes, Small: smallBytes, Empty: emptyBytes}[c]}
}

// ImageBytes is the value size of the eBPF array ImageMap.
func (l Layout) ImageBytes() uint32 { return uint32(2*l.bufferBytes + slackBytes) }

// Limit is the most that one policy's tables may take, in bytes.
func (l Layout) Limit() int { return l.bufferBytes }

// Constants are the program's read-only variables by name.
func (l Layout) Constants() map[string]uint32 {
	return map[string]uint32{"classify_mask": uint32(l.bufferBytes/4 - 1)}
}

// Shared is the classifier's memory in the fast path: two buffers, one of which packets are evaluated
// by. It is used by one goroutine at a time.
type Shared struct {
	buffers [2][]uint32
	active  *uint32
	grace   func()
}

// Open lays a Shared over the mapped bytes of ImageMap and ActiveMap, with whatever policy is in
// there. grace must return only when every program that was running has ended.
func (l Layout) Open(image, active []byte, grace func()) (*Shared, error) {
	if len(image) < int(l.ImageBytes()) || len(active) < 4 {
		return nil, fmt.Errorf("classify: the shared memory has %d and %d bytes, %d and 4 expected", len(image), len(active), l.ImageBytes())
	}
	words := l.bufferBytes / 4
	all := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(image))), 2*words)
	return &Shared{
		buffers: [2][]uint32{all[:words:words], all[words:]},
		active:  (*uint32)(unsafe.Pointer(unsafe.SliceData(active))),
		grace:   grace,
	}, nil
}

// Swap puts tables in force. Every packet is evaluated wholly by the old tables or wholly by the new:
// they go into the buffer that no packet is evaluated by, and then one store makes it the active one.
func (s *Shared) Swap(t *Tables) error {
	spare, err := s.Prepare(t)
	if err == nil {
		s.Activate(spare)
	}
	return err
}

// Prepare writes tables into the buffer that no packet is evaluated by, once every packet that may
// still read its former tables is through, and returns the buffer's number.
func (s *Shared) Prepare(t *Tables) (buffer uint32, err error) {
	spare := 1 - atomic.LoadUint32(s.active)&1
	if len(t.words) > len(s.buffers[spare]) {
		return 0, fmt.Errorf("classify: the tables take %d bytes, the buffers of the fast path have %d", 4*len(t.words), 4*len(s.buffers[spare]))
	}
	s.grace()
	copy(s.buffers[spare], t.words)
	return spare, nil
}

// Activate makes a prepared buffer the one that packets are evaluated by.
func (s *Shared) Activate(buffer uint32) { atomic.StoreUint32(s.active, buffer) }
