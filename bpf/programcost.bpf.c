// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Has another program see the same frame again and again in one test run: what that made of the beginning of the frame
// is undone before it is called. Its calls differ by what they do with the frame, and by nothing else.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define HEAD 64 // bytes of a frame that are written anew: all headers

// The frame as it comes in.
struct arrival {
	__u32 bytes;
	__u8 head[HEAD];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} measured SEC(".maps");

SEC("xdp")
int once_more(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct arrival *a = bpf_map_lookup_elem(&arrivals, &zero);
	long now = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	void *data;

	asm volatile("" : "+r"(now)); // a difference of pointers has 64 bits for the verifier
	if (!a || bpf_xdp_adjust_head(ctx, (int)now - (int)a->bytes))
		return XDP_ABORTED;
	data = (void *)(long)ctx->data;
	if (data + HEAD > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__builtin_memcpy(data, a->head, HEAD);
	bpf_tail_call(ctx, &measured, 0);
	return XDP_ABORTED;
}

char _license[] SEC("license") = "Dual BSD/GPL";
