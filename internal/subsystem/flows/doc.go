// SPDX-License-Identifier: Apache-2.0

// Package flows tells which connections go through the router, and who uses the line.
//
// The kernel's conntrack table knows every connection: who opened it, its translation, its
// state and how long it may be silent. The fast path repeats many of them past the
// kernel and counts those packets itself. This package reads both and keeps one
// book: a connection is what conntrack has, its packets and bytes are the kernel's plus the
// fast path's, and no packet is in both. What flows had counted that have ended, the fast path
// tells, and it is kept as long as the kernel has the connection.
//
// A table may hold hundreds of thousands of connections, so it is read as a stream:
// a question costs memory for its answer (the top N, a sum for each host), for six words of
// each flow of the fast path, and for rates for as many of each connection. Questions are answered
// one after the other.
package flows
