// SPDX-License-Identifier: Apache-2.0

// Package boot is the start of the router's image, from the moment its root is
// mounted until the daemon runs, and what is remembered of it.
//
// The initramfs has found, checked and mounted the system (image/initramfs/init).
// Init then runs "minne boot", whose steps these are:
//
//	file systems   what the kernel offers, and memory for what changes: the root is read-only
//	medium         the partition of the configuration, read-only; whatever is wrong with it
//	slots          what was given up, and a copy's own identifiers
//	sensors        drivers of sensors and of the watchdog, so that a hot or dying machine is known
//	clock          never before the system was built, which a flat battery would say
//	filter         nothing comes in and nothing passes, before the first link exists
//	drivers        network cards, and all else that was found
//	setup          the first configuration, for a router that has none
//
// A step that fails is said on the console and does not keep the others from being
// made: what can be had is better than a machine that stands. Then init starts the
// daemon, which brings interfaces, rules, services, and forwarding last; its own
// rules take the place of the filter of the boot.
package boot
