// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the kernel's conntrack says of a connection, asked through its kfuncs.
//
// The build without CONNTRACK is for kernels that have no BTF or whose conntrack has
// no such functions: it knows of nothing, so every packet of a connection is the kernel's.
#ifndef MINNE_CONNTRACK_H
#define MINNE_CONNTRACK_H

#include <bpf/bpf_core_read.h>

#include "flow_write.h"
#include "transport.h"

#ifdef CONNTRACK

// The members of the kernel's structures that are read; CO-RE finds where they are.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

union nf_inet_addr {
	__u32 all[4];
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
	union {
		__be16 all;
	} u;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
	struct {
		union nf_inet_addr u3;
		union {
			__be16 all;
		} u;
	} dst;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct ip_ct_tcp {
	__u8 state;
};

union nf_conntrack_proto {
	struct ip_ct_tcp tcp;
};

// What is attached to a connection: offset has where each kind of extension begins in it, 0 for none.
struct nf_ct_ext {
	__u8 offset[1];
};

struct nf_conn_nat {
	int masq_index; // ifindex that it was masqueraded on, 0 for other translations
};

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2];
	unsigned long status;
	struct nf_ct_ext *ext;
	union nf_conntrack_proto proto;
};

#pragma clang attribute pop

enum nf_ct_ext_id {
	NF_CT_EXT_HELPER,
	NF_CT_EXT_NAT,
};

// struct bpf_ct_opts, of which kernels before 6.11 know three words only, and no zones.
struct bpf_ct_opts___zoned {
	__s32 netns_id;
	__s32 error;
	__u8 l4proto;
	__u8 dir;
	__u16 ct_zone_id;
	__u8 ct_zone_dir; // 0 for both
	__u8 reserved[3];
};

#define UNZONED_SIZE 12
#define ENOENT 2

extern struct nf_conn *bpf_xdp_ct_lookup(struct xdp_md *ctx, struct bpf_sock_tuple *tuple, __u32 tuple__sz,
					 struct bpf_ct_opts___zoned *opts, __u32 opts__sz) __ksym;
extern void bpf_ct_release(struct nf_conn *ct) __ksym;
extern int bpf_ct_change_timeout(struct nf_conn *ct, __u32 timeout) __ksym;

#define IPS_SEEN_REPLY (1 << 1) // enum ip_conntrack_status
#define IPS_ASSURED (1 << 2)
#define IPS_SEQ_ADJUST (1 << 6)
#define IPS_DYING (1 << 9)
#define IPS_HELPER (1 << 13)

#define IPS_SRC_NAT (1 << 4)
#define IPS_NAT (3 << 4) // source, destination

#define TCP_CONNTRACK_ESTABLISHED 3

// The connection of a key, in the key's zone. Where there is none, error, which may be NULL, says why: ENOENT, or the kernel
// can't say.
static __noinline struct nf_conn *conntrack_find(struct xdp_md *ctx, const struct flow_key *key, __s32 *error)
{
	struct bpf_ct_opts___zoned opts = { .netns_id = -1, .l4proto = key->rest >> 48 & 0xff, .ct_zone_id = key->rest >> 32 };
	__u32 size = opts.ct_zone_id ? sizeof(opts) : UNZONED_SIZE;
	struct bpf_sock_tuple t = {};
	struct nf_conn *ct;

	if (key->rest >> 56 == 4) {
		t.ipv4.saddr = key->src[1];
		t.ipv4.daddr = key->dst[1];
		t.ipv4.sport = key->rest;
		t.ipv4.dport = key->rest >> 16;
		ct = bpf_xdp_ct_lookup(ctx, &t, sizeof(t.ipv4), &opts, size);
	} else {
		__builtin_memcpy(t.ipv6.saddr, key->src, sizeof(t.ipv6.saddr));
		__builtin_memcpy(t.ipv6.daddr, key->dst, sizeof(t.ipv6.daddr));
		t.ipv6.sport = key->rest;
		t.ipv6.dport = key->rest >> 16;
		ct = bpf_xdp_ct_lookup(ctx, &t, sizeof(t.ipv6), &opts, size);
	}
	if (error)
		*error = opts.error;
	return ct;
}

// Whether packets of the connection may pass beside conntrack: those of both directions were seen,
// and nothing but addresses and ports is changed in them.
static __always_inline int is_ready(struct nf_conn *ct, __u32 protocol)
{
	unsigned long status = ct->status;

	if ((status & (IPS_SEEN_REPLY | IPS_ASSURED)) != (IPS_SEEN_REPLY | IPS_ASSURED) ||
	    status & (IPS_SEQ_ADJUST | IPS_DYING | IPS_HELPER))
		return 0;
	return protocol != IPPROTO_TCP || ct->proto.tcp.state == TCP_CONNTRACK_ESTABLISHED;
}

