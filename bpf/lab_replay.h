// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The player: sends recorded frames with the MACs of their stream's route, at a
// rate or at the times at which they were recorded. It changes nothing else.
#pragma once

// A recorded frame. Written by user space.
struct slot {
	__u64 at;    // ns since the first frame
	__u16 bytes; // without FCS
	__u8 stream;
	__u8 _pad[5];
	__u8 frame[MAX_FRAME + 6];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

SEC("xdp")
int replay(struct xdp_md *ctx)
{
	__u32 at = progress.at;
	struct slot *slot = bpf_map_lookup_elem(&slots, &at);
	struct route *route;
	void *data;
	__u64 bytes;

	if (!slot)
		return XDP_DROP;
	if (order.own)
		progress.due = (progress.lap * order.period + slot->at) << FRACTION;
	if (!gate())
		return XDP_DROP;
	bytes = slot->bytes;
	if (resize(ctx, bytes) || bytes < sizeof(struct ethhdr))
		return XDP_DROP;
	asm volatile("" : "+r"(bytes)); // two bounds in one comparison would be lost on the verifier
	if (bytes > MAX_FRAME || bpf_xdp_store_bytes(ctx, 0, slot->frame, bytes))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	if (data + sizeof(struct ethhdr) > (void *)(long)ctx->data_end)
		return XDP_DROP;
	route = &routes[slot->stream];
	put_macs(data, route);
	route->next++;
	progress.frames++;
	if (++progress.at >= order.packets)
		begin_lap();
	return bpf_redirect(route->ifindex, 0);
}
