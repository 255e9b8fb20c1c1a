// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The sink: takes the lab's frames out of what arrives, checks and counts them.
// Everything else is counted as other and passed on, or taken as well when a
// replay is to be counted; but what only stations of one link say to each other
// (ARP, neighbour discovery, link-local multicast) is nobody's load and not counted.
//
// Counters are per CPU, for a port may have many queues: user space adds them up.
#pragma once

// What is expected of a stream. Written by user space. Host byte order unless noted.
struct expectation {
	__u16 slot;	// of arrivals; 0 is a stream that nobody expects
	__u16 latency;	// slot of latencies
	__u16 bytes;	// length of the frame without FCS; 0 is any
	__u8 ttl;
	__u8 checks;	// CHECK_…
	__u8 mac[6];	// network byte order, destination
	__u8 mac_mask[6];
	__u8 _pad[4];
};

#define CHECK_TIME 1	// latency and silence: costs a reading of the clock
#define CHECK_UPPER 2	// the transport checksum over the whole packet

// What came of a stream at one CPU.
struct arrival {
	__u64 received; // duplicates among them
	__u64 bytes;
	__u64 corrupted;
	__u64 bad_ttl;
	__u64 bad_header;
	__u64 bad_mac;
	__u64 bad_length;
	__u64 longest_silence; // ns, before an arrival at this CPU; 0 unless the stream is timed
	struct sequence sequence;
};

struct others {
	__u64 frames;
	__u64 bytes;
};

struct expectation expectations[ROUTES];
// When a stream's last frame came, at whichever CPU; 0 before the first. ns
__u64 last_seen[ROUTES];
__u32 take_others; // drop IP packets that are not the lab's, but for neighbour discovery

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct latencies);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, __u32); // ifindex
	__type(value, struct others);
} others SEC(".maps");

// What the headers of a frame say.
struct seen {
	struct stamp *stamp;
	void *upper;	   // the transport header
	__u64 pseudo;	   // sum of the pseudo header
	__u16 checksum;    // of the transport header
	__u8 ttl;
	__u8 header_wrong; // version, header checksum, or lengths
	__u8 discovery;	   // neighbour or router discovery
	__u8 local;	   // to stations of this link alone
};

// read_upper reads the header at s->upper, of a message whose length the IP header gives.
static __always_inline int read_upper(struct seen *s, void *end, __u8 protocol, __u32 length)
{
	s->pseudo += bpf_htons(length) + bpf_htons(protocol);
	if (s->upper + length != end)
		s->header_wrong = 1;
	if (protocol == IPPROTO_UDP) {
		struct udphdr *udp = s->upper;

		s->stamp = (void *)(udp + 1);
		if ((void *)(s->stamp + 1) > end)
			return -1;
		s->checksum = udp->check;
		if (udp->len != bpf_htons(length))
			s->header_wrong = 1;
	} else if (protocol == IPPROTO_TCP) {
		s->stamp = s->upper + TCP_HEADER;
		if ((void *)(s->stamp + 1) > end)
			return -1;
		s->checksum = *(__u16 *)(s->upper + 16);
	} else {
		return -1;
	}
	return s->stamp->mark == bpf_htons(MARK) ? 0 : -1;
}

static __always_inline int read4(struct seen *s, void *data, void *end)
{
	struct iphdr *ip = data + sizeof(struct ethhdr);
	__u64 sum;

	if ((void *)(ip + 1) > end || ip->ihl != 5)
		return -1;
	sum = sum32(ip, 5);
	s->header_wrong = ip->version != 4 || fold(sum) != 0xffff;
	s->ttl = ip->ttl;
	s->pseudo = (__u64)ip->saddr + ip->daddr;
	s->local = bpf_ntohl(ip->daddr) >> 8 == 0xe00000; // 224.0.0.0/24 (RFC 5771 4)
	s->upper = ip + 1;
	return read_upper(s, end, ip->protocol, bpf_ntohs(ip->tot_len) - (__u32)sizeof(*ip));
}

