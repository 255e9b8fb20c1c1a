// SPDX-License-Identifier: Apache-2.0

// Package blueprint describes a lab as a YAML file: which machines there are, what runs on each, and
// how they are cabled.
//
//	version: 1
//	nodes:
//	  left:   {runs: host, ports: {eth0: [198.18.0.2/24]}, gateway: [198.18.0.1]}
//	  router: {runs: minne, config: router.yaml}
//	  right:  {runs: host, ports: {eth0: [198.19.0.2/24]}, gateway: [198.19.0.1]}
//	links:
//	  - {ends: [left.eth0, router.left]}
//	  - {ends: [router.right, right.eth0]}
//
// Load and Parse refuse what can't be built, with place and caret, by the reader of the router's own
// configuration. Up builds the network (package lab), starts what runs on the nodes, and hands back
// the lab. The files below builtin are the topologies that have a name; each is also an example to
// start from.
package blueprint
