// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// timeInVRFs has a clock behind the provider of one VRF. The router asks it there, and gives the time in each place: with its own
// stratum where the chronyd serves that asks, and in the other places as a clock that any better one outdoes.
func (b bed) timeInVRFs(t *testing.T, dir string) {
	t.Helper()
	const provided, local = 5, 10
	conf := filepath.Join(dir, "chrony.conf")
	text := fmt.Sprintf("local stratum %d\nallow\ncmdport 0\nbindcmdaddress /\npidfile %s\n", provided, filepath.Join(dir, "chronyd.pid"))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Node("risp").Start("chronyd", "chronyd", "-n", "-x", "-u", "root", "-f", conf); err != nil {
		t.Fatal(err)
	}
	gives := func(node, server string, want byte) {
		t.Helper()
		b.until(t, fmt.Sprintf("%s hears stratum %d", node, want), func() error {
			got, err := b.stratum(node, server)
			if err == nil && got != want {
				err = fmt.Errorf("stratum %d", got)
			}
			return err
		})
	}
	refuses := func(node, server string) {
		t.Helper()
		if got, err := b.stratum(node, server); err == nil {
			t.Errorf("%s finds a clock of stratum %d at %s", node, got, server)
		}
	}
	const own = "192.168.77.1"
	b.apply(t, vrfServices+"  ntp: {servers: [203.0.113.1], vrf: red, interfaces: [rlan, blan, mlan]}\n")
	gives("mhost", own, provided+1) // asked in red, given in the main table
	gives("rhost", own, local)
	gives("bhost", own, local)
	refuses("risp", "203.0.113.50")
	if out := b.run(t, "router", "minne", "show", "services"); !strings.Contains(out, "time from 203.0.113.1 in VRF red") || !strings.Contains(out, "NTP server in VRF blue") {
		t.Errorf("show services:\n%s", out)
	}

	b.apply(t, vrfServices+"  ntp: {servers: [203.0.113.1], vrf: red, interfaces: [rlan, blan]}\n")
	gives("rhost", own, provided+1)
	gives("bhost", own, local)
	refuses("mhost", own)
	refuses("risp", "203.0.113.50")
}

// stratum asks an NTP server, from a node (RFC 5905 section 7.3: version 4, mode 3; the answer's second byte is the stratum).
func (b bed) stratum(node, server string) (stratum byte, err error) {
	err = b.Node(node).Do(func() error {
		c, err := net.DialTimeout("udp", net.JoinHostPort(server, "123"), 5*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		ask, answer := make([]byte, 48), make([]byte, 128)
		ask[0] = 4<<3 | 3
		if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		if _, err := c.Write(ask); err != nil {
			return err
		}
		n, err := c.Read(answer)
		if err == nil && (n < 48 || answer[0]&7 != 4) {
			err = fmt.Errorf("no answer of a server: %x", answer[:n])
		}
		stratum = answer[1]
		return err
	})
	return stratum, err
}
