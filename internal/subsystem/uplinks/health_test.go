// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// reply is what a target answers to the last ping, with the round's number.
func reply(c *checks, round uint16) []byte {
	b := make([]byte, 16)
	binary.BigEndian.PutUint16(b[4:], c.id)
	binary.BigEndian.PutUint16(b[6:], round)
	return b
}

// TestJudge: an uplink fails after some intervals without any answer, and recovers after some with one; loss and delay count when
// they are bounded.
func TestJudge(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	c := newChecks("wan", Health{Ping: []netip.Addr{one, two}, Fail: 3, Recover: 2, Loss: 40}, func() {})
	round := func(answers ...netip.Addr) {
		c.mu.Lock()
		c.round++
		for i := range c.pings {
			c.pings[i] = append(c.pings[i], ping{sent: time.Now()})
			if len(c.pings[i]) > window {
				c.pings[i] = c.pings[i][1:]
			}
		}
		c.mu.Unlock()
		for _, a := range answers {
			c.answered(reply(c, c.round), a, 0)
		}
		c.judge()
	}
	round(one)
	round()
	round(two) // one that answers is enough
	round()
	round()
	if why := c.failed(); why != "" {
		t.Fatalf("failed after two intervals: %s", why)
	}
	c.answered(reply(c, c.round), netip.MustParseAddr("192.0.2.3"), 0) // a stranger
	other := reply(c, c.round)
	other[4]++
	c.answered(other, one, 0) // somebody else's ping
	c.answered(reply(c, c.round+7), one, 0)
	c.answered(reply(c, c.round)[:7], one, 0)
	round()
	if why := c.failed(); !strings.Contains(why, "no answer to pings from 192.0.2.1, 192.0.2.2") {
		t.Fatalf("after three intervals: %q", why)
	}
	round(two)
	if c.failed() == "" || !c.proven() {
		t.Error("one answer makes it work again")
	}
	round(two)
	if why := c.failed(); why != "" {
		t.Errorf("after two answers: %s", why)
	}
	for i := range window { // every second one is lost
		if i%2 == 0 {
			round()
		} else {
			round(one, two)
		}
	}
	if why := c.failed(); !strings.Contains(why, "% of pings are lost") {
		t.Errorf("half of the pings lost: %q", why)
	}
	for range window {
		round(one)
	}
	if why := c.failed(); why != "" {
		t.Errorf("all good again: %s", why)
	}
	if list := c.targets(); list[0].Loss != 0 || !list[0].Answers || list[1].Loss < 50 || list[1].Answers {
		t.Errorf("targets: %+v", list)
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	m := []byte{8, 0, 0, 0, 0x12, 0x34, 0, 1, 'u', 'p', 'l', 'i', 'n', 'k', '?', 0}
	sum := checksum(m)
	m[2], m[3] = byte(sum>>8), byte(sum)
	if checksum(m) != 0 {
		t.Errorf("checksum of a whole message: %#x, expected 0", checksum(m))
	}
}
