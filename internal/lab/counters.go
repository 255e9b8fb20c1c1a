// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// KernelForwarded returns how many packets the node's kernel has forwarded so
// far. What a fast path forwards is not among them.
func (n *Running) KernelForwarded(ipv6 bool) (uint64, error) {
	file, key := "/proc/thread-self/net/snmp", "Ip:"
	if ipv6 {
		file, key = "/proc/thread-self/net/snmp6", "Ip6OutForwDatagrams"
	}
	text, err := n.readFile(file)
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		var count uint64
		switch {
		case len(f) < 2 || f[0] != key:
		case ipv6:
			_, err := fmt.Sscan(f[1], &count)
			return count, err
		case names == nil:
			names = f
		default:
			for i, name := range names {
				if name == "ForwDatagrams" {
					_, err := fmt.Sscan(f[i], &count)
					return count, err
				}
			}
		}
	}
	return 0, fmt.Errorf("%s has no count of forwarded packets", file)
}

// readFile reads a file of the node's kernel.
func (n *Running) readFile(file string) (text []byte, err error) {
	if n.machine != nil {
		out, err := n.Run(context.Background(), "cat", file)
		return []byte(out), err
	}
	err = n.Do(func() (err error) { text, err = os.ReadFile(file); return err })
	return text, err
}

// LeftByChance is how many of n packets a fast path may leave to the kernel though it could forward them: one in 65,536 random
// ones looks as if its sender had left the checksum to hardware (bpf/summed.h), which between namespaces must be believed.
func LeftByChance(n uint64) uint64 { return n/10_000 + 5 }
