// SPDX-License-Identifier: Apache-2.0

// Package bypass finds what else the kernel would do to forwarded packets, which the fast path
// would bypass: IPsec policies, packet filters that are not Minne's, traffic control, programs and
// settings. The rule is that the kernel decides; so whatever is found here takes a family or a
// port away from the fast path until it is gone (docs/design/fast-path.md has the whole list).
//
//   - state.go: what is found, and how far it reaches
//   - follow.go: who hears of changes, and when is read again
//   - ipsec.go, filters.go, control.go: what the kernel announces
//   - legacy.go, programs.go, links.go, settings.go: what it does not; they are looked at on the
//     router's slow clock (internal/base/tick)
//
// It only reads. Everything is of the network namespace of the process.
package bypass
