// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// TestDummy has an interface without a cable made, whose address answers by a port, and taken away again.
func TestDummy(t *testing.T) {
	far := newHost(t, "d0", "d1")
	r := startRouter(t)
	const port = `
version: 1
system: {hostname: stick, router-id: 10.0.50.1}
interfaces:
  port: {match: {name: d0}, addresses: [10.0.50.1/24]}
`
	r.apply(t, port+"  loop1: {dummy: {}, addresses: [10.0.51.1/32]}\n")
	far.do(t, func() {
		addAddress(t, "d1", "10.0.50.2/24")
		addRoute(t, "10.0.51.1/32", "10.0.50.1")
	})
	here, err := netns.Get()
	must(t, err)
	defer here.Close()
	echo(t, host{ns: here}, far, "10.0.51.1:7", 3)
	link, err := netlink.LinkByName("loop1")
	must(t, err)
	if link.Type() != "dummy" {
		t.Errorf("loop1 is a %s", link.Type())
	}
	r.apply(t, port)
	if _, err := netlink.LinkByName("loop1"); err == nil {
		t.Error("loop1 is still there after its configuration went")
	}
}
