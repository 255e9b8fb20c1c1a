// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// Kernel settings of a router. Each stands here with its reason; what is not
// here keeps the kernel's default. Some exist only in the first namespace of a
// host (neighbour table sizes) or in newer kernels (the multipath seed): those
// that are not there are passed over.

// Sysctl is one setting: Path below /proc/sys with slashes, and its value as the kernel prints it.
type Sysctl struct {
	Path      string
	Value     string
	Interface string // the interface whose name is in Path; "" for the namespace's own
	Lent      bool   // put back when the configuration has it no more
	Machine   bool   // the whole machine's: only the instance that owns the host sets it
	Least     bool   // a number; a larger one that was there before Minne stays
}

// words names the setting without the interface: "ipv6 accept_ra".
func (s Sysctl) words() string {
	parts := strings.Split(s.Path, "/")
	return parts[1] + " " + parts[len(parts)-1]
}

// neighbours is the size of the ARP and ND tables by profile: entries kept without
// collection, soft and hard limit. A /16 of hosts needs the server's.
var neighbours = map[config.SysctlProfile][3]int{
	"small":  {128, 512, 1024}, // the kernel's own
	"router": {1024, 8192, 16384},
	"server": {16384, 65536, 131072},
}

// icmpErrors is ICMP errors per second and burst, all destinations together, by profile.
// Errors carry path MTU discovery and traceroute for everyone behind the router.
var icmpErrors = map[config.SysctlProfile][2]int{
	"small":  {1000, 50}, // the kernel's own
	"router": {10000, 1000},
	"server": {50000, 5000},
}

// renderSysctls are the settings for a configuration on a machine with so many bytes of memory.
func renderSysctls(cfg *config.Config, seed uint32, memory uint64) []Sysctl {
	profile := cfg.System.SysctlProfile
	list := routingSysctls(seed)
	list = append(list, icmpSysctls(profile)...)
	list = append(list, neighbourSysctls(profile)...)
	list = append(list, allSysctls()...)
	list = append(list, conntrackSysctls(cfg)...)
	list = append(list, connectionSysctls(cfg, memory)...)
	list = append(list, bridgeSysctls(cfg)...)
	masters := cfg.Masters()
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		list = append(list, interfaceSysctls(name)...)
		if masters[name].Kind.Bundles {
			list = append(list, Sysctl{Path: ipv6Off(name), Value: "1", Interface: name})
		}
		list = append(list, ipv6Sysctls(name, cfg.Interfaces[name])...)
		list = append(list, proxySysctls(name, renderProxies(cfg))...)
	}
	return list
}

func routingSysctls(seed uint32) []Sysctl {
	return []Sysctl{
		// Several next hops share the load by addresses and ports, not addresses alone: two sites
		// that speak much use all paths. The fast path repeats this hash.
		{Path: "net/ipv4/fib_multipath_hash_policy", Value: "1"},
		{Path: "net/ipv6/fib_multipath_hash_policy", Value: "1"},
		// A seed known to the fast path, fixed over restarts.
		{Path: "net/ipv4/fib_multipath_hash_seed", Value: strconv.FormatUint(uint64(seed), 10)},
		// OSPF joins two multicast groups on every interface with one socket; the default of 20
		// ends at ten interfaces.
		{Path: "net/ipv4/igmp_max_memberships", Value: "1000"},
	}
}

func icmpSysctls(profile config.SysctlProfile) []Sysctl {
	limit := icmpErrors[profile]
	return []Sysctl{
		{Path: "net/ipv4/icmp_msgs_per_sec", Value: strconv.Itoa(limit[0])},
		{Path: "net/ipv4/icmp_msgs_burst", Value: strconv.Itoa(limit[1])},
		// One error per destination and second (the default) shows stars in every second traceroute.
		{Path: "net/ipv4/icmp_ratelimit", Value: "100"}, // ms
		{Path: "net/ipv6/icmp/ratelimit", Value: "100"}, // ms
		// Errors come from the interface that the packet came in by: traceroute shows the path as
		// operators know it (RFC 1812 4.3.2.4 leaves both).
		{Path: "net/ipv4/icmp_errors_use_inbound_ifaddr", Value: "1"},
		// Smurf protection (RFC 2644) and nonsense from broken neighbours.
		{Path: "net/ipv4/icmp_echo_ignore_broadcasts", Value: "1"},
		{Path: "net/ipv4/icmp_ignore_bogus_error_responses", Value: "1"},
	}
}

func neighbourSysctls(profile config.SysctlProfile) []Sysctl {
	var list []Sysctl
	for _, family := range []string{"ipv4", "ipv6"} {
		for i, entries := range neighbours[profile] {
			list = append(list, Sysctl{
				Path:  fmt.Sprintf("net/%s/neigh/default/gc_thresh%d", family, i+1),
				Value: strconv.Itoa(entries),
			})
		}
	}
	return list
}

// allSysctls are those of net/ipv4/conf/all, which the kernel combines with an interface's by
// maximum or by or: they must be off for the interface's own setting to decide.
func allSysctls() []Sysctl {
	return []Sysctl{
		// Source addresses are checked by table inet minne_antispoof for both families alike, see antispoof.go.
		{Path: "net/ipv4/conf/all/rp_filter", Value: "0"},
		{Path: "net/ipv4/conf/all/send_redirects", Value: "0"},
		{Path: "net/ipv4/conf/all/accept_source_route", Value: "0"}, // RFC 7126 4.3
	}
}

