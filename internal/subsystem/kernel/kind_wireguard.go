// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
)

// A WireGuard link has nothing but its name here: keys and peers are the service's work
// (services/wireguard), which has the secrets.
var wireGuard = linkKind{
	name:    "wireguard",
	title:   "WireGuard interface",
	lacking: "this kernel has no WireGuard, its module wireguard is missing, and neither is there the program wireguard-go, which works without it: apt-get install wireguard-go",

	want:  func(*config.Interface) netlink.Link { return &netlink.Wireguard{} },
	same:  func(want, now netlink.Link) bool { return want.Attrs().Name == now.Attrs().Name },
	words: func(netlink.Link) string { return "WireGuard interface" },

	instead: startWireGuardGo,
}

// wireGuardGo is WireGuard as a program, for a kernel without it. It ends when its link is removed.
const wireGuardGo = "wireguard-go"

// startWireGuardGo makes a link of that name by the program, which outlives the daemon as a link of the kernel does.
func startWireGuardGo(name string) error {
	c := exec.Command(wireGuardGo, name)
	c.Env = append(os.Environ(), "LOG_LEVEL=silent")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the daemon's group, as Ctrl-C, is not for it
	out, err := c.CombinedOutput()                     // it returns once there is the link, and goes on in the background
	if errors.Is(err, exec.ErrNotFound) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", wireGuardGo, name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// standIn says that a link of this kind and group is one that startWireGuardGo made: nothing else that Minne owns is a tun.
func standIn(kind string, group uint32) bool { return kind == "tuntap" && group == ownedGroup }
