// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Proves that a port sends what a program redirects to it: one test run with a live frame leads it out, as the router's
// program would, and the kernel's own report of the driver's answer is noted. Kernels before 6.3 do not say which drivers
// can, and some drivers can on the CPUs only that have a queue.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct net_device {
	int ifindex;
} __attribute__((preserve_access_index));

// What drivers answered to this CPU, for the port with that ifindex.
struct answer {
	__u32 ifindex;
	__u32 sent;  // frames
	__s32 error; // the last, as -ENXIO; 0 for none
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct answer);
} prove_answers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} prove_port SEC(".maps");

SEC("xdp")
int prove_send(struct xdp_md *ctx)
{
	return bpf_redirect_map(&prove_port, 0, XDP_DROP);
}

SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(prove_answer, const struct net_device *from, const struct net_device *to, int sent, int drops, int error)
{
	__u32 zero = 0;
	struct answer *a = bpf_map_lookup_elem(&prove_answers, &zero);

	if (a && a->ifindex == (__u32)to->ifindex) {
		a->sent += sent;
		if (error < 0)
			a->error = error;
	}
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
