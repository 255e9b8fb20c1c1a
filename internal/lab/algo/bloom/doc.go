// SPDX-License-Identifier: Apache-2.0

// Package bloom builds Bloom filters and counting Bloom filters as images that
// bpf/algo/bloom.h searches, natively or in eBPF, and searches them in Go itself.
// That header has the sources and the layout.
//
// A filter says whether a key was added: "no" is always right, "yes" is wrong at a rate
// that FalsePositives tells before anything is built. A counting filter lets keys be taken back.
package bloom
