// SPDX-License-Identifier: Apache-2.0

// Package energy measures what power a machine takes, idle and under load.
//
// A Source is whatever tells power: the processor's own counters (RAPL), power
// sensors on the board (hwmon), a battery that is being discharged, a meter that
// a command reads, or figures that somebody read off a meter and typed in. They
// measure different things, from the processor package alone to the whole
// machine with its supply, so a result always names its source. Where there is
// none the result says why, and there is no figure: nothing is estimated from
// load or a processor's data sheet.
//
// CPU time per packet stands beside, from /proc/stat. It is not energy: two
// machines with equal CPU time may differ tenfold in watts.
package energy
