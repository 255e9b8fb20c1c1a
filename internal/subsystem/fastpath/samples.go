// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
)

// Sample is the beginning of one packet that was dropped or left to the kernel.
type Sample struct {
	Time   time.Duration // CLOCK_MONOTONIC
	Port   int           // ifindex it arrived at
	Reason Reason
	Length int    // of the frame, bytes without FCS
	Frame  []byte // its first bytes, at most 128
}

const (
	sampleBurst    = 64                     // samples per refill
	sampleInterval = 100 * time.Millisecond // between refills
	sampleHeader   = 16                     // bytes of struct sample in front of the frame
	controlSamples = 2                      // word of struct control
)

// Samples calls each with dropped and punted packets until ctx ends: at most 640 a second, however
// many there are. Only while somebody listens does the program take samples. One listener at a time.
func (f *FastPath) Samples(ctx context.Context, each func(Sample)) error {
	reader, budget, err := f.openSamples()
	if err != nil {
		return err
	}
	defer reader.Close()
	defer budget(0)
	refill := time.NewTicker(sampleInterval)
	defer refill.Stop()
	done := make(chan struct{})
	defer close(done)
	budget(sampleBurst)
	go func() {
		for {
			select {
			case <-refill.C:
				budget(sampleBurst)
			case <-ctx.Done():
				reader.Flush() //nolint:errcheck // fails only on a closed reader
				return
			case <-done:
				return
			}
		}
	}()
	var record ringbuf.Record
	for {
		err := reader.ReadInto(&record)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, ringbuf.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("reading samples: %w", err)
		}
		if s, ok := decodeSample(record.RawSample); ok {
			each(s)
		}
	}
}

// openSamples opens the ring buffer. budget says how many samples the program may take from now on.
func (f *FastPath) openSamples() (reader *ringbuf.Reader, budget func(int64), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(); err != nil {
		return nil, nil, err
	}
	if reader, err = ringbuf.NewReader(f.prog.objects.Samples); err != nil {
		return nil, nil, fmt.Errorf("opening the samples: %w", err)
	}
	budget = func(n int64) {
		f.locked(func() { atomic.StoreInt64((*int64)(unsafe.Pointer(&f.prog.control[controlSamples])), n) })
	}
	return reader, budget, nil
}

func decodeSample(raw []byte) (Sample, bool) {
	if len(raw) < sampleHeader {
		return Sample{}, false
	}
	n := binary.NativeEndian
	s := Sample{
		Time:   time.Duration(n.Uint64(raw)),
		Port:   int(n.Uint32(raw[8:])),
		Reason: Reason(n.Uint16(raw[12:])),
		Length: int(n.Uint16(raw[14:])),
	}
	frame := raw[sampleHeader:]
	s.Frame = append([]byte(nil), frame[:min(len(frame), s.Length)]...)
	return s, true
}
