// SPDX-License-Identifier: Apache-2.0

// Package openloop offers load to a device as fast as it is told to, whether or
// not the device keeps up: the tester of RFC 2544 section 6, with two ports that
// both send and receive. Its Rig is a trial.Bench.
//
//	tester.left ◀────▶ device ◀────▶ tester.right
//
// Unlike in the closed loop (package closedloop), generator and device must not
// wait for each other, so each has a processor of its own. Between network cards
// that is so by nature. In namespaces on one machine a packet is handled by the
// processor that sent it, unless the receiving port has a kernel thread for its
// receive queue ("threaded NAPI"): the rig gives every port of the device such a
// thread and ties it to the device's processor. What arrives while it is busy waits
// in the port's ring of 256 frames and is lost when that is full: that is the loss
// that is measured.
package openloop
