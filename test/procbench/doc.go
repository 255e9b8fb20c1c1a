// SPDX-License-Identifier: Apache-2.0

// Package procbench holds the tests of minne-procbench: compiled for every architecture that Minne is released
// for, it runs under qemu's user mode emulation over tables of both byte orders, and each answer must be what
// plain Go says; sanitizers watch it search broken tables.
package procbench
