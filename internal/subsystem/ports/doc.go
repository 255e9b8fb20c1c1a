// SPDX-License-Identifier: Apache-2.0

// Package ports says what is to know of a real network port before somebody measures through it:
// whether it exists, has a link, is somebody else's, would cut the operator off, and what its driver
// can do. It makes a port ready for measuring and puts back afterwards what it changed.
//
// Look tells the facts of a port; Check looks at the ports of a measurement and refuses, in words for
// the operator, those that can't or shouldn't be used; Prepare makes them ready.
//
// All of it is about the network namespace of the calling thread, through netlink, the ethtool ioctls
// and /proc/thread-self: /sys shows another namespace's ports.
package ports
