// SPDX-License-Identifier: Apache-2.0

// Package lpm compiles routes into table images for longest prefix match: a tree
// bitmap (bpf/algo/treebitmap.h) and a shape-shifting trie
// (bpf/algo/shapeshifting.h), for IPv4 and IPv6. It also has a plain reference that
// answers the same question without either. It does no I/O.
//
// docs/design/lpm.md has the choices and the figures.
package lpm
