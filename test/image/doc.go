// SPDX-License-Identifier: Apache-2.0

// Package image boots the router's disk image in QEMU, as a PC would, and finds out
// whether it is a router: with BIOS and UEFI, from a stick and a disk, on media that
// are damaged, full, worn out, or lose power while a commit writes, and whether it comes
// out of upgrades, good and bad ones.
//
// The tests have the build tag "image" and want build/minne.img (./dev image).
// ./dev test runs TestRouter, ./dev test-image all of them.
package image
