// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
)

// Flows that user space makes and confirms: those of ICMP echo and of protocols without ports, about which the
// program can't ask conntrack (bpf/followed.h).

// newBytes is struct flow_new of bpf/flow_write.h.
const newBytes = 88

// Made is what bpf/flowenter.bpf.c returns for a flow that was made.
const Made = 0

// NewFlow is what bpf/flowenter.bpf.c makes a flow of: the keys of both directions, as their packets come in. now is Now.
func NewFlow(keys [2]Key, now uint16) []byte {
	b := make([]byte, 0, newBytes)
	for _, k := range keys {
		for _, w := range k.raw() {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
	}
	b = binary.NativeEndian.AppendUint16(b, now)
	flags := uint8(Translated)
	if plain := keys[0].Reply(0); plain.Source == keys[1].Source && plain.Destination == keys[1].Destination &&
		plain.SourcePort == keys[1].SourcePort && plain.DestinationPort == keys[1].DestinationPort {
		flags = 0
	}
	egress := uint16(0)
	if keys[1].Destination != keys[0].Source {
		egress = unseenEgress // perhaps masqueraded, which conntrack does not tell over netlink
	}
	b = append(b, flags, 0)
	return binary.NativeEndian.AppendUint16(b, egress)[:newBytes]
}

// KeyOf reads struct flow_key, which the program has written.
func KeyOf(b []byte) (Key, error) {
	var r rawKey
	if len(b) < 8*len(r) {
		return Key{}, errors.New("a flow's key that ends too early")
	}
	for i := range r {
		r[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return r.key(), nil
}

// Enter calls make, which makes a flow in the program, if the generation is still this one, and confirms the flow. So
// what was asked about before a commit does not become a flow after it. Other goroutines may use the table meanwhile.
func (t *Table) Enter(generation uint16, key Key, now uint16, make func() error) error {
	t.entering.Lock()
	defer t.entering.Unlock()
	if t.Generation() != generation {
		return nil
	}
	if err := make(); err != nil {
		return err
	}
	t.Confirm(key, now)
	return nil
}

// Confirm says of a flow, known by the key of either direction, that its connection exists. now is Now. false: there is no
// such flow of the generation in force. Other goroutines may use the table meanwhile.
func (t *Table) Confirm(key Key, now uint16) bool {
	n := t.sideOf(key.raw())
	if n == 0 || lifeOf(atomic.LoadUint64(&t.sides[n].life)).generation != t.Generation() {
		return false
	}
	t.sides[n&^1].confirm(now)
	t.sides[n|1].confirm(now)
	return true
}

// EndKey ends the flow that has a key. Other goroutines may use the table meanwhile.
func (t *Table) EndKey(key Key) bool {
	n := t.sideOf(key.raw())
	return n != 0 && t.remove(n>>1)
}

// sideOf is flow_find: the number of the side with a key, 0 when there is none.
func (t *Table) sideOf(key rawKey) uint32 {
	hash := t.control.secret.hash(&key)
	for probe := range probes {
		b := t.bucketAt(hash, probe)
		for i := range b.number {
			n := atomic.LoadUint32(&b.number[i])
			if n == 0 || int(n) >= len(t.sides) {
				continue
			}
			if s := &t.sides[n]; lifeOf(atomic.LoadUint64(&s.life)).complete() && s.readKey() == key {
				return n
			}
		}
	}
	return 0
}

// confirm writes the mark. A packet may write seen meanwhile, in the same word.
func (s *side) confirm(now uint16) {
	for {
		old := atomic.LoadUint64(&s.life)
		var b [8]byte
		binary.NativeEndian.PutUint64(b[:], old)
		binary.NativeEndian.PutUint16(b[6:], now)
		if atomic.CompareAndSwapUint64(&s.life, old, binary.NativeEndian.Uint64(b[:])) {
			return
		}
	}
}
