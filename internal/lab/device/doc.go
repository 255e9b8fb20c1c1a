// SPDX-License-Identifier: Apache-2.0

// Package device starts the devices under test of the lab in a node of a
// network of namespaces: a Minne router of any binary, configuration and table
// structure, the kernel alone as a router, a bridge, or nothing but a cable.
//
// A device is named by a short text, which is what users type and what reports
// print:
//
//	kernel                     Linux as it is: routes and forwards, nothing else
//	minne                      this binary's router with its fast path on (also "fastpath")
//	minne,fast-path=off        the same router, all forwarded by the kernel
//	minne,structure=range16    another lookup structure of the fast path's IPv4 table
//	minne,binary=PATH          another minne command
//	minne,config=FILE          the user's own configuration
//	bridge                     a learning-free Ethernet bridge of the kernel
//	none                       no device: a cable from generator to sink
//
// Options of minne can be combined, but config excludes fast-path and structure,
// which stand in that file. A user's own configuration must have the interfaces
// and addresses of the lab's rigs, "in" towards the generator and "out" towards
// the sink (see InAddresses); everything else in it is the user's. Whoever builds the network describes its ports in a
// Wiring; the device then has addresses, permanent neighbours and routes as
// asked, so that not one packet of a trial waits for ARP.
package device
