// SPDX-License-Identifier: Apache-2.0

// Package peers asks other projects' libraries what Minne's own tables are asked, in
// the same run: DPDK, Hyperscan, RE2 and Go modules as small programs of their own
// (procbench/peers, made by scripts/peers.sh where the libraries are), and the kernel's own
// longest prefix match by an eBPF program. Their answers are summed up as Minne's
// are, so a peer also says whether those are right.
//
// A program builds its table once and then measures whenever it is told to (Session.Round),
// so a caller can let all contenders take turns.
package peers
