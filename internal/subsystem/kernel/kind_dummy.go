// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
)

// A dummy interface has nothing but its name: there is nothing to change.
var dummy = linkKind{
	name:    "dummy",
	title:   "dummy interface",
	lacking: "this kernel has no dummy interfaces, its module dummy is missing; for the reason run modprobe dummy",

	want:  func(*config.Interface) netlink.Link { return &netlink.Dummy{} },
	same:  func(want, now netlink.Link) bool { return want.Attrs().Name == now.Attrs().Name },
	words: func(netlink.Link) string { return "dummy interface" },
}
