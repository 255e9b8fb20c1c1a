// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The generator. User space has put the lap, a sequence of packets, into an
// array; generate walks through it again and again and writes each packet whole.
// Memory is read in sequence, whatever the order of addresses looks like to the
// router.
#pragma once

#define TCP_HEADER 20
#define KIND_IPV6 1
#define KIND_TCP 2

// One packet of the lap. Written by user space. An array for IPv4 alone ends
// after the first two addresses: 16 bytes a packet instead of 40.
struct packet {
	__be32 ports;  // source, destination
	__u16 bytes;   // length of the frame, without FCS
	__u8 stream;
	__u8 kind;     // KIND_…
	__be32 addresses[8]; // source, destination
};

#define PACKET4 16 // bytes of a packet of IPv4

// Set before loading: the lap's packets are whole (40 bytes), for IPv6 is among them.
const volatile __u8 wide = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct packet));
} lap SEC(".maps");

// begin_lap chooses what the packets of a further lap differ in from the first lap's.
static __always_inline void begin_lap(void)
{
	__u32 n = ++progress.lap, port, host;

	progress.at = 0;
	if (!order.fresh)
		return;
	if (order.scatter) {
		n *= 0x9e3779b1; // odd: different laps, different numbers
		n ^= n >> 15;
		port = n & ((1U << (order.port_bits & 15)) - 1);
		host = n >> 16;
	} else {
		port = (n & ((1U << (order.port_bits & 15)) - 1)) << (order.port_shift & 15);
		n >>= order.port_bits & 15;
		host = (n & ((1U << (order.host_bits & 31)) - 1)) << (order.host_shift & 15);
	}
	progress.port_flip = bpf_htons(port);
	progress.host_flip = bpf_htons(host);
}

// flip_first and flip_second change the first and the last two bytes of a word in network byte order.
static __always_inline __be32 flip_first(__be32 word, __u16 flip)
{
	__be16 *halves = (__be16 *)&word;

	halves[0] ^= flip;
	return word;
}

static __always_inline __be32 flip_last(__be32 word, __u16 flip)
{
	__be16 *halves = (__be16 *)&word;

	halves[1] ^= flip;
	return word;
}

// write_upper writes the transport header, the stamp and the filler of a packet.
// sum is that of the addresses; at is where in the frame the header begins.
static __always_inline int write_upper(struct xdp_md *ctx, void *header, void *end, const struct packet *p, __u64 sum,
				       __u64 sequence, __u64 now, const __u32 at, const int tcp)
{
	const __u32 start = at + (tcp ? TCP_HEADER : sizeof(struct udphdr)) + sizeof(struct stamp);
	struct stamp *stamp = header + (tcp ? TCP_HEADER : sizeof(struct udphdr));
	__u32 bytes = p->bytes, upper_bytes = bytes - at;
	__be32 *words = header, ports = p->ports;

	if ((void *)(stamp + 1) > end)
		return -1;
	if (order.fresh)
		ports = flip_first(ports, progress.port_flip);
	words[0] = ports;
	sum += ports + (__u64)bpf_htons(upper_bytes) + bpf_htons(tcp ? IPPROTO_TCP : IPPROTO_UDP);
	sum += put_stamp(stamp, sequence, now) + filler_from(start, bytes);
	if (tcp) { // a SYN (RFC 9293 3.1)
		words[1] = bpf_htonl((__u32)sequence);
		words[2] = 0;
		words[3] = bpf_htonl(0x5002ffff);
		words[4] = 0;
		sum += (__u64)words[1] + words[3];
		*(__u16 *)&words[4] = upper_checksum(sum);
	} else {
		words[1] = bpf_htonl(upper_bytes << 16);
		sum += words[1];
		if (at != sizeof(struct ethhdr) + sizeof(struct iphdr) || order.filled)
			((__u16 *)&words[1])[1] = upper_checksum(sum);
	}
	if (!order.filled || bytes <= start || bytes > MAX_FRAME)
		return 0;
	return bpf_xdp_store_bytes(ctx, start, (void *)&filler[start], bytes - start);
}

