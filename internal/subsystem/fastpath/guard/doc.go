// SPDX-License-Identifier: Apache-2.0

// Package guard is the words and numbers of the guard (bpf/guard.h), which decides
// what may go up to the kernel, so that floods towards the router do not starve its own
// sessions: the classes of packets, how many of each may pass, and how many from one
// source.
//
// Render makes Settings of a configuration, by pure arithmetic; Shared writes them
// into the arrays that the program reads while packets flow; Observe makes words of
// what the program has counted.
package guard
