// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Frames that are larger than a driver's buffer come in several (multi-buffer XDP, Linux 5.18): data to data_end is
// the first of them, which has all headers. Only builds for ports with a large MTU are loaded so that they get such frames.
#ifndef MINNE_JUMBO_H
#define MINNE_JUMBO_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 jumbo_build = 0;

// Bytes of a frame behind its first buffer. Asked only where a frame seems to be too short, so small frames cost nothing.
static __noinline __u32 bytes_beyond(struct xdp_md *ctx)
{
	long first = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	asm volatile("" : "+r"(first)); // a difference of pointers has 64 bits for the verifier
	return bpf_xdp_get_buff_len(ctx) - first;
}

#endif
