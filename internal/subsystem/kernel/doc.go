// SPDX-License-Identifier: Apache-2.0

// Package kernel makes the Linux kernel of one network namespace do what the
// configuration says, and tells what the kernel does.
//
// Two halves:
//
//   - Reconcile. Render turns the configuration into a Desired, Plan compares it
//     with the kernel's state and says what would change, Apply changes it. Both
//     walk one list of steps, so a preview can't differ from the apply, and an
//     apply of what is already so writes nothing.
//   - Watch. A Watcher reads routes, next hops, neighbours, links, addresses and
//     rules once, then follows the kernel's notifications and tells a
//     rib.Listener. It fills in what the kernel does not say (see ledger.go).
//
// Everything here speaks about the network namespace of the current process.
// Nothing reads /sys/class/net, which may show another one.
package kernel
