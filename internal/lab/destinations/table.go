// SPDX-License-Identifier: Apache-2.0

package destinations

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"minne/internal/base/ipnet"
	"minne/internal/lab/fulltable"
)

const (
	maxPrefixes   = 4 << 20   // four times today's Internet
	maxTableBytes = 512 << 20 // unpacked: such a table with ip route's attributes behind every prefix
)

// Table is a routing table: its prefixes of both families, masked, each once, in the file's order.
type Table struct {
	Name       string // the file's, or "full"
	IPv4, IPv6 []netip.Prefix
}

// Prefixes returns those of both families.
func (t Table) Prefixes() []netip.Prefix {
	return append(append(make([]netip.Prefix, 0, len(t.IPv4)+len(t.IPv6)), t.IPv4...), t.IPv6...)
}

// Full returns the Internet's table that the figures in docs/ are about.
func Full() (Table, error) {
	v4, v6, err := fulltable.Load()
	return Table{Name: "full", IPv4: v4, IPv6: v6}, err
}

// Named returns the table of a name: "full", a number for so many prefixes out of
// that one, "ipv4:" and a number for so many of IPv4 alone, or else a file.
func Named(name string) (Table, error) {
	if name == "full" {
		return Full()
	}
	if count, ok := strings.CutPrefix(name, "ipv4:"); ok {
		return partOfIPv4(name, count)
	}
	if n, err := strconv.Atoi(name); err == nil {
		return part(n)
	}
	return Load(name)
}

// part returns n prefixes of the full table at random, the same ones every time, of each family at least one.
func part(n int) (Table, error) {
	full, err := Full()
	if err != nil {
		return Table{}, err
	}
	all := len(full.IPv4) + len(full.IPv6)
	if n < 2 || n > all {
		return Table{}, fmt.Errorf("routing table of %d prefixes: expected 2 to %d of the full table, \"full\", or a file", n, all)
	}
	n6 := min(max(1, n*len(full.IPv6)/all), n-1)
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for _, family := range [][]netip.Prefix{full.IPv4, full.IPv6} {
		random.Shuffle(len(family), func(i, j int) { family[i], family[j] = family[j], family[i] })
	}
	return Table{Name: strconv.Itoa(n), IPv4: full.IPv4[:n-n6], IPv6: full.IPv6[:n6]}, nil
}

// partOfIPv4 returns so many IPv4 prefixes of the full table at random, the same ones every time.
func partOfIPv4(name, count string) (Table, error) {
	full, err := Full()
	if err != nil {
		return Table{}, err
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > len(full.IPv4) {
		return Table{}, fmt.Errorf("routing table %s: expected ipv4: and a number from 1 to %d", name, len(full.IPv4))
	}
	random := rand.New(rand.NewPCG(uint64(n), 1))
	random.Shuffle(len(full.IPv4), func(i, j int) { full.IPv4[i], full.IPv4[j] = full.IPv4[j], full.IPv4[i] })
	return Table{Name: name, IPv4: full.IPv4[:n]}, nil
}

// Load reads a table from a file, gzipped or not: a prefix at the beginning of
// each line, what follows it is passed over, so that the output of `ip route`
// will do. A # begins a comment. Routes that don't forward (blackhole,
// unreachable …) are passed over too. Errors name file and line.
func Load(path string) (Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return Table{}, fmt.Errorf("routing table: %w", err)
	}
	defer f.Close()
	t, err := read(f)
	if err != nil {
		return Table{}, fmt.Errorf("routing table %s: %w", path, err)
	}
	t.Name = path
	return t, nil
}

// read parses a table, unpacking it when it begins as gzip does.
func read(r io.Reader) (Table, error) {
	buffered := bufio.NewReader(r)
	r = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return Table{}, err
		}
		r = unzipped
	}
	bounded := &io.LimitedReader{R: r, N: maxTableBytes}
	var t Table
	seen := map[netip.Prefix]struct{}{}
	lines := bufio.NewScanner(bounded)
	n := 1
	for ; lines.Scan(); n++ {
		p, err := prefixOf(lines.Text())
		if err != nil {
			return Table{}, fmt.Errorf("line %d: %w", n, err)
		}
		if !p.IsValid() {
			continue
		}
		if _, twice := seen[p]; twice {
			continue
		}
		if len(seen) == maxPrefixes {
			return Table{}, fmt.Errorf("line %d: more than %d prefixes", n, maxPrefixes)
		}
		seen[p] = struct{}{}
		if p.Addr().Is4() {
			t.IPv4 = append(t.IPv4, p)
		} else {
			t.IPv6 = append(t.IPv6, p)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return Table{}, fmt.Errorf("line %d: longer than %d bytes: is this a text file with one prefix a line?", n, bufio.MaxScanTokenSize)
	}
	if lines.Err() != nil {
		return Table{}, fmt.Errorf("line %d: %w", n, lines.Err())
	}
	if bounded.N == 0 {
		return Table{}, fmt.Errorf("more than %d bytes", maxTableBytes)
	}
	if len(seen) == 0 {
		return Table{}, errors.New("no prefix in it: expected one a line, for example 192.0.2.0/24")
	}
	return t, nil
}

// unforwarded are the words of `ip route` before routes that lead nowhere, and
// before the further hops of a route that has several.
var unforwarded = map[string]bool{
	"blackhole": true, "unreachable": true, "prohibit": true, "throw": true, "local": true,
	"broadcast": true, "anycast": true, "multicast": true, "nexthop": true,
}

// prefixOf returns the prefix of a line, or an invalid one when the line has no route that forwards.
func prefixOf(line string) (netip.Prefix, error) {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words) > 1 && words[0] == "unicast" {
		words = words[1:]
	}
	if len(words) == 0 || unforwarded[words[0]] {
		return netip.Prefix{}, nil
	}
	first := words[0]
	if first == "default" {
		first = "0.0.0.0/0"
		if len(words) > 2 && strings.Contains(words[2], ":") { // default via fe80::1
			first = "::/0"
		}
	}
	p, err := ipnet.Parse(first)
	if err != nil {
		return p, fmt.Errorf("%w first in the line", err)
	}
	return p.Masked(), nil
}
