// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Settings of the namespace that change what happens to forwarded packets. Those of a link come
// with the links (links.go).

// settings reads below a root, /proc.
type settings struct{ root string }

// value is a setting without blanks; "" when the kernel does not have it.
func (s settings) value(path string) (string, error) {
	b, err := os.ReadFile(filepath.Join(s.root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// watched are settings that the fast path reads for itself, when told that one of them has changed.
// The kernel announces changes of forwarding and rp_filter, and of none of these.
var watched = []string{"sys/net/ipv4/fib_multipath_hash_seed", "sys/net/ipv4/conf/all/send_redirects"}

func (s settings) read() (State, error) {
	var state State
	sum := fnv.New64a()
	for _, path := range watched {
		v, err := s.value(path)
		if err != nil {
			return State{}, err
		}
		fmt.Fprintln(sum, v)
	}
	state.Settings = sum.Sum64()
	for which, family := range []string{"ipv4", "ipv6"} {
		policy, err := s.value("sys/net/" + family + "/fib_multipath_hash_policy")
		if err != nil {
			return State{}, err
		}
		state.Hash[which] = hashOf(family, policy)
	}
	for _, one := range []struct {
		path, off string
		note      func(words string)
	}{
		// Linux 4.4: next hops of IPv4 routes whose neighbour does not answer are passed over.
		{"sys/net/ipv4/fib_multipath_use_neigh", "0", func(words string) { state.Hash[IPv4].Kernel = words }},
		// What path MTU discovery has found counts for packets of others too (ip_dst_mtu_maybe_forward).
		{"sys/net/ipv4/ip_forward_use_pmtu", "0", func(words string) { state.family(IPv4, Other, words) }},
		// The router takes what is for an address that it answers for on another link (ip6_forward_proxy_check).
		{"sys/net/ipv6/conf/all/proxy_ndp", "0", func(words string) { state.family(IPv6, Other, words) }},
		// Bridges show what passes them to the packet filter of IP, before the router has it (br_netfilter).
		{"sys/net/bridge/bridge-nf-call-iptables", "0", func(words string) { state.bridges(Filter, words) }},
		{"sys/net/bridge/bridge-nf-call-ip6tables", "0", func(words string) { state.bridges(Filter, words) }},
	} {
		v, err := s.value(one.path)
		if err != nil {
			return State{}, err
		}
		if v != "" && v != one.off {
			one.note(fmt.Sprintf("%s is %s", strings.ReplaceAll(strings.TrimPrefix(one.path, "sys/"), "/", "."), v))
		}
	}
	return state, errors.Join(s.balancer(&state), s.ebtables(&state))
}

// ebtables looks for tables of ebtables-legacy, whose rules nobody can list without loading them anew. They are modules,
// which only the command loads.
func (s settings) ebtables(state *State) error {
	const path = "modules"
	modules, err := s.value(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(modules) {
		name, _, _ := strings.Cut(line, " ")
		switch name {
		case "ebtable_filter", "ebtable_nat", "ebtable_broute":
			state.bridges(Filter, "module "+name+" is loaded (ebtables-legacy)")
		}
	}
	return nil
}

// hashOf says what a family's fib_multipath_hash_policy hashes.
func hashOf(family, policy string) Hash {
	switch policy {
	case "", "1": // addresses, ports, protocol
		return Hash{}
	case "0":
		if family == "ipv4" { // the other's adds the flow label, for which the program has no room on its stack
			return Hash{Addresses: true}
		}
	}
	return Hash{Kernel: fmt.Sprintf("net.%s.fib_multipath_hash_policy is %s", family, policy)}
}

// balancer looks for services of IPVS (net/netfilter/ipvs), which takes packets out of their way.
// Behind three lines of heading each line is a service or a server of one.
func (s settings) balancer(state *State) error {
	const path, heading = "net/ip_vs", 3
	table, err := s.value(path)
	if err != nil {
		return err
	}
	if lines := strings.Split(table, "\n"); len(lines) > heading {
		state.both(Filter, "IPVS has services (ipvsadm -L)")
	}
	return nil
}
