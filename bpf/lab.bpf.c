// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The lab's packet generator and sink.
//
// generate runs as XDP live frames (BPF_PROG_TEST_RUN with
// BPF_F_TEST_XDP_LIVE_FRAMES): the kernel hands it a frame from a page pool, the
// program writes a fresh packet into it and redirects it out of a port. Pages
// come back from the pool with whatever the router did to them, so every frame
// is written whole: MACs, TTL, checksums, sequence number, time stamp.
//
// sink runs as ordinary XDP on the port where the packets should arrive. It
// checks what a router must not get wrong (TTL less one per hop, header
// checksum, the egress port's MACs, the payload untouched) and counts received,
// lost, late and repeated packets per stream by sequence number.
//
// One generator writes one stream at a time, and a sink's port has one receive
// queue: no counter here has two writers, so none is atomic.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define STREAMS 64           // ids of streams: 0…63
#define DESTINATIONS (1 << 20)
#define WINDOW 1024          // sequence numbers in which a repeated packet is recognised
#define STAMP_EVERY 64       // frames between two readings of the clock in an unpaced stream
#define MARK 0x4d00          // first byte of the payload; the second is the stream id
#define FIRST_PORT 40000     // source port of flow 0
#define SINK_PORT 9          // discard (RFC 863)

// What follows the UDP header: 18 bytes, so that an IPv4 frame has the least
// length of Ethernet (60 bytes without FCS). Network byte order.
struct payload {
	__be16 mark;     // MARK | stream
	__be64 sequence; // from 0
	__be64 sent;     // ns, CLOCK_MONOTONIC
} __attribute__((packed));

// The order that user space gives to generate. Host byte order unless noted.
struct order {
	__u32 ifindex;      // port to send from
	__u32 stream;
	__u32 destinations; // entries used of destinations4 or destinations6
	__u32 offset;       // where in the destinations to begin
	__u32 flow_mask;    // source port is FIRST_PORT + (sequence & flow_mask)
	__u8 source[16];    // network byte order; IPv4 in the first four
	__u8 dst_mac[6];    // the router's port
	__u8 src_mac[6];
	__u8 ttl;
	__u8 ipv6;
	__u16 frame_bytes;  // without FCS
	__u32 _pad;
	__u64 interval;     // ns between two frames; 0 is as fast as it goes
	__u64 burst;        // ns of unused time that may be caught up
	__u64 gap;          // ns: STAMP_EVERY unpaced frames that took longer were interrupted; 0 counts all
	__u64 frames;       // stop after so many
};

// What generate did. Written by the program, read by user space afterwards.
struct progress {
	__u64 sequence; // next one
	__u64 next;     // ns: earliest time of the next paced frame
	__u64 stamp;    // ns: last reading of the clock
	__u64 first;    // ns: first frame
	__u64 last;     // ns: last reading
	__u64 clean_frames; // frames and time outside gaps
	__u64 clean_ns;
	__u64 gaps;
	__u64 gap_ns;
};

// Counters of one stream at a sink.
struct arrival {
	__u64 received;
	__u64 bytes;
	__u64 highest;  // highest sequence number seen + 1
	__u64 late;     // arrived after a later one
	__u64 repeated; // seen before
	__u64 bad_ttl;
	__u64 bad_checksum;
	__u64 bad_mac;
	__u64 bad_length;
	__u64 latency_sum; // ns, of stamped packets
	__u64 latency_max;
	__u64 last_seen; // ns; 0 unless the stream is timed
	__u64 longest_silence; // ns
	__u64 seen[WINDOW / 64];
};

// What a sink expects of a stream. Host byte order.
struct expectation {
	__u8 ttl;         // on arrival
	__u8 timed;       // measure latency and silence: costs a reading of the clock
	__u16 frame_bytes;
	__u8 mac[6];      // destination MAC; compared when check_mac is set
	__u8 check_mac;   // number of leading bytes that must agree
	__u8 _pad[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct order);
} orders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progress SEC(".maps");

// Walked in order: user space shuffles them, so that the walk is random to the
// router while the generator itself reads memory in sequence.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DESTINATIONS);
	__type(key, __u32);
	__type(value, __be32[2]); // IPv4 in the first; 8 bytes are the least of a mapped element
} destinations4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, DESTINATIONS);
	__type(key, __u32);
	__type(value, struct in6_addr);
} destinations6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STREAMS);
	__type(key, __u32);
	__type(value, struct expectation);
} expectations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STREAMS);
	__type(key, __u32);
	__type(value, struct arrival);
} arrivals SEC(".maps");

