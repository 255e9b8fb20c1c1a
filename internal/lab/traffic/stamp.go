// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/binary"
	"time"
)

// StampBytes is how many bytes of every frame of the lab follow its UDP or TCP
// header at once: the sequence number with the stream's id in its first byte,
// the time of sending (ns, CLOCK_MONOTONIC) and a mark, all in network byte
// order. bpf/lab_stamp.h has the same.
const StampBytes = 18

// stampMark tells frames of the lab from others.
const stampMark = 0x4d4e

// PutStamp writes a stamp to the first StampBytes of b. sequence counts the
// frames of the stream from 0.
func PutStamp(b []byte, stream uint8, sequence uint64, sent time.Duration) {
	binary.BigEndian.PutUint64(b, uint64(stream)<<56|sequence&(1<<56-1))
	binary.BigEndian.PutUint64(b[8:], uint64(sent))
	binary.BigEndian.PutUint16(b[16:], stampMark)
}

// ReadStamp returns what PutStamp wrote; ok tells whether b begins with a stamp.
func ReadStamp(b []byte) (stream uint8, sequence uint64, sent time.Duration, ok bool) {
	if len(b) < StampBytes || binary.BigEndian.Uint16(b[16:]) != stampMark {
		return 0, 0, 0, false
	}
	first := binary.BigEndian.Uint64(b)
	return uint8(first >> 56), first & (1<<56 - 1), time.Duration(binary.BigEndian.Uint64(b[8:])), true
}
