// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"minne/internal/subsystem/nft"
)

// FilterTable is the filter of the boot. The daemon removes it once the rules of a
// configuration are in place.
const FilterTable = "minne-boot"

// filterText lets nothing in and nothing pass, but answers to what the router asked,
// and the neighbour discovery without which IPv6 has no links. The ports in
// "management" take logins: none until the router has to be helped. These reach it even if the firewall's
// guard lets nothing else do so.
var filterText = fmt.Sprintf(`table inet minne-boot {
	set management { type ifname; }
	chain input {
		type filter hook input priority filter - 5; policy drop;
		iifname "lo" accept
		iifname @management meta mark set meta mark | %#x
		ct state established,related accept
		icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } ip6 hoplimit 255 accept
		iifname @management jump help
	}
	chain help {
		icmp type echo-request accept
		icmpv6 type echo-request accept
		tcp dport 22 accept
	}
	chain forward {
		type filter hook forward priority filter - 5; policy drop;
	}
}
`, nft.HelpMark)

// filter loads the filter of the boot in one transaction, and keeps the kernel from
// forwarding: the daemon switches that on last.
func filter(ctx context.Context, _ *Report) error {
	for _, name := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		if err := setSysctl(name, "0"); err != nil {
			return err
		}
	}
	if _, err := nft.Run(ctx, filterText, "-f", "-"); err != nil {
		return fmt.Errorf("nothing keeps packets out: %w", err)
	}
	return loopback()
}

// loopback brings up the interface by which the router's programs talk to each other, its own DNS server among them.
func loopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
