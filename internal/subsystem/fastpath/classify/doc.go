// SPDX-License-Identifier: Apache-2.0

// Package classify compiles rules into flat tables by which the fast path's eBPF
// program finds the first rule for a packet (bpf/classify.h). It does no I/O: the
// tables go into memory that the caller maps.
//
// A lookup maps each field of the packet to a small class, joins the classes of
// protocol and ports to one, and follows up to three graphs by the three classes
// that are left: source, destination, transport. Its cost depends on how the rules
// lie, hardly on how many there are.
package classify
