// SPDX-License-Identifier: Apache-2.0

// Package matrix measures transfers between two hosts through a device: TCP and
// UDP, over IPv4 and IPv6, with packets of 64 to 1500 bytes, as the platform paper
// did ("Lightweight benchmarking of platforms for network traffic processing",
// Korcek and Zadnik), and how the device answers while it is full.
//
// iperf3 makes the traffic. Unlike the trials of the rest of the lab, whose
// generator and sink cost little, here whole protocol stacks work on both sides,
// so figures tell what applications get, and on one machine the hosts often are
// the bottleneck and not the device. The paper's two kinds of forwarding are
// measured apart: routed (the device is a router) and bridged (a switch). A
// platform with a single port is an end of the transfers itself: Serve on one
// machine, Remote on the other.
//
// A size is that of the IP packet, header included, so that 1500 is what an
// Ethernet frame carries. See segment for the sizes that a protocol can't do.
package matrix
