// SPDX-License-Identifier: Apache-2.0

// Package policy turns the zones, rules and translations of a configuration into
// one intermediate form, the Policy, which everything that evaluates packets is made
// of: the nftables text (package firewall), the tables of the fast path, and the
// reference in this package.
//
// The way: rules are words (rule.go says the grammar) in the configuration or in
// a CSV file (csv.go). Compile resolves their zones and sets, adds what services
// of the router need, and refuses what can't be meant (check.go). The result says
// for every ordered pair of zones which rules are read, in which order, and what
// holds when none matches (ir.go). Evaluate (evaluate.go) is that meaning in Go, plain
// and slow: where nftables or the fast path say otherwise, one of them is wrong.
//
// Compile reads list and rule files; apart from that the package touches nothing.
package policy
