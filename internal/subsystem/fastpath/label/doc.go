// SPDX-License-Identifier: Apache-2.0

// Package label compiles the patterns of a configuration's `match:` section for
// bpf/label.h, which labels flows by them, and reads what that has counted.
//
//   - compile.go reads the patterns and makes one automaton of those of all sets
//   - tables.go lays a compiled Sets over the program's tables, and counts
//
// A label is the number of a set, from 1, in the order of the sets' names.
package label
