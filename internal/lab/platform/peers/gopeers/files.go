// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// checksum is algo_checksum of bpf/algo/checksum.h.
type checksum struct{ a, b uint32 }

func (c *checksum) add(answer uint32) {
	c.a = (bits.RotateLeft32(c.a, 5)^answer)*0x9e3779b1 + 1
	c.b = (bits.RotateLeft32(c.b, 11)+answer)*0x85ebca77 + 1
}

// readKeys reads a file of keys; procbench/load.c has the format.
func readKeys(name string) ([][]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(data) < 16 || string(data[:4]) != "mnk1" {
		return nil, fmt.Errorf("%s: not a file of keys (mnk1)", name)
	}
	length, count := int(binary.BigEndian.Uint32(data[4:])), int(binary.BigEndian.Uint32(data[8:]))
	stride := (length + 3) &^ 3
	data = data[16:]
	if length == 0 || count == 0 || len(data) != count*stride {
		return nil, fmt.Errorf("%s: not as long as its header tells", name)
	}
	keys := make([][]byte, count)
	for i := range keys {
		keys[i] = data[i*stride : i*stride+length]
	}
	return keys, nil
}

// readRoutes hands each route of a file over.
func readRoutes(name string, take func(netip.Prefix, uint32)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		prefix, hop, _ := strings.Cut(lines.Text(), " ")
		p, err := netip.ParsePrefix(prefix)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		number, err := strconv.ParseUint(hop, 10, 32)
		if err != nil || number == 0 {
			return fmt.Errorf("%s:%d: next hop %q: expected a number from 1 on", name, n, hop)
		}
		take(p, uint32(number))
	}
	return lines.Err()
}
