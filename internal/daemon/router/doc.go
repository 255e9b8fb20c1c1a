// SPDX-License-Identifier: Apache-2.0

// Package router is the daemon of one router instance: it holds the subsystems
// (kernel, routing protocols, fast path) together, and moves them as one from
// one configuration to the next.
//
// The Engine is the life-cycle. A commit is recorded on disk before anything is
// touched, then put in place subsystem by subsystem, forwarding last, and
// recorded as confirmed (or as awaiting its confirmation) when all of it stands:
//
//	record ▸ kernel ▸ routing ▸ fast-path ▸ forwarding ▸ commit
//
// A step that fails takes back what the steps before it did, in the same order:
// going back is a move between two configurations like any other, and links must
// exist before routing protocols and the fast path can name them. Whatever kills
// the daemon in between, the next start finds the newest revision in one of its
// states (see package revisions) and ends in the last confirmed configuration,
// or goes on waiting for the confirmation if its deadline lies ahead on the same
// boot.
//
// On start the daemon applies the newest confirmed revision, not the file in
// /etc: that one belongs to the operator, who may be in the middle of editing
// it. Only a router without any revision takes the file as its first one.
//
// The daemon is not on the path of packets. It may end, crash or be replaced
// while the kernel, the pinned fast path and the routing daemons go on; the next
// one adopts them.
package router
