// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What follows the UDP or TCP header of every frame of the lab: 18 bytes, so that
// a UDP packet of IPv4 with nothing else has the least length of Ethernet (60
// bytes without FCS). internal/lab/traffic/stamp.go has the same.
//
// What follows the stamp is the filler: bytes that depend on nothing but their
// place in the frame, counted from its first byte. So a page that comes back from
// a shorter or a longer frame of the same headers still holds the right ones.
#pragma once

#define MARK 0x4d4e
#define STREAM_SHIFT 56 // the stream's id is the first byte of the sequence number
#define MAX_FRAME 1514	// without FCS

// Network byte order. The fields are multiples of 4 bytes from the start of the
// IP header; the first of them is as good as aligned to 8 for no processor.
struct stamp {
	__be32 sequence[2];
	__be32 sent[2]; // ns, CLOCK_MONOTONIC
	__be16 mark;
} __attribute__((packed, aligned(2)));

// The filler and, for every length, the sum of a frame's first bytes if all of
// them were filler. Written before the program is loaded.
const volatile __u8 filler[MAX_FRAME + 22];
const volatile __u16 filler_sum[MAX_FRAME + 22];

// put_stamp writes a stamp and returns its sum.
static __always_inline __u64 put_stamp(struct stamp *stamp, __u64 sequence, __u64 now)
{
	__be32 *words = (__be32 *)stamp;
	__u64 sum;

	words[0] = bpf_htonl(sequence >> 32);
	words[1] = bpf_htonl((__u32)sequence);
	words[2] = bpf_htonl(now >> 32);
	words[3] = bpf_htonl((__u32)now);
	sum = (__u64)words[0] + words[1] + words[2] + words[3];
	stamp->mark = bpf_htons(MARK);
	return sum + bpf_htons(MARK);
}

// filler_from is the sum of the filler of a frame of that length, which begins at start.
static __always_inline __u64 filler_from(__u32 start, __u32 bytes)
{
	if (bytes > MAX_FRAME)
		return 0;
	return (__u64)filler_sum[bytes] + (__u16)~filler_sum[start];
}
