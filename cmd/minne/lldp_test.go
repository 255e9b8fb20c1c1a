// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/services/lldp"
)

// A switch and the router find each other by LLDP where a port is named, also when lldpd was killed, and
// with the fast path on the port. The WAN, which is not named, tells nobody anything.
func TestLLDP(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: lldpd does not stay root
		t.Fatal(err)
	}
	const speak = "exec lldpd -d -d -u $PWD/socket -O $PWD/conf -I eth0"
	hears := func(n *neighbour) string {
		out, _ := n.try("lldpcli -u $PWD/socket show neighbors") // it may have just been started
		return out
	}
	lan, wan := b.newNeighbour("lan"), b.newNeighbour("wan")
	for name, n := range map[string]*neighbour{"switch": lan, "stranger": wan} {
		if n.dir = filepath.Join(b.root, name); os.Mkdir(n.dir, 0o755) != nil { // lldpd leaves root here too
			t.Fatal("no directory", n.dir)
		}
		n.write("conf", "configure system hostname "+name+"\nconfigure lldp portidsubtype ifname\n")
		n.serve(speak)
	}
	b.start()
	b.want(0, "LLDP: off", "show", "lldp", "neighbors")
	const text = "version: 1\nsystem: {hostname: attic}\ninterfaces:\n  wan: {addresses: [198.51.100.1/24], zone: wan}\n  lan: {addresses: [192.0.2.1/24], zone: lan}\n"
	b.want(0, "LLDP on lan", "apply", "--dry-run", b.file("lldp.yaml", text+"services: {lldp: {interfaces: [lan]}}\n"))
	b.want(0, "applied", "apply", b.file("lldp.yaml", text+"services: {lldp: {interfaces: [lan]}}\n"))
	found := func() (o lldp.Observed) {
		b.json(&o, "show", "lldp", "neighbors", "--json")
		return o
	}
	eventually(t, "the switch", func() bool { return len(found().Neighbors) > 0 })
	if o := found(); len(o.Neighbors) != 1 || o.Neighbors[0].Interface != "lan" || o.Neighbors[0].System != "switch" || o.Neighbors[0].Port != "eth0" {
		t.Errorf("%+v", o)
	}
	b.want(0, "switch", "show", "lldp", "neighbor")
	eventually(t, "the switch hears the router", func() bool { return strings.Contains(hears(lan), "attic") })

	service := func() int {
		var v show.ServicesView
		b.json(&v, "show", "services", "--json")
		for _, p := range v.Programs {
			if p.Name == lldp.Name && p.Running {
				return p.PID
			}
		}
		return 0
	}
	before := service()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another lldpd", func() bool { now := service(); return now != 0 && now != before })
	eventually(t, "the switch again", func() bool { return len(found().Neighbors) > 0 })
	if told := hears(wan); strings.Contains(told, "attic") {
		t.Errorf("the WAN was told:\n%s", told)
	}
	b.want(0, "applied", "apply", b.file("off.yaml", text))
	b.want(0, "LLDP: off", "show", "lldp", "neighbors")
}
