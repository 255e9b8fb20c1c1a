// SPDX-License-Identifier: Apache-2.0

// Package machine says on what computer a measurement was made, and what the
// computer did meanwhile.
//
// A figure without its machine is worth little: model, processor, caches,
// frequencies, kernel, mitigations and the settings that change the cost of a
// packet all stand in a report. Everything is read from /proc, /sys and
// /etc/os-release; what a board doesn't have (a Raspberry Pi has no DMI, a MIPS
// router no frequencies, a virtual machine hardly anything) is left empty and
// never guessed. Nothing that tells who the owner is gets into a report: no
// host name, no serial number, no secrets from the kernel's command line.
package machine