// conntrackSysctls are those of connection tracking, for a configuration with a firewall: one with
// zones. They belong to the network namespace, and exist once the firewall's rules have loaded
// conntrack.
func conntrackSysctls(cfg *config.Config) []Sysctl {
	if !cfg.Zoned() {
		return nil
	}
	events := "2" // the kernel's own: of connections that begin while somebody listens
	if cfg.FlowLog != nil {
		events = "1" // connections that began before the daemon are told of, too
	}
	return []Sysctl{
		// Whose end the kernel tells.
		{Path: "net/netfilter/nf_conntrack_events", Value: events},
		// Packets and bytes of each connection, for minne show flows. Connections that began
		// before are not counted.
		{Path: "net/netfilter/nf_conntrack_acct", Value: "1"},
		// And when each began, to tell it from an earlier one with the same addresses and ports.
		{Path: "net/netfilter/nf_conntrack_timestamp", Value: "1"},
		// Conntrack's idea of a TCP window stands still while the fast path forwards: what is
		// outside of it then is no sign of anything. The hosts check their windows themselves.
		{Path: "net/netfilter/nf_conntrack_tcp_be_liberal", Value: "1"},
		// For the same reason a reset is believed only when it fits exactly; others don't end
		// the connection (since Linux 5.14).
		{Path: "net/netfilter/nf_conntrack_tcp_ignore_invalid_rst", Value: "1"},
		// A router checks the header's checksum, hosts those of TCP and UDP: the fast path can't
		// tell damaged segments, and both paths must pass the same.
		{Path: "net/netfilter/nf_conntrack_checksum", Value: "0"},
	}
}

// bridgeSysctls are those of bridge netfilter, for a configuration with a bridge. They exist where the kernel
// has br_netfilter (often another program has loaded it), belong to the network namespace since Linux 5.3, and are 1 there.
func bridgeSysctls(cfg *config.Config) (list []Sysctl) {
	for _, i := range cfg.Interfaces {
		if i.Bridge == nil {
			continue
		}
		// What a bridge passes from port to port meets no rule of the router's: with 1 it would cross
		// the packet filter and conntrack as if it were routed, and the fast path leaves bridges to the kernel.
		for _, tables := range []string{"iptables", "ip6tables", "arptables"} {
			list = append(list, Sysctl{Path: "net/bridge/bridge-nf-call-" + tables, Value: "0", Lent: true})
		}
		return list
	}
	return nil
}

func interfaceSysctls(name string) []Sysctl {
	v4, v6 := "net/ipv4/conf/"+name+"/", "net/ipv6/conf/"+name+"/"
	set := func(path, value string) Sysctl { return Sysctl{Path: path, Value: value, Interface: name} }
	list := []Sysctl{
		set(v4+"rp_filter", "0"), // see allSysctls
		// A router tells nobody a better way and believes nobody: redirects let a host take over
		// its neighbours' traffic, and the fast path sends none.
		set(v4+"send_redirects", "0"),
		set(v4+"accept_redirects", "0"),
		set(v6+"accept_redirects", "0"),
		set(v4+"accept_source_route", "0"),
		set(v6+"accept_source_route", "-1"), // RFC 5095
		// Addresses come from the configuration, not from other routers' advertisements.
		set(v6+"accept_ra", "0"),
		set(v6+"autoconf", "0"),
		// Without carrier a next hop is not used: several-hop routes go on over the others.
		set(v4+"ignore_routes_with_linkdown", "1"),
		set(v6+"ignore_routes_with_linkdown", "1"),
		// Removing the first address of a network must not take the others with it.
		set(v4+"promote_secondaries", "1"),
	}
	if name == loopback {
		return list
	}
	return append(list,
		// ARP answers only for addresses of the interface asked on, and asks with one of the
		// network asked: else hosts learn MACs of the wrong port (RFC 1122 leaves the weak model).
		set(v4+"arp_ignore", "1"),
		set(v4+"arp_announce", "2"),
		// Neighbours learn a changed MAC or address at once, not when their entry times out.
		set(v4+"arp_notify", "1"),
		set(v6+"ndisc_notify", "1"),
		// IPv6 addresses outlive a link that goes down, as IPv4's do.
		set(v6+"keep_addr_on_down", "1"),
	)
}

// ipv6Sysctls lets an interface with an IPv6 address have it.
func ipv6Sysctls(name string, i *config.Interface) []Sysctl {
	if !slices.ContainsFunc(i.Addresses, func(a config.Address) bool { return a.Addr().Is6() }) {
		return nil
	}
	return []Sysctl{{Path: "net/ipv6/conf/" + name + "/disable_ipv6", Value: "0", Interface: name}}
}

const (
	sysctlRoot = "/proc/sys"
	loopback   = "lo"

	loopbackIndex = 1 // lo is the first link of every namespace
)

// readSysctl returns a setting's value; ok is false when this kernel or namespace does not have it.
// Three system calls: an apply reads some thousand on a router with many interfaces.
func readSysctl(path string) (value string, ok bool, err error) {
	fd, err := unix.Open(filepath.Join(sysctlRoot, path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read setting %s: %w", path, err)
	}
	defer unix.Close(fd)
	if value, ok, err = readOpened(fd); err != nil {
		err = fmt.Errorf("read setting %s: %w", path, err)
	}
	return value, ok, err
}

// readOpened reads a setting's file. A link that went after it was opened has no such setting either.
func readOpened(fd int) (value string, ok bool, err error) {
	var b [256]byte // longer than any setting of a router
	n, err := unix.Read(fd, b[:])
	if errors.Is(err, unix.ENOENT) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(string(b[:n])), true, nil
}

func writeSysctl(path, value string) error {
	if err := os.WriteFile(filepath.Join(sysctlRoot, path), []byte(value), 0); err != nil {
		return fmt.Errorf("set %s to %s: %w", path, value, err)
	}
	return nil
}
