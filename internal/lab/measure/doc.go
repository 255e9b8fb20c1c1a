// SPDX-License-Identifier: Apache-2.0

// Package measure puts the lab's parts together: it takes devices, a kind of
// traffic, frame sizes and methods, builds the rig for each device, runs the
// methods one after the other, and puts what they find into the session's
// result.
//
// A method is a figure of one device under one traffic; the search for throughput
// comes first, because others need its outcome (latency at half of the PDR).
package measure