static __always_inline __u64 sum16(const void *bytes, int n)
{
	const __u16 *words = bytes;
	__u64 sum = 0;

#pragma unroll
	for (int i = 0; i < n / 2; i++)
		sum += words[i];
	return sum;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

// Time of the frame about to be sent, or 0 when it is too early for it (paced).
static __always_inline __u64 pace(const struct order *o, struct progress *p)
{
	__u64 now = bpf_ktime_get_ns();

	if (now < p->next)
		return 0;
	if (p->next + o->burst < now) // idle or interrupted: give up what is beyond the burst
		p->next = now - o->burst;
	p->next += o->interval;
	p->stamp = now;
	p->last = now;
	if (!p->first)
		p->first = now;
	return now;
}

// Time of an unpaced frame: the clock is read for every STAMP_EVERY-th only,
// and the frames of a stretch during which the core was taken away are put aside.
static __always_inline __u64 stamp(const struct order *o, struct progress *p)
{
	__u64 now, took;

	if (p->sequence % STAMP_EVERY)
		return p->stamp;
	now = bpf_ktime_get_ns();
	took = now - p->stamp;
	if (!p->first) {
		p->first = now;
	} else if (o->gap && took > o->gap) {
		p->gaps++;
		p->gap_ns += took;
	} else {
		p->clean_frames += STAMP_EVERY;
		p->clean_ns += took;
	}
	p->stamp = now;
	p->last = now;
	return now;
}

static __always_inline void write_udp(struct udphdr *udp, struct payload *load, const struct order *o,
				      __u64 sequence, __u64 now, __u16 udp_bytes)
{
	udp->source = bpf_htons(FIRST_PORT + (sequence & o->flow_mask));
	udp->dest = bpf_htons(SINK_PORT);
	udp->len = bpf_htons(udp_bytes);
	udp->check = 0;
	load->mark = bpf_htons(MARK | (o->stream & (STREAMS - 1)));
	load->sequence = bpf_cpu_to_be64(sequence);
	load->sent = bpf_cpu_to_be64(now);
}

static __always_inline int write4(void *data, void *end, const struct order *o, struct progress *p, __u64 now)
{
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct udphdr *udp = (void *)(ip + 1);
	struct payload *load = (void *)(udp + 1);
	__u32 at = (p->sequence + o->offset) % o->destinations;
	__be32 *to = bpf_map_lookup_elem(&destinations4, &at);

	if ((void *)(load + 1) > end || !to)
		return -1;
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = 0;
	ip->tot_len = bpf_htons(o->frame_bytes - sizeof(struct ethhdr));
	ip->id = 0;
	ip->frag_off = bpf_htons(0x4000); // don't fragment
	ip->ttl = o->ttl;
	ip->protocol = IPPROTO_UDP;
	ip->check = 0;
	__builtin_memcpy(&ip->saddr, o->source, 4);
	ip->daddr = *to;
	ip->check = ~fold(sum16(ip, sizeof(*ip)));
	write_udp(udp, load, o, p->sequence, now, o->frame_bytes - sizeof(struct ethhdr) - sizeof(*ip));
	return 0;
}

static __always_inline int write6(void *data, void *end, const struct order *o, struct progress *p, __u64 now)
{
	struct ipv6hdr *ip = data + sizeof(struct ethhdr);
	struct udphdr *udp = (void *)(ip + 1);
	struct payload *load = (void *)(udp + 1);
	__u32 at = (p->sequence + o->offset) % o->destinations;
	struct in6_addr *to = bpf_map_lookup_elem(&destinations6, &at);
	__u16 udp_bytes = o->frame_bytes - sizeof(struct ethhdr) - sizeof(*ip);
	__u64 sum;

	if ((void *)(load + 1) > end || !to)
		return -1;
	ip->version = 6;
	ip->priority = 0;
	__builtin_memset(ip->flow_lbl, 0, sizeof(ip->flow_lbl));
	ip->payload_len = bpf_htons(udp_bytes);
	ip->nexthdr = IPPROTO_UDP;
	ip->hop_limit = o->ttl;
	__builtin_memcpy(&ip->saddr, o->source, 16);
	ip->daddr = *to;
	write_udp(udp, load, o, p->sequence, now, udp_bytes);
	// RFC 8200 8.1: UDP over IPv6 has a checksum. What follows the stamp is zero.
	sum = sum16(&ip->saddr, 32) + sum16(udp, sizeof(*udp)) + sum16(load, sizeof(*load)) +
	      bpf_htons(udp_bytes) + bpf_htons(IPPROTO_UDP);
	udp->check = ~fold(sum);
	if (!udp->check)
		udp->check = 0xffff;
	return 0;
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct order *o = bpf_map_lookup_elem(&orders, &zero);
	struct progress *p = bpf_map_lookup_elem(&progress, &zero);
	struct ethhdr *eth = data;
	__u64 now;

	if (!o || !p || (void *)(eth + 1) > end || !o->destinations || p->sequence >= o->frames)
		return XDP_DROP;
	now = o->interval ? pace(o, p) : stamp(o, p);
	if (!now)
		return XDP_DROP;
	__builtin_memcpy(eth->h_dest, o->dst_mac, 6);
	__builtin_memcpy(eth->h_source, o->src_mac, 6);
	eth->h_proto = o->ipv6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	if (o->ipv6 ? write6(data, end, o, p, now) : write4(data, end, o, p, now))
		return XDP_DROP;
	p->sequence++;
	return bpf_redirect(o->ifindex, 0);
}

// Files a sequence number: in order, late, or seen before.
static __always_inline void file(struct arrival *a, __u64 sequence)
{
	__u64 bit = 1ULL << (sequence % 64);
	__u32 word = (sequence / 64) % (WINDOW / 64);

	if (sequence >= a->highest) {
		__u64 old = (a->highest + 63) / 64, new = sequence / 64; // words to clear: old…new

		for (int i = 0; i < WINDOW / 64 && old <= new; i++, old++)
			a->seen[old % (WINDOW / 64)] = 0;
		a->highest = sequence + 1;
	} else {
		if (sequence + WINDOW - 64 >= a->highest && (a->seen[word] & bit)) {
			a->repeated++;
			return;
		}
		a->late++;
	}
	a->seen[word] |= bit;
}

static __always_inline void clock_in(struct arrival *a, const struct payload *load)
{
	__u64 now = bpf_ktime_get_ns(), latency = now - bpf_be64_to_cpu(load->sent);

	a->latency_sum += latency;
	if (latency > a->latency_max)
		a->latency_max = latency;
	if (a->last_seen && now - a->last_seen > a->longest_silence)
		a->longest_silence = now - a->last_seen;
	a->last_seen = now;
}

static __always_inline int other_mac(const __u8 *got, const struct expectation *e)
{
	int wrong = 0;

#pragma unroll
	for (int i = 0; i < 6; i++)
		wrong |= i < e->check_mac && got[i] != e->mac[i];
	return wrong;
}

SEC("xdp")
int sink(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct udphdr *udp;
	struct payload *load;
	struct arrival *a;
	struct expectation *e;
	__u32 stream;
	__u16 checksum = 0xffff;
	__u8 ttl;

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
			return XDP_PASS;
		checksum = fold(sum16(ip, sizeof(*ip)));
		ttl = ip->ttl;
		udp = (void *)(ip + 1);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return XDP_PASS;
		ttl = ip->hop_limit;
		udp = (void *)(ip + 1);
	} else {
		return XDP_PASS;
	}
	load = (void *)(udp + 1);
	if ((void *)(load + 1) > end || (load->mark & bpf_htons(0xff00)) != bpf_htons(MARK))
		return XDP_PASS;
	stream = bpf_ntohs(load->mark) & (STREAMS - 1);
	a = bpf_map_lookup_elem(&arrivals, &stream);
	e = bpf_map_lookup_elem(&expectations, &stream);
	if (!a || !e)
		return XDP_PASS;
	a->received++;
	a->bytes += end - data;
	a->bad_ttl += ttl != e->ttl;
	a->bad_checksum += checksum != 0xffff;
	a->bad_length += end - data != e->frame_bytes;
	a->bad_mac += other_mac(eth->h_dest, e);
	if (e->timed)
		clock_in(a, load);
	file(a, bpf_be64_to_cpu(load->sequence));
	return XDP_DROP;
}

// A port that receives redirected frames needs an XDP program (or GRO): this one lets all pass.
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