static __always_inline int read6(struct seen *s, void *data, void *end)
{
	struct ipv6hdr *ip = data + sizeof(struct ethhdr);

	if ((void *)(ip + 1) > end)
		return -1;
	s->header_wrong = ip->version != 6;
	s->ttl = ip->hop_limit;
	s->pseudo = sum32(&ip->saddr, 8);
	s->local = ip->daddr.s6_addr[0] == 0xff && (ip->daddr.s6_addr[1] & 15) == 2; // RFC 4291 2.7
	s->upper = ip + 1;
	if (ip->nexthdr == IPPROTO_ICMPV6) {
		__u8 *type = s->upper;

		s->discovery = (void *)(type + 1) <= end && *type >= 133 && *type <= 137; // RFC 4861 4
		s->local |= s->discovery;
		return -1;
	}
	return read_upper(s, end, ip->nexthdr, bpf_ntohs(ip->payload_len));
}

static __always_inline int other_mac(const struct ethhdr *eth, const struct expectation *e)
{
	const __u16 *got = (__u16 *)eth->h_dest, *want = (__u16 *)e->mac, *mask = (__u16 *)e->mac_mask;

	return ((got[0] ^ want[0]) & mask[0]) | ((got[1] ^ want[1]) & mask[1]) | ((got[2] ^ want[2]) & mask[2]);
}

#define SOON 1000 // ns

// clock_in enters latency and silence. CPUs share the time of the last arrival; to spare
// them the fight for it, one that came less than SOON before stands for the next ones too.
static __always_inline void clock_in(struct arrival *a, __u32 slot, __u8 stream, const struct stamp *stamp)
{
	__u64 now = bpf_ktime_get_ns(), sent = (__u64)bpf_ntohl(stamp->sent[0]) << 32 | bpf_ntohl(stamp->sent[1]);
	struct latencies *l = bpf_map_lookup_elem(&latencies, &slot);
	__u64 before = last_seen[stream];

	if (l)
		l->counts[bucket_of(now > sent ? now - sent : 0) & (BUCKETS - 1)]++;
	if (now < before + SOON)
		return;
	if (before && now - before > a->longest_silence)
		a->longest_silence = now - before;
	last_seen[stream] = now;
}

// damaged tells whether the transport checksum is wrong or missing.
static __always_inline int damaged(struct xdp_md *ctx, const struct seen *s, __u32 at)
{
	return !s->checksum || fold(s->pseudo + (__u32)sum_packet(ctx, at)) != 0xffff;
}

// pass_other lets a frame go that is not the lab's, or takes it where others are taken too.
static __always_inline int pass_other(int take)
{
	return take && take_others ? XDP_DROP : XDP_PASS;
}

static __always_inline int count_other(struct xdp_md *ctx, int take)
{
	__u32 port = ctx->ingress_ifindex;
	struct others *o = bpf_map_lookup_elem(&others, &port);

	if (o) {
		o->frames++;
		o->bytes += ctx->data_end - ctx->data;
	} else {
		struct others first = {1, ctx->data_end - ctx->data};

		bpf_map_update_elem(&others, &port, &first, BPF_ANY);
	}
	return pass_other(take);
}

SEC("xdp")
int sink(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct seen s = {};
	struct ethhdr *eth = data;
	struct expectation *e;
	struct arrival *a;
	__u64 number;
	__u32 slot;

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		if (read4(&s, data, end))
			return s.local ? pass_other(1) : count_other(ctx, 1);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		if (read6(&s, data, end))
			return s.local ? pass_other(!s.discovery) : count_other(ctx, 1);
	} else {
		return eth->h_proto == bpf_htons(ETH_P_ARP) ? XDP_PASS : count_other(ctx, 0);
	}
	number = (__u64)bpf_ntohl(s.stamp->sequence[0]) << 32 | bpf_ntohl(s.stamp->sequence[1]);
	e = &expectations[number >> STREAM_SHIFT];
	slot = e->slot;
	if (!slot)
		return count_other(ctx, 1);
	slot--;
	a = bpf_map_lookup_elem(&arrivals, &slot);
	if (!a)
		return XDP_PASS;
	a->received++;
	a->bad_ttl += s.ttl != e->ttl;
	a->bad_header += s.header_wrong;
	a->bad_length += e->bytes && end - data != e->bytes;
	a->bad_mac += other_mac(eth, e) != 0;
	if (e->checks & CHECK_UPPER && !s.header_wrong)
		a->corrupted += damaged(ctx, &s, s.upper - data);
	if (e->checks & CHECK_TIME)
		clock_in(a, e->latency, number >> STREAM_SHIFT, s.stamp);
	if (file(&a->sequence, number & ((1ULL << STREAM_SHIFT) - 1)))
		a->bytes += end - data;
	return XDP_DROP;
}
