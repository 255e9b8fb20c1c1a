// SPDX-License-Identifier: Apache-2.0

// Package uml runs the router in User-Mode Linux between hosts in namespaces, over kinds of interfaces that
// this host's kernel may lack and that Minne's configuration can't make yet: VRFs, bonds, bridges, WireGuard,
// PPPoE. They are made before the daemon starts; Minne addresses and routes over them. Where the fast path can
// carry the traffic, its counters have to show that it did; where it can't, `show fast-path` has to say
// why, and the kernel's counters that it carried it.
package uml

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"minne/internal/lab"
	"minne/internal/lab/blueprint"
	"minne/internal/subsystem/fastpath"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// bed is a lab that is up, with one Minne in User-Mode Linux, the node router.
type bed struct {
	*blueprint.Network
	router *lab.Minne
}

// build builds the network of a topology file's text.
func build(t *testing.T, text string) bed {
	t.Helper()
	network, err := blueprint.Parse(t.Name()+".yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	minne := binary(t) // outside of the deadline: it may have to be compiled
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	up, err := network.Up(ctx, minne)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", up.Routers["router"].Log(20))
		}
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return bed{up, up.Routers["router"]}
}

var built string

// binary builds minne once and fetches the kernel once.
func binary(t *testing.T) string {
	t.Helper()
	if built != "" {
		return built
	}
	tree, err := lab.UMLTree()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "../../scripts/fetch-uml.sh", tree).CombinedOutput(); err != nil {
		t.Fatalf("fetch User-Mode Linux from Debian's packages: %v\n%s", err, out)
	}
	dir, err := os.MkdirTemp("", "minne-uml-")
	if err != nil {
		t.Fatal(err)
	}
	built = testbuild.Minne(t, dir)
	return built
}

// run runs a command in a node.
func (b bed) run(t *testing.T, node string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := b.Node(node).Run(ctx, argv...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

func (b bed) observe(t *testing.T) (o fastpath.Observed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := b.router.JSON(ctx, &o, "show", "fast-path"); err != nil {
		t.Fatal(err)
	}
	return o
}

// port returns what show fast-path says of a port, once the fast path is ready.
func (b bed) port(t *testing.T, name string) fastpath.ObservedPort {
	t.Helper()
	var found fastpath.ObservedPort
	b.until(t, "the fast path is ready and knows "+name, func() error {
		o := b.observe(t)
		for _, p := range o.Ports {
			if p.Name == name && o.Ready {
				found = p
				return nil
			}
		}
		return fmt.Errorf("ready %v, ports %+v", o.Ready, o.Ports)
	})
	return found
}

// forwards wants that a port runs the fast path and sends for it.
func (b bed) forwards(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		b.until(t, "the fast path sends on "+name, func() error {
			if p := b.port(t, name); p.Mode != "generic" || !p.Transmits {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
	}
}

// leaves wants that show fast-path leaves a port to the kernel and says why.
func (b bed) leaves(t *testing.T, why string, names ...string) {
	t.Helper()
	for _, name := range names {
		if p := b.port(t, name); p.Mode != "off" || !strings.Contains(p.Why, why) {
			t.Errorf("port %s: mode %s because %q, expected it off with %q", name, p.Mode, p.Why, why)
		}
	}
}

// carried is how many packets each path of the router has forwarded.
type carried struct{ fast, kernel uint64 }

func (b bed) carried(t *testing.T) (c carried) {
	t.Helper()
	for _, traffic := range b.observe(t).Traffic {
		c.fast += traffic.TxPackets
	}
	var err error
	if c.kernel, err = b.Node("router").KernelForwarded(false); err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	fast   = "the fast path"
	kernel = "the kernel"
)

// talk pings from one node to an address of another, sends bytes both ways over TCP, and wants that nearly all of it
// was carried by one of the two paths: first packets ask for neighbours and are the kernel's anyway.
func (b bed) talk(t *testing.T, from, to, address, path string) {
	t.Helper()
	// As neighbours and routes become known.
	b.until(t, from+" reaches "+address, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := b.Node(from).Run(ctx, "ping", "-c", "1", "-W", "1", address)
		return err
	})
	const pings = 20
	b.until(t, "what passes from "+from+" to "+address+" is carried by "+path, func() error {
		before := b.carried(t)
		b.run(t, from, "ping", "-q", "-c", fmt.Sprint(pings), "-i", "0.02", "-W", "5", address)
		b.transfer(t, from, to, address)
		after := b.carried(t)
		grown := carried{after.fast - before.fast, after.kernel - before.kernel}
		// A transfer of 64 kB each way has at least 45 full segments in each direction.
		const least = 2*pings + 90
		switch {
		case path == fast && (grown.fast < least || grown.kernel > grown.fast/4), path == kernel && (grown.kernel < least || grown.fast > 0):
			return fmt.Errorf("the fast path forwarded %d packets, the kernel %d", grown.fast, grown.kernel)
		}
		t.Logf("%s to %s: fast path %d packets, kernel %d", from, address, grown.fast, grown.kernel)
		return nil
	})
}

// transfer sends 64 kB over TCP to an echo in the other node and wants them back.
func (b bed) transfer(t *testing.T, from, to, address string) {
	t.Helper()
	at := net.JoinHostPort(address, "7")
	var listener net.Listener
	var err error
	if err := b.Node(to).Do(func() error { listener, err = net.Listen("tcp", at); return err }); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c) //nolint:errcheck // the client misses what did not come
	}()
	sent := bytes.Repeat([]byte("minne in UML -- "), 4096)
	err = b.Node(from).Do(func() error {
		c, err := net.DialTimeout("tcp", at, 10*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			return err
		}
		go func() {
			c.Write(sent) //nolint:errcheck // what is missing is missed below
			c.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if err == nil && !bytes.Equal(got, sent) {
			err = fmt.Errorf("%d of %d bytes came back, or others", len(got), len(sent))
		}
		return err
	})
	if err != nil {
		t.Fatalf("TCP from %s to %s: %v", from, at, err)
	}
}

func (b bed) until(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := lab.Until(t.Context(), time.Minute, what, ok); err != nil {
		t.Fatal(err)
	}
}
