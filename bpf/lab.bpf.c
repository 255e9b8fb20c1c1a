// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The lab's packet generator, its player of recorded frames, and its sink.
//
// generate and replay run as XDP live frames (BPF_PROG_TEST_RUN with
// BPF_F_TEST_XDP_LIVE_FRAMES): the kernel hands them a frame from a page pool,
// they write a packet into it and redirect it out of a port. Pages come back
// from the pool with whatever the router did to them, so every frame is written
// whole: MACs, TTL, checksums, sequence number, time stamp.
//
// sink runs as ordinary XDP on the ports where the packets should arrive. It
// checks what a router must not get wrong and counts packets per stream by
// sequence number.
//
//   lab_checksum.h   Internet checksums
//   lab_stamp.h      what every frame of the lab carries behind its UDP or TCP header
//   lab_order.h      what user space asks for, and how far it is
//   lab_pace.h       when the next frame may go
//   lab_generate.h   the generator: a walk through a lap of packets
//   lab_replay.h     the player
//   lab_sequence.h   lost, repeated, reordered
//   lab_histogram.h  latencies
//   lab_sink.h       the sink
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "lab_checksum.h"
#include "lab_stamp.h"
#include "lab_order.h"
#include "lab_pace.h"
#include "lab_generate.h"
#include "lab_replay.h"
#include "lab_sequence.h"
#include "lab_histogram.h"
#include "lab_sink.h"

// A port that receives redirected frames needs an XDP program (or GRO): this one lets all pass.
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