static __always_inline int write4(struct xdp_md *ctx, void *data, void *end, const struct packet *p, __u64 sequence, __u64 now)
{
	const __u32 at = sizeof(struct ethhdr) + sizeof(struct iphdr);
	__be32 *words = data + sizeof(struct ethhdr), source = p->addresses[0], to = p->addresses[1];
	int tcp = p->kind & KIND_TCP;
	__u64 addresses, sum;

	if (data + at > end)
		return -1;
	if (order.fresh)
		source = flip_last(source, progress.host_flip);
	words[0] = bpf_htonl(0x45000000 | (p->bytes - (__u32)sizeof(struct ethhdr)));
	words[1] = bpf_htonl(0x4000); // don't fragment
	words[2] = bpf_htonl((__u32)order.ttl << 24 | (tcp ? IPPROTO_TCP : IPPROTO_UDP) << 16);
	words[3] = source;
	words[4] = to;
	addresses = (__u64)source + to;
	sum = addresses + words[0] + words[1] + words[2];
	((__u16 *)&words[2])[1] = ~fold(sum);
	if (tcp)
		return write_upper(ctx, data + at, end, p, addresses, sequence, now, at, 1);
	return write_upper(ctx, data + at, end, p, addresses, sequence, now, at, 0);
}

static __always_inline int write6(struct xdp_md *ctx, void *data, void *end, const struct packet *p, __u64 sequence, __u64 now)
{
	const __u32 at = sizeof(struct ethhdr) + sizeof(struct ipv6hdr);
	__be32 *words = data + sizeof(struct ethhdr);
	int tcp = p->kind & KIND_TCP;
	__u64 addresses;

	if (data + at > end)
		return -1;
	words[0] = bpf_htonl(0x60000000);
	words[1] = bpf_htonl((p->bytes - at) << 16 | (tcp ? IPPROTO_TCP : IPPROTO_UDP) << 8 | order.ttl);
#pragma unroll
	for (int i = 0; i < 8; i++)
		words[2 + i] = p->addresses[i];
	if (order.fresh)
		words[5] = flip_last(words[5], progress.host_flip);
	addresses = sum32(words + 2, 8);
	if (tcp)
		return write_upper(ctx, data + at, end, p, addresses, sequence, now, at, 1);
	return write_upper(ctx, data + at, end, p, addresses, sequence, now, at, 0);
}

// resize gives the frame its length. All frames are born with the greatest.
static __always_inline int resize(struct xdp_md *ctx, __u32 bytes)
{
	__s32 now = ctx->data_end - ctx->data;

	return now == (__s32)bytes ? 0 : bpf_xdp_adjust_tail(ctx, (__s32)bytes - now);
}

// put_macs writes the Ethernet header but for its type.
static __always_inline void put_macs(__u8 *frame, const struct route *route)
{
	__builtin_memcpy(frame, route->macs, 12);
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 at = progress.at;
	struct packet *p = bpf_map_lookup_elem(&lap, &at);
	struct route *route;
	struct ethhdr *eth;
	void *data, *end;
	__u64 now;
	int ipv6;

	if (!p)
		return XDP_DROP;
	now = gate();
	if (!now || resize(ctx, p->bytes))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	eth = data;
	if ((void *)(eth + 1) > end)
		return XDP_DROP;
	route = &routes[p->stream];
	ipv6 = wide && p->kind & KIND_IPV6;
	put_macs(data, route);
	eth->h_proto = ipv6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	if (ipv6 ? write6(ctx, data, end, p, route->next, now) : write4(ctx, data, end, p, route->next, now))
		return XDP_DROP;
	route->next++;
	progress.frames++;
	if (++progress.at >= order.packets)
		begin_lap();
	return bpf_redirect(route->ifindex, 0);
}
