// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// settings are the kernel's knobs of one interface that decide what it does with
// packets. rib does not tell of them: they are read from /proc/sys/net, again
// whenever the kernel announces that one has changed.
type settings struct {
	forwarding4    bool
	forwarding6    bool
	disabled6      bool
	redirects4     bool // ICMP redirects are sent, here or by "all"
	ignoreLinkDown bool
	rpFilter       int // 0, 1 strict, 2 loose
	mtu6           int // bytes; 0 when unknown
}

// settingsReader knows the settings.
type settingsReader interface {
	of(ifindex int, name string) settings
	all() (v4, v6 settings) // of the pseudo-interface "all"
	hashSeed() uint32       // of the flow hash of multipath routes
	sessions() []session    // of PPPoE
}

// procSettings reads them from the process's network namespace.
type procSettings struct {
	root   string // /proc/sys/net
	random uint32 // stands in for the kernel's secret when no seed is set
}

func newProcSettings() *procSettings {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return &procSettings{root: "/proc/sys/net", random: binary.NativeEndian.Uint32(b[:])}
}

// number is a setting; 0 when the kernel does not have it (an interface that is just going, IPv6
// switched off).
func (p *procSettings) number(path ...string) int {
	b, err := os.ReadFile(filepath.Join(append([]string{p.root}, path...)...))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

func (p *procSettings) of(_ int, name string) settings {
	v4 := func(knob string) int { return p.number("ipv4", "conf", name, knob) }
	v6 := func(knob string) int { return p.number("ipv6", "conf", name, knob) }
	return settings{
		forwarding4:    v4("forwarding") != 0,
		forwarding6:    v6("forwarding") != 0,
		disabled6:      v6("disable_ipv6") != 0,
		redirects4:     v4("send_redirects") != 0 || p.number("ipv4", "conf", "all", "send_redirects") != 0,
		ignoreLinkDown: v4("ignore_routes_with_linkdown") != 0,
		rpFilter:       v4("rp_filter"),
		mtu6:           v6("mtu"),
	}
}

func (p *procSettings) all() (v4, v6 settings) {
	all := p.of(0, "all")
	return all, all
}

// hashSeed is net.ipv4.fib_multipath_hash_seed (Linux 6.11). Without one the kernel hashes with a
// secret of its own: then a random seed keeps flows together, if not on the kernel's choice.
func (p *procSettings) hashSeed() uint32 {
	if seed := p.number("ipv4", "fib_multipath_hash_seed"); seed != 0 {
		return uint32(seed)
	}
	return p.random
}

// Netlink groups of include/uapi/linux/rtnetlink.h that announce changed settings.
const (
	groupNetconf4 = 24 // RTNLGRP_IPV4_NETCONF
	groupNetconf6 = 25 // RTNLGRP_IPV6_NETCONF
)

// listen calls changed whenever something is said in one of the groups, until the returned file is
// closed. What is said is not looked at: several words make one call.
func listen(protocol int, groups []int, changed func()) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("netlink socket of protocol %d: %w", protocol, err)
	}
	file := os.NewFile(uintptr(fd), "netlink")
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		file.Close()
		return nil, fmt.Errorf("binding a netlink socket of protocol %d: %w", protocol, err)
	}
	for _, g := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			file.Close()
			return nil, fmt.Errorf("joining netlink group %d of protocol %d: %w", g, protocol, err)
		}
	}
	go heed(file, fd, changed)
	return file, nil
}

func heed(file *os.File, fd int, changed func()) {
	buf := make([]byte, 32<<10)
	for {
		_, err := file.Read(buf)
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // ENOBUFS: words were lost, so something changed
			if !errors.Is(err, os.ErrClosed) && !errors.Is(err, io.EOF) {
				changed()
			}
			return
		}
		for { // what has been said meanwhile is part of the same change
			if _, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT); err != nil {
				break
			}
		}
		changed()
	}
}
