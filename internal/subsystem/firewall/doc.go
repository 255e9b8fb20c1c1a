// SPDX-License-Identifier: Apache-2.0

// Package firewall puts a policy into the kernel as nftables rules, reads its
// counters back, and changes its sets while the router runs.
//
// The rules are one table, inet minne_policy, which is replaced in one transaction:
// a packet is evaluated by the old rules or by the new ones. Other tables are not
// touched, and connections go on, since conntrack is not part of a table. How the
// table is laid out stands in text.go. Behind it stands inet minne_guard, which
// drops what the rules have not evaluated, see stand.go.
package firewall
