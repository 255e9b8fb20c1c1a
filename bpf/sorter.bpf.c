// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Sorts packets by subscribers, as the classifier of an htb queueing discipline (tc-bpf(8), direct action): finds the class
// in which a packet waits. What is nobody's is left to the discipline, which passes it as it comes.
//
// One lookup for each length of prefixes that occurs, the longest first: its cost depends on the lengths, not on the number
// of subscribers. The daemon writes an entry after its class is there, and removes it before the class goes.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define SUBSCRIBERS 131072 // entries: addresses, and MAC addresses
#define LENGTHS 16	   // different lengths of prefixes in a family

// What a subscriber is known by. All bits beyond the length are 0.
struct sorter_key {
	__u8 kind;	 // 4, 6: an address of that version; 48: a MAC address
	__u8 length;	 // bits of the address that count
	__u8 address[16]; // network byte order; shorter ones in front
	__u8 reserved[2]; // 0
};

// Whose it is. The name is for the daemon: after a restart it finds here which class is whose.
struct sorter_subscriber {
	__u32 class; // minor number of the class
	char name[44];
};

// Lengths of prefixes that occur, the longest first.
struct sorter_lengths {
	__u32 count;
	__u8 length[LENGTHS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SUBSCRIBERS);
	__type(key, struct sorter_key);
	__type(value, struct sorter_subscriber);
} sorter_table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3); // IPv4, IPv6; of MAC addresses: count is 0 when there are none
	__type(key, __u32);
	__type(value, struct sorter_lengths);
} sorter_occurring SEC(".maps");

static __always_inline int sorted(struct __sk_buff *skb, const struct sorter_subscriber *s)
{
	skb->tc_classid = s->class;
	return TC_ACT_OK;
}

// Looks an address up; offset is from the network header, size in bytes.
static __always_inline const struct sorter_subscriber *of_address(struct __sk_buff *skb, __u32 which, __u8 kind, __u32 offset, __u32 size)
{
	const struct sorter_lengths *all = bpf_map_lookup_elem(&sorter_occurring, &which);
	struct sorter_key key = {.kind = kind};
	__u8 address[16] = {};

	if (!all || all->count == 0 || bpf_skb_load_bytes_relative(skb, offset, address, size, BPF_HDR_START_NET))
		return 0;
	for (int n = 0; n < LENGTHS && n < all->count; n++) {
		int left = all->length[n];

		key.length = left;
		for (int i = 0; i < 16; i++) {
			key.address[i] = left >= 8 ? address[i] : left > 0 ? address[i] & (0xff00 >> left) : 0;
			left -= 8;
		}
		const struct sorter_subscriber *s = bpf_map_lookup_elem(&sorter_table, &key);
		if (s)
			return s;
	}
	return 0;
}

// 1 for down: the destination counts; 0 for up: the source.
static __always_inline int sort(struct __sk_buff *skb, int down)
{
	const struct sorter_subscriber *s = 0;
	__u32 macs = 2;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		s = of_address(skb, 0, 4, down ? 16 : 12, 4);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		s = of_address(skb, 1, 6, down ? 24 : 8, 16);
	if (s)
		return sorted(skb, s);
	const struct sorter_lengths *any = bpf_map_lookup_elem(&sorter_occurring, &macs);
	if (any && any->count) {
		struct sorter_key key = {.kind = 48, .length = 48};

		if (!bpf_skb_load_bytes_relative(skb, down ? 0 : ETH_ALEN, key.address, ETH_ALEN, BPF_HDR_START_MAC)) {
			s = bpf_map_lookup_elem(&sorter_table, &key);
			if (s)
				return sorted(skb, s);
		}
	}
	return TC_ACT_UNSPEC;
}

SEC("tc")
int sorter_down(struct __sk_buff *skb)
{
	return sort(skb, 1);
}

SEC("tc")
int sorter_up(struct __sk_buff *skb)
{
	return sort(skb, 0);
}

char _license[] SEC("license") = "Dual BSD/GPL";
