// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs that people measure and fetch with, through masquerade and through a
// door, both families.
func TestTools(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	content := strings.Repeat("a page of some length\n", 200_000)
	page := filepath.Join(t.TempDir(), "page")
	must(t, os.WriteFile(page, []byte(content), 0o600))
	for _, host := range []*namespace{n.client, n.isp} {
		host.daemon("iperf3", "-s")
		l := host.listen("[::]:80")
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, page) })}
		go func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}()
	}
	before := n.carried("lan")
	for _, f := range []struct{ name, isp, outside string }{{"IPv4", ispV4, outsideV4}, {"IPv6", ispV6, outsideV6}} {
		t.Run("iperf3 masqueraded "+f.name, func(t *testing.T) { n.iperf3(t, n.client, f.isp) })
		t.Run("iperf3 by a door "+f.name, func(t *testing.T) { n.iperf3(t, n.isp, f.outside) })
		t.Run("curl masqueraded "+f.name, func(t *testing.T) { curl(t, n.client, net.JoinHostPort(f.isp, "80"), content) })
		t.Run("curl by a door "+f.name, func(t *testing.T) { curl(t, n.isp, net.JoinHostPort(f.outside, "8080"), content) })
	}
	n.wantCarried("lan", before, 10_000)
}

// iperf3 sends by TCP in both directions and by UDP.
func (n *network) iperf3(t *testing.T, from *namespace, address string) {
	for _, args := range [][]string{{"-n", "20M"}, {"-n", "20M", "-R"}, {"-u", "-b", "8M", "-t", "3", "-l", "1200"}} {
		var report struct {
			Error string `json:"error"`
			End   struct {
				Received struct {
					Bytes uint64 `json:"bytes"`
				} `json:"sum_received"`
				UDP struct {
					Packets uint64 `json:"packets"`
					Lost    uint64 `json:"lost_packets"`
				} `json:"sum"`
			} `json:"end"`
		}
		before := n.losses()
		var out string
		eventually(t, "iperf3 gets through", func() bool { // its server needs a moment, at first and between clients
			var err error
			out, err = from.command("", "iperf3", append([]string{"-c", address, "-J"}, args...)...)
			return err == nil
		})
		must(t, json.Unmarshal([]byte(out), &report))
		udp := args[0] == "-u"
		if !udp && report.End.Received.Bytes < 5<<20 { // what is on its way at the end does not count
			t.Errorf("iperf3 %v: %d bytes of 20 MB received; %s", args, report.End.Received.Bytes, report.Error)
		}
		// A machine that is busy lets the server's socket overflow: that is not the router's loss.
		if u := report.End.UDP; udp {
			after := n.losses()
			if overflown := after.overflown() - before.overflown(); u.Packets < 1000 || u.Lost > overflown+u.Packets/100 {
				t.Errorf("iperf3 %v: %d of %d datagrams lost, %d of them by full sockets; what has moved:\n%s", args, u.Lost, u.Packets, overflown, after.since(before))
			}
		}
	}
}

// curl fetches a page.
func curl(t *testing.T, from *namespace, address, want string) {
	out := from.run("", "curl", "-sS", "-g", "--max-time", "20", "http://"+address+"/")
	if sha256.Sum256([]byte(out)) != sha256.Sum256([]byte(want)) {
		t.Errorf("the page from %s has %d bytes, want %d", address, len(out), len(want))
	}
}
