// SPDX-License-Identifier: Apache-2.0

package fulltable

import (
	"bytes"
	"compress/gzip"
	"net/netip"
	"testing"
)

func TestLoadHasEveryPrefixOnce(t *testing.T) {
	v4, v6, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(v4) != IPv4Prefixes || len(v6) != IPv6Prefixes {
		t.Fatalf("%d IPv4 and %d IPv6 prefixes, expected %d and %d", len(v4), len(v6), IPv4Prefixes, IPv6Prefixes)
	}
	seen := make(map[netip.Prefix]bool, len(v4)+len(v6))
	for _, p := range append(v4, v6...) {
		if p != p.Masked() {
			t.Fatalf("%s has host bits", p)
		}
		if seen[p] {
			t.Fatalf("%s is there twice", p)
		}
		seen[p] = true
	}
}

func TestReadNamesTheBadLine(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("192.0.2.0/24\n\nnonsense\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := read(&b)
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("line 3")) {
		t.Fatalf("error %v, expected it to name line 3", err)
	}
}
