// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What goes through a port already: a measurement floods it, and takes what arrives there away from
// the kernel. The operator's own session must not be among that.

// Use is a reason not to take a port.
type Use struct {
	What string // "the default route", "the SSH session from 192.0.2.7"
	By   string // the interface on top that it goes through; "" is the port itself
}

// String says what and, for a port below another interface, by which.
func (u Use) String() string {
	if u.By == "" {
		return u.What
	}
	return u.What + " by way of " + u.By
}

// usesOf finds what goes through a port or through what is built on it.
func usesOf(link netlink.Link, links []netlink.Link) ([]Use, error) {
	above := builtOn(link, links)
	var uses []Use
	add := func(index int, what string) {
		if name, ok := above[index]; ok {
			u := Use{What: what}
			if index != link.Attrs().Index {
				u.By = name
			}
			if !slices.Contains(uses, u) {
				uses = append(uses, u)
			}
		}
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		exits, err := defaultExits(family)
		if err != nil {
			return nil, err
		}
		for _, index := range exits {
			add(index, map[int]string{unix.AF_INET: "the IPv4 default route", unix.AF_INET6: "the IPv6 default route"}[family])
		}
	}
	sessions, err := sshSessions()
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		if index, ok := exitTo(s.client); ok {
			add(index, "the SSH session from "+s.client.String())
		}
	}
	return uses, nil
}

// builtOn returns the port and what stands above it, index to name: VLANs and the like, the bridge or
// bond that it belongs to, and what is above those.
func builtOn(link netlink.Link, links []netlink.Link) map[int]string {
	above := map[int]string{link.Attrs().Index: link.Attrs().Name}
	for again := true; again; {
		again = false
		for _, l := range links {
			a := l.Attrs()
			if _, known := above[a.Index]; known {
				continue
			}
			_, onTop := above[a.ParentIndex]
			// The "parent" of a veth is its other end, maybe in another namespace.
			onTop = onTop && slices.Contains([]string{"vlan", "macvlan", "ipvlan", "macvtap"}, l.Type())
			for _, below := range links {
				_, known := above[below.Attrs().Index]
				onTop = onTop || known && below.Attrs().MasterIndex == a.Index
			}
			if onTop {
				above[a.Index] = a.Name
				again = true
			}
		}
	}
	return above
}

// defaultExits returns the interfaces of the default routes.
func defaultExits(family int) ([]int, error) {
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{Dst: nil}, netlink.RT_FILTER_DST)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list the default routes: %w", err)
	}
	var exits []int
	for _, r := range routes {
		if r.LinkIndex != 0 {
			exits = append(exits, r.LinkIndex)
		}
		for _, hop := range r.MultiPath {
			exits = append(exits, hop.LinkIndex)
		}
	}
	return exits, nil
}

// exitTo returns the interface by which the kernel reaches an address.
func exitTo(to netip.Addr) (int, bool) {
	if to.IsLoopback() {
		return 0, false
	}
	routes, err := netlink.RouteGet(net.IP(to.AsSlice()))
	if err != nil || len(routes) == 0 {
		return 0, false // a session that can't be answered is not cut off either
	}
	return routes[0].LinkIndex, true
}

// session is an SSH session with this machine.
type session struct{ client netip.Addr }

const sshPort = 22

// sshSessions returns the clients of this machine's SSH server: of its port, and of the session that
// this process was started in, whose server may have another one.
func sshSessions() ([]session, error) {
	ports := []uint16{sshPort}
	// SSH_CONNECTION is the client's address and port, the server's address and port.
	if words := strings.Fields(os.Getenv("SSH_CONNECTION")); len(words) == 4 {
		if port, err := strconv.ParseUint(words[3], 10, 16); err == nil {
			ports = append(ports, uint16(port))
		}
	}
	var sessions []session
	for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("look for SSH sessions: %w", err)
		}
		found, err := clients(f, ports)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("look for SSH sessions in %s: %w", file, err)
		}
		for _, client := range found {
			if s := (session{client}); !slices.Contains(sessions, s) {
				sessions = append(sessions, s)
			}
		}
	}
	return sessions, nil
}

// established is TCP_ESTABLISHED as /proc/net/tcp writes it.
const established = "01"

// clients reads /proc/net/tcp or tcp6 and returns the far ends of the connections to the ports.
func clients(tcp io.Reader, ports []uint16) (found []netip.Addr, err error) {
	lines := bufio.NewScanner(tcp)
	for lines.Scan() {
		f := strings.Fields(lines.Text()) // sl, local address, remote address, state …
		if len(f) < 4 || f[3] != established {
			continue
		}
		_, port, ok := endpoint(f[1])
		if !ok || !slices.Contains(ports, port) {
			continue
		}
		if client, _, ok := endpoint(f[2]); ok && !slices.Contains(found, client) {
			found = append(found, client)
		}
	}
	return found, lines.Err()
}

// endpoint reads 0100007F:0016: 32-bit words in host byte order, each of an address in network byte
// order, and the port.
func endpoint(text string) (netip.Addr, uint16, bool) {
	words, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	raw, err2 := hex.DecodeString(words)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.Addr{}, 0, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	return a.Unmap(), uint16(number), ok
}
