// SPDX-License-Identifier: Apache-2.0

// Package drivers knows which of Linux's network drivers run XDP programs themselves, and how far, for
// people who are about to choose a computer. A router that runs doesn't need it: it asks the kernel
// about the ports it has, and the kernel's answer counts.
//
// What is told of a driver was read in its source, in the Linux that Sources names: the flags that
// it gives to the netdev family (xdp_features), whether it implements ndo_xdp_xmit, whether it strips
// VLAN tags and lets itself be told not to. Which Linux first had XDP in a driver stands in
// no source; it comes from lists that others keep, and is empty where none of them names it.
package drivers
