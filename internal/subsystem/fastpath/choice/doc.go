// SPDX-License-Identifier: Apache-2.0

// Package choice keeps which structure of the IPv4 table is the fastest on this
// machine: what `fast-path.structure: auto` means. `minne bench structure --store`
// finds it out (internal/lab/bench/structurebench), in a process of its own.
//
// Figures and decision lie in a file of the instance's state
// directory (Store), with what they depend on (Key): on another machine they say
// nothing, and after another kernel or another release they are to be measured again.
//
// A structure whose image takes more than a 32nd of the memory is no candidate, for while
// tables are exchanged two of them stand side by side; the default always is one.
package choice
