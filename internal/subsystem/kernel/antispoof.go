// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/subsystem/nft"
)

// Source address checks (RFC 3704), for both families in one nftables table.
//
//   - strict: the longest route to the source is unicast and leads back through
//     the interface the packet came in by. Of an IPv4 route with several next
//     hops, any may.
//   - loose: the longest route to the source is unicast.
//
// A default route counts for both, as it does for other routers; blackhole,
// unreachable and prohibit routes and the router's own addresses never do.
// Routes over links without carrier count. The kernel's rp_filter has no IPv6
// half and combines with conf/all by maximum, so it stays off.
//
// One limit is the kernel's: of an IPv6 route with several next hops, nftables
// looks only at the one that the packet's hash picks. Sources behind several
// interfaces need loose for IPv6, or strict drops a part of their packets. The
// fast path repeats all of this and leaves such sources to the kernel.
//
// The text is written as `nft -s list table` prints it, so that what is loaded
// can be compared byte for byte.

const antiSpoofTable = "minne_antispoof"

// renderAntiSpoof returns the table's text, or "" when no interface checks sources.
func renderAntiSpoof(interfaces map[string]*config.Interface) string {
	var strict, loose []string
	for _, name := range slices.Sorted(maps.Keys(interfaces)) {
		i := interfaces[name]
		if name == loopback {
			continue
		}
		switch i.AntiSpoof {
		case "strict":
			strict = append(strict, name)
		case "loose":
			loose = append(loose, name)
		}
	}
	if len(strict)+len(loose) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n\tchain prerouting {\n", antiSpoofTable)
	b.WriteString("\t\ttype filter hook prerouting priority raw; policy accept;\n")
	// Before a host has an address it speaks from the unspecified one: duplicate address
	// detection, router solicitations, multicast listener reports (RFC 4861, RFC 3810).
	b.WriteString("\t\tip6 saddr :: ip6 daddr ff02::/16 accept\n")
	rule(&b, strict, "fib saddr . iif oif missing")
	rule(&b, loose, "fib saddr oif missing")
	b.WriteString("\t}\n}\n")
	return b.String()
}

func rule(b *strings.Builder, names []string, condition string) {
	switch len(names) {
	case 0:
		return
	case 1:
		fmt.Fprintf(b, "\t\tiifname %q %s counter drop\n", names[0], condition)
	default:
		fmt.Fprintf(b, "\t\tiifname { %q", names[0])
		for _, n := range names[1:] {
			fmt.Fprintf(b, ", %q", n)
		}
		fmt.Fprintf(b, " } %s counter drop\n", condition)
	}
}

// listAntiSpoof returns the loaded table's text, "" when there is none.
func listAntiSpoof(ctx context.Context) (string, error) {
	return nft.Table(ctx, antiSpoofTable, "-s")
}

// loadAntiSpoof replaces the table by text in one transaction; "" removes it.
func loadAntiSpoof(ctx context.Context, text string) error {
	// Adding before deleting makes the deletion work whether or not the table was there.
	script := fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n%[2]s", antiSpoofTable, text)
	_, err := nft.Run(ctx, script, "-f", "-")
	return err
}

// ReassertAntiSpoof puts the source checks of the last applied Desired in place. stood says whether they
// have been in place since: then changed says that something else had changed them.
func (k *Kernel) ReassertAntiSpoof(ctx context.Context) (changed, stood bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		return false, false, nil
	}
	want := k.last.AntiSpoof
	stood = k.checks == want
	now, err := k.system.antiSpoof(ctx)
	if err != nil {
		return false, stood, err
	}
	if changed = now != want; changed {
		if err := k.system.loadAntiSpoof(ctx, want); err != nil {
			return false, stood, err
		}
		k.writes.Add(1)
	}
	k.checks = want
	return changed, stood, nil
}
