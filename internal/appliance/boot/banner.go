// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// Banner is what stands above the login on a console: which machine this is, how to
// reach it, and what is wrong with it.
func Banner(version string) string {
	var b strings.Builder
	host, err := os.Hostname()
	if err != nil || host == "" || host == "(none)" {
		host = "minne"
	}
	fmt.Fprintf(&b, "\n%s: Minne %s\n", host, version)
	for _, line := range addresses() {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	r, err := ReadReport()
	switch {
	case err != nil:
		fmt.Fprintf(&b, "  %v\n", err)
	case r.Forwarding > 0:
		fmt.Fprintf(&b, "  forwarding since %.1f s after the kernel's start; the system runs from %s\n", r.Forwarding.Seconds(), r.Root)
	default:
		b.WriteString("  nothing is forwarded yet\n")
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	b.WriteString("\n")
	return b.String()
}

// addresses returns a line for each interface with addresses, those of the kernel's own links left out.
func addresses() []string {
	links, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var lines []string
	for _, l := range links {
		own, err := l.Addrs()
		if err != nil || l.Flags&net.FlagLoopback != 0 || l.Flags&net.FlagUp == 0 {
			continue
		}
		words := []string{}
		for _, a := range own {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				words = append(words, a.String())
			}
		}
		lines = append(lines, fmt.Sprintf("%-10s %s", l.Name, strings.Join(words, " ")))
	}
	slices.Sort(lines)
	return lines
}
