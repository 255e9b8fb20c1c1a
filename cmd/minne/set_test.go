// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

const guestsConfig = `version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24, "2001:db8:1::1/64"]}
  wan: {zone: wan, addresses: [198.51.100.1/24]}
firewall:
  sets:
    guests: {addresses: [192.0.2.200]}
    blocked: {prefixes: [203.0.113.0/24]}
  policies:
    - {from: lan, to: wan, rules: [deny any @blocked, permit tcp @guests any]}
`

// A file of addresses goes into a set as a whole, or not at all.
func TestSetFile(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "applied", "apply", b.file("guests.yaml", guestsConfig))
	list := &strings.Builder{}
	list.WriteString("# those of today\n\n2001:db8:bad::/48   # a network\n")
	for i := range 70_000 {
		fmt.Fprintf(list, "10.%d.%d.%d\n", i>>16, i>>8&255, i&255)
	}
	many := b.file("many.txt", list.String())
	wrong := b.file("wrong.txt", "10.9.0.1\n10.9.0.256\n# a comment\n10.9.0.3/24\n")

	a := b.want(3, "wrong.txt:2:1", "set", "add", "blocked", "-f", wrong)
	if !strings.Contains(a.err, "wrong.txt:4:1") || !strings.Contains(a.err, "did you mean 10.9.0.0/24?") {
		t.Errorf("wrong lines:\n%s", a.err)
	}
	b.want(2, "which elements?", "set", "add", "blocked")
	b.want(1, "no such file", "set", "add", "blocked", "-f", many+"x")
	b.want(1, "overlaps 203.0.113.0/24", "set", "add", "blocked", "203.0.0.0/16", "-f", many)
	if now := b.want(0, "203.0.113.0/24", "set", "list", "blocked").out; strings.Count(now, "\n") != 2 {
		t.Errorf("the set has more than before:\n%.1000s", now)
	}

	b.want(0, "70002 added", "set", "add", "blocked", "192.0.2.77", "-f", many)
	b.want(0, "0 added", "set", "add", "blocked", "-f", many)
	if elements := b.nft("list", "set", "inet", "minne_policy", "blocked_v4"); !strings.Contains(elements, "10.1.17.111") || !strings.Contains(elements, "192.0.2.77") {
		t.Errorf("the kernel's set: %.1000s", elements)
	}
	del := b.command("set", "del", "blocked", "-f", "-")
	del.Stdin = strings.NewReader(list.String())
	var out bytes.Buffer
	del.Stdout, del.Stderr = &out, &out
	if err := del.Run(); err != nil || out.String() != "70001 deleted from blocked\n" {
		t.Errorf("from standard input: %v: %s", err, &out)
	}
	b.want(0, "192.0.2.77", "set", "list", "blocked")
}

// When the time of an address is up, the connections that it alone permitted end.
func TestSetTimeout(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1"})
	wan.echo(":90")
	b.want(0, "applied", "apply", b.file("guests.yaml", guestsConfig))
	lan.wantReach("198.51.100.9:90", "silence")
	b.want(0, "1 added", "set", "add", "guests", "192.0.2.10", "--timeout", "3s")
	c := lan.connect("198.51.100.9:90")
	c.wantEcho(true)
	eventually(t, "the connection ends with its guest's time", func() bool {
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, err := c.Write([]byte("x"))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		return err != nil
	})
	if list := b.want(0, "", "set", "list", "guests").out; strings.Contains(list, "192.0.2.10 ") {
		t.Errorf("its time is not up:\n%s", list)
	}
	lan.wantReach("198.51.100.9:90", "silence")
}
