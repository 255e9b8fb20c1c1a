// SPDX-License-Identifier: Apache-2.0

// Package lab builds networks out of network namespaces, runs routers, routing
// daemons and traffic in them, and takes everything away again.
//
// A Topology says which nodes there are and how they are cabled. Start builds
// it: every node is a namespace named minne-RUN-NODE, every cable a veth pair.
// Programs are then started in nodes: a BIRD, an FRR, a Minne, an iperf3. Networks
// in YAML files are read by package blueprint. Close ends all
// of them and removes the namespaces, and it is safe to call whatever has
// happened. RUN is the id of the process that started the lab; Sweep removes
// what labs of processes that no longer run have left behind.
//
// The lab treats Minne as an operator does: through its command line and files.
// It never shares memory with the router it tests.
package lab
