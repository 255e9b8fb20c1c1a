// SPDX-License-Identifier: Apache-2.0

// Package offload lowers the firewall to the words of the fast path: of a
// policy.Policy, Lower makes the filter.Policy that decides the same as the nft
// table of package firewall. It does no I/O.
//
// Only ways from zone to zone are lowered; to and from the router itself the
// kernel evaluates. What the fast path can't repeat exactly it leaves to the kernel,
// and a rule that matches too much is exact as long as it says so: the kernel
// looks at the packet anew.
//
//	where        | permit                   | deny             | reject, limit
//	no state     | permit, log as a sample  | drop, the same   | kernel
//	state        | kernel: a connection     | drop, the same   | kernel
//	             | begins                   |                  |
//
// On ways with state the fast path asks only about packets that belong to no
// connection. guards.go has what goes to the kernel whatever the rules say.
//
// # Numbers of ways
//
// The classifier has MaxIDs numbers and there are zones × zones ways. Ways that
// mean the same share a number: foremost the many without rules. A way whose
// packets may get past its rules has a number of its own while there is room, as
// its default then counts for it alone.
//
// # Sets
//
// The addresses of a set are compiled into the rules like those that stand in
// them, which costs a packet nothing. A change of such a set while the router runs
// (minne set add) then needs a new Lower, Compile and swap: 20 ms with 600 rules,
// and what nftables itself needs for its transaction is of that order. Other sets
// are asked for by address, which costs each packet of the ways that use them a
// search and doubles the numbers of those ways, but a change touches one element.
// That is worth it for sets that are
//
//   - large, above LargeSet elements: a blocklist of 120,000 would be most of the
//     tables, and take most of the time to compile;
//   - made to change: those with a timeout, whose elements come and go by themselves.
//
// They are taken in the order of their size as long as there is room (at most 8
// sets, 3 questions for a way, 254 numbers in all); the others are compiled in. A
// set is asked for by address on all ways that use it or on none: the names in
// filter.Policy.Sets are those that can be changed without a new Lower.
//
// # Counters
//
// Counter k is that of the rule with ID k, the defaults have those behind them.
// CountersOf says which belong together.
package offload
