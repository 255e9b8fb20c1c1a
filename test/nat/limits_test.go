// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"net"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A flood of pings is one connection, and bounded nevertheless; another host's pings pass.
func TestICMPLimit(t *testing.T) {
	b := newBed(t)
	b.apply(`firewall: {policies: [{from: any, to: any, default: permit}]}
nat: [{from: dmz, to: wan, masquerade: true, families: [ipv4, ipv6]}]
limits: [{from: dmz, icmp: 10/h}]
`)
	for _, c := range []struct{ from, other, to string }{
		{"10.3.0.17", "10.3.0.18", "203.0.113.9"}, {"fd00:3::17", "", "2001:db8:ff::9"},
	} {
		out, _ := b.try(&b.inside, "ping", "-c", "40", "-i", "0.01", "-W", "1", "-I", c.from, c.to)
		m := regexp.MustCompile(`(\d+) received`).FindStringSubmatch(out)
		if m == nil || m[1] != "10" {
			t.Errorf("of 40 pings: %v\n%s", m, out)
		}
		if c.other != "" {
			b.run(&b.inside, "ping", "-c", "1", "-W", "2", "-I", c.other, c.to)
		}
	}
	b.run(&b.lan, "ping", "-c", "12", "-i", "0.01", "-W", "2", "10.1.0.1")
}

// What a SYN flood may do to one host, whoever it says it comes from; the hosts
// beside it are not hurt, nor are connections that exist.
func TestSYNLimit(t *testing.T) {
	b := newBed(t)
	b.apply(`firewall: {policies: [{from: wan, to: [dmz, self], default: permit}]}
nat: [{from: dmz, to: wan, one-to-one: {outside: 203.0.113.16/29, inside: 10.3.0.16/29}}]
limits: [{from: wan, syn-to-host: 10/h}]
`)
	b.web(&b.inside, ":80")
	var open atomic.Int32
	var all sync.WaitGroup
	kept := make(chan net.Conn, 40)
	for i := range 40 {
		all.Go(func() {
			b.outside.do(t, func() {
				// Tried again after one second and after three, in vain too: the rate is ten an hour.
				d := net.Dialer{Timeout: 4 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: 20000 + i}}
				if c, err := d.Dial("tcp", "203.0.113.17:80"); err == nil {
					open.Add(1)
					kept <- c
				}
			})
		})
	}
	all.Wait()
	if open.Load() != 10 {
		t.Fatalf("%d connections of 40\n%s", open.Load(), b.rules())
	}
	b.sees(&b.outside, "", "http://203.0.113.18/", "203.0.113.9 to 10.3.0.18")
	c := <-kept
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := readAll(c); !regexp.MustCompile(`203\.0\.113\.9 to 10\.3\.0\.17$`).MatchString(got) {
		t.Errorf("on an open connection: %q", got)
	}
	for range len(kept) {
		(<-kept).Close()
	}
}
