// SPDX-License-Identifier: Apache-2.0

// Package uplinks lets packets leave by another uplink in the moment in which one fails, however many routes lead there.
//
// FRR moves routes one by one, which takes some ten seconds with the full table, and puts back a next-hop object that somebody
// else changed under it. So the routes stay as they are, and are passed over: two rules stand in each family,
//
//	32100: lookup main, but pass over routes by interfaces of group 7777
//	32101: lookup table 3000000077
//
// and a failed uplink's interface is put into that group, in one write together with the default routes of that table, which
// lead to the best uplink that works. The fast path does the same to its next hops. When FRR has moved the routes, or the
// uplink works again, the interface leaves the group and the default routes go: while all is well the table has nothing but
// the uplinks' own networks, so that the router reaches the neighbours of an uplink that it has left.
//
//   - render.go: what the configuration wants
//   - uplinks.go: which uplinks work, and what follows from that
//   - write.go: rules, routes and groups as messages to the kernel
//   - bfd.go, health.go: who says that an uplink has failed; the kernel says it of links, and operators
package uplinks
