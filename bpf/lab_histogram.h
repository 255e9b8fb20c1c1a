// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Latencies in logarithmic ranges that are divided linearly, the same as in
// internal/lab/histogram: below 128 ns a bucket each, above 64 buckets for every
// power of two, up to 2^37 ns.
#pragma once

#define BUCKETS 2048
#define LINEAR 128
#define FIRST_POWER 7
#define STEP_BITS 6
#define LAST_POWER 36

// One per timed stream and CPU. Written by the sink, read by user space.
struct latencies {
	__u64 counts[BUCKETS];
};

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 power = 0;
	__u64 rest = ns;

	if (ns < LINEAR)
		return ns;
	if (ns >> (LAST_POWER + 1))
		return BUCKETS - 1;
	if (rest >> 32) {
		power += 32;
		rest >>= 32;
	}
	if (rest >> 16) {
		power += 16;
		rest >>= 16;
	}
	if (rest >> 8) {
		power += 8;
		rest >>= 8;
	}
	if (rest >> 4) {
		power += 4;
		rest >>= 4;
	}
	if (rest >> 2) {
		power += 2;
		rest >>= 2;
	}
	power += rest >> 1;
	return LINEAR + ((power - FIRST_POWER) << STEP_BITS) +
	       ((__u32)(ns >> ((power - STEP_BITS) & 63)) & ((1 << STEP_BITS) - 1));
}

// How user space asks this file for a bucket, to compare it with its own.
struct bucket_question {
	__u64 ns;
	__u64 bucket;
};

SEC("syscall")
int ask_bucket(struct bucket_question *q)
{
	q->bucket = bucket_of(q->ns);
	return 0;
}