#define READ_SIDE(key, ct, side, family, protocol, zone)                                        \
	do {                                                                                    \
		__u32 *src_ = (__u32 *)(key).src, *dst_ = (__u32 *)(key).dst;                   \
		if ((family) == 4) {                                                            \
			(key).src[0] = (key).dst[0] = 0;                                        \
			(key).src[1] = (ct)->tuplehash[side].tuple.src.u3.all[0];               \
			(key).dst[1] = (ct)->tuplehash[side].tuple.dst.u3.all[0];               \
		} else {                                                                        \
			src_[0] = (ct)->tuplehash[side].tuple.src.u3.all[0];                    \
			src_[1] = (ct)->tuplehash[side].tuple.src.u3.all[1];                    \
			src_[2] = (ct)->tuplehash[side].tuple.src.u3.all[2];                    \
			src_[3] = (ct)->tuplehash[side].tuple.src.u3.all[3];                    \
			dst_[0] = (ct)->tuplehash[side].tuple.dst.u3.all[0];                    \
			dst_[1] = (ct)->tuplehash[side].tuple.dst.u3.all[1];                    \
			dst_[2] = (ct)->tuplehash[side].tuple.dst.u3.all[2];                    \
			dst_[3] = (ct)->tuplehash[side].tuple.dst.u3.all[3];                    \
		}                                                                               \
		(key).rest = FLOW_REST((ct)->tuplehash[side].tuple.src.u.all,                   \
				       (ct)->tuplehash[side].tuple.dst.u.all, zone, protocol, family); \
	} while (0)

// The interface that a masqueraded connection began on. The kernel ends such a connection when a packet of who opened
// it leaves by another (nf_nat_oif_changed), so the fast path carries none by another. A kernel that does not tell how it
// remembers the interface has to see a packet leave by each (settle).
static __noinline __u32 masqueraded_on(struct nf_conn *ct)
{
	__u32 index = 0;
	__u8 at = 0;
	void *ext;

	if (!bpf_core_field_exists(struct nf_conn_nat, masq_index) || !bpf_core_field_exists(struct nf_ct_ext, offset))
		return ct->status & IPS_SRC_NAT ? FLOW_UNSEEN_EGRESS : FLOW_ANY_EGRESS;
	ext = ct->ext;
	if (!ext)
		return FLOW_ANY_EGRESS;
	bpf_probe_read_kernel(&at, sizeof(at), ext + bpf_core_field_offset(struct nf_ct_ext, offset) +
						       bpf_core_enum_value(enum nf_ct_ext_id, NF_CT_EXT_NAT));
	if (!at)
		return FLOW_ANY_EGRESS;
	bpf_probe_read_kernel(&index, sizeof(index), ext + at + bpf_core_field_offset(struct nf_conn_nat, masq_index));
	return index < FLOW_UNSEEN_EGRESS ? index : FLOW_UNSEEN_EGRESS;
}

// conntrack_knows says whether there is such a connection; where the kernel can't say, as before 6.11 of zones, there may be.
static __noinline int conntrack_knows(struct xdp_md *ctx, const struct flow_key *key)
{
	__s32 error = 0;
	struct nf_conn *ct = conntrack_find(ctx, key, &error);

	if (!ct)
		return error != -ENOENT;
	bpf_ct_release(ct);
	return 1;
}

// conntrack_renew gives a connection that the fast path carries its time anew. 0: conntrack has it no
// more, or it has become one that only the kernel can follow.
static __noinline int conntrack_renew(struct xdp_md *ctx, const struct flow_key *key, __u32 timeout)
{
	struct nf_conn *ct = conntrack_find(ctx, key, NULL);
	int ready;

	if (!ct)
		return 0;
	ready = is_ready(ct, key->rest >> 48 & 0xff);
	if (ready)
		bpf_ct_change_timeout(ct, timeout);
	bpf_ct_release(ct);
	return ready;
}

#else

static __always_inline int conntrack_knows(struct xdp_md *ctx, const struct flow_key *key)
{
	return 1;
}

static __always_inline int conntrack_renew(struct xdp_md *ctx, const struct flow_key *key, __u32 timeout)
{
	return 0;
}

#endif
#endif
