// SPDX-License-Identifier: Apache-2.0

// Package automaton compiles patterns (byte strings and a subset of PCRE) into
// automata that find which of them occur in a stream of bytes, and writes these as
// images for bpf/algo/d2fa.h and bpf/algo/hybrid.h.
//
// The way of a pattern:
//
//	text → node (parse.go) → nfa (nfa.go) → dfa (subset.go; literals.go for byte strings)
//	     → minimise.go → defaults.go → an image (layout.go)
//
// The deterministic automaton reads one entry of a table per byte but its table is
// large. Two ideas make it small enough:
//
//   - Delayed-input DFA (D²FA): Kumar, Dharmapurikar, Yu, Crowley, Turner: "Algorithms
//     to Accelerate Multiple Regular Expressions Matching for Deep Packet
//     Inspection", SIGCOMM 2006. Most states agree with another state about most
//     bytes. A state keeps only the transitions in which it differs from its
//     default, which is asked for the others without taking a byte.
//   - Hybrid FA: Becchi, Crowley: "A Hybrid Finite Automaton for Practical Deep Packet
//     Inspection", CoNEXT 2007. Patterns with .* or long counts in their middle make
//     subset construction explode, since each can be waiting at any place while the
//     others go on. The head is deterministic up to such a place, its border; behind
//     it, a small tail automaton runs while it is active.
//
// What is found is a set: a pattern belongs to it as soon as the first of its
// occurrences ends, or when the stream ends for those that ask for its end. The
// state is carried from one packet to the next. A pattern's number is its place
// in the list that was compiled.
//
// The package does no I/O.
package automaton
