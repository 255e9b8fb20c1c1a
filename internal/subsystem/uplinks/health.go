// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Pings by an uplink: the sockets are bound to its interface, so routes by others, and routes that are passed over, do not
// count. Interval by interval each target is sent one ping; an interval in which none of them has answered is a bad one.

// window is over how many intervals loss and delay are worked out.
const window = 30

// Target is what is known of one.
type Target struct {
	Address netip.Addr    `json:"address"`
	Answers bool          `json:"answers"`         // the last ping was answered
	Loss    int           `json:"loss_percent"`    // of the last 30
	Delay   time.Duration `json:"delay_ns"`        // median of the last 30
	Error   string        `json:"error,omitempty"` // why pings can't be sent
}

// ping is one that was sent.
type ping struct {
	sent     time.Time
	answered bool
	took     time.Duration
}

// checks are those of one uplink.
type checks struct {
	name    string
	health  Health
	changed func()

	mu    sync.Mutex
	id    uint16
	round uint16   // number of the last ping
	pings [][]ping // of each target, the last ones
	fails []string // why a target could not be sent to
	bad   int      // intervals in a row without an answer
	good  int      // and with one
	why   string   // why the uplink has failed, "" while it works
}

func newChecks(name string, h Health, changed func()) *checks {
	return &checks{name: name, health: h, changed: changed, id: uint16(os.Getpid()) ^ uint16(time.Now().UnixNano()),
		pings: make([][]ping, len(h.Ping)), fails: make([]string, len(h.Ping))}
}

// failed says why the uplink has failed by its checks.
func (c *checks) failed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// proven says whether the last interval was a good one.
func (c *checks) proven() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.good > 0
}

// run pings until ctx ends.
func (c *checks) run(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(c.health.Interval)
	defer tick.Stop()
	var sockets [2]*os.File
	var reading sync.WaitGroup
	closeAll := func() {
		for which, s := range sockets {
			if s != nil {
				s.Close()
				sockets[which] = nil
			}
		}
		reading.Wait()
	}
	defer closeAll()
	bound := 0
	for {
		if index := indexOf(c.name); index != bound { // the interface came, or came back as another
			closeAll()
			bound = index
		}
		for which := range families {
			if bound == 0 || sockets[which] != nil || !slices.ContainsFunc(c.health.Ping, func(a netip.Addr) bool { return whichOf(a) == which }) {
				continue
			}
			s, err := openPing(which, c.name)
			if err != nil {
				log.Debug("cannot ping", "uplink", c.name, "error", err)
				continue
			}
			sockets[which] = s
			reading.Go(func() { c.read(s, which) })
		}
		c.send(sockets)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.judge() {
			c.changed()
		}
	}
}

// openPing opens a socket that sends and receives by one interface only.
func openPing(which int, name string) (*os.File, error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if which == 1 {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("socket for pings: %w", err)
	}
	err = unix.BindToDevice(fd, name)
	if which == 1 && err == nil { // the kernel fills in the checksum; echo replies only
		var only unix.ICMPv6Filter
		for i := range only.Data {
			only.Data[i] = 1<<32 - 1
		}
		only.Data[echoReply6>>5] &^= 1 << (echoReply6 & 31)
		err = unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &only)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("socket for pings by %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), "ping"), nil
}

const (
	echo4, echoReply4 = 8, 0
	echo6, echoReply6 = 128, 129
)

// send sends one ping to each target.
func (c *checks) send(sockets [2]*os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	for i, target := range c.health.Ping {
		which := whichOf(target)
		c.pings[i] = append(c.pings[i], ping{sent: time.Now()})
		if len(c.pings[i]) > window {
			c.pings[i] = c.pings[i][1:]
		}
		if sockets[which] == nil {
			c.fails[i] = "the interface is not there"
			continue
		}
		c.fails[i] = ""
		kind := byte(echo4)
		if which == 1 {
			kind = echo6
		}
		m := make([]byte, 16)
		m[0] = kind
		binary.BigEndian.PutUint16(m[4:], c.id)
		binary.BigEndian.PutUint16(m[6:], c.round)
		copy(m[8:], "uplink?")
		if which == 0 {
			binary.BigEndian.PutUint16(m[2:], checksum(m))
		}
		if err := sendTo(sockets[which], m, target); err != nil {
			c.fails[i] = err.Error()
		}
	}
}

func sendTo(s *os.File, m []byte, to netip.Addr) error {
	var address unix.Sockaddr = &unix.SockaddrInet6{Addr: to.As16()}
	if to.Is4() {
		address = &unix.SockaddrInet4{Addr: to.As4()}
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), m, 0, address) })
	return errors.Join(failed, err)
}

// checksum is that of ICMP (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// read takes in answers until the socket is closed.
func (c *checks) read(s *os.File, which int) {
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 1500)
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, from, failed = unix.Recvfrom(int(fd), buffer, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err != nil {
			return
		}
		if failed != nil {
			continue // an error that an ICMP message brought: the ping has no answer
		}
		b, sender := buffer[:n], netip.Addr{}
		switch a := from.(type) {
		case *unix.SockaddrInet4:
			sender = netip.AddrFrom4(a.Addr)
		case *unix.SockaddrInet6:
			sender = netip.AddrFrom16(a.Addr)
		}
		if which == 0 { // with its IP header
			if len(b) < 20 || len(b) < int(b[0]&15)*4 {
				continue
			}
			b = b[int(b[0]&15)*4:]
		}
		c.answered(b, sender, which)
	}
}

func (c *checks) answered(b []byte, from netip.Addr, which int) {
	kind := byte(echoReply4)
	if which == 1 {
		kind = echoReply6
	}
	if len(b) < 8 || b[0] != kind || binary.BigEndian.Uint16(b[4:]) != c.id {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.health.Ping, from)
	ago := int(c.round - binary.BigEndian.Uint16(b[6:]))
	if i < 0 || ago >= len(c.pings[i]) {
		return
	}
	p := &c.pings[i][len(c.pings[i])-1-ago]
	if !p.answered {
		p.answered, p.took = true, time.Since(p.sent)
	}
}

// judge ends an interval and says whether the verdict on the uplink is another one now.
func (c *checks) judge() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	any := false
	for _, list := range c.pings {
		any = any || len(list) > 0 && list[len(list)-1].answered
	}
	if any {
		c.bad, c.good = 0, c.good+1
	} else {
		c.bad, c.good = c.bad+1, 0
	}
	was := c.why
	poor := c.poor()
	switch {
	case was == "" && c.bad >= c.health.Fail:
		c.why = fmt.Sprintf("no answer to pings from %s", words(c.health.Ping))
	case was == "" && poor != "":
		c.why = poor
	case was != "" && c.good >= c.health.Recover && poor == "":
		c.why = ""
	}
	return c.why != was || c.good == 1
}

// poor says what of loss and delay is worse than the configuration allows, at the best of the targets.
func (c *checks) poor() string {
	best := Target{Loss: 101}
	for i := range c.pings {
		if t := c.target(i); t.Loss < best.Loss || t.Loss == best.Loss && t.Delay < best.Delay {
			best = t
		}
	}
	switch {
	case len(c.pings[0]) < window || best.Loss == 100: // too early, or silence, which is counted otherwise
		return ""
	case c.health.Loss > 0 && best.Loss > c.health.Loss:
		return fmt.Sprintf("%d %% of pings are lost", best.Loss)
	case c.health.Delay > 0 && best.Delay > c.health.Delay:
		return fmt.Sprintf("pings take %v", best.Delay.Round(time.Millisecond))
	}
	return ""
}

// target is what is known of a target. The caller holds mu.
func (c *checks) target(i int) Target {
	t := Target{Address: c.health.Ping[i], Error: c.fails[i]}
	list := c.pings[i]
	if n := len(list); n > 0 && !list[n-1].answered { // perhaps still on its way
		list = list[:n-1]
	}
	var took []time.Duration
	for _, p := range list {
		if p.answered {
			took = append(took, p.took)
		}
	}
	if len(list) > 0 {
		t.Answers = list[len(list)-1].answered
		t.Loss = 100 * (len(list) - len(took)) / len(list)
	}
	if len(took) > 0 {
		slices.Sort(took)
		t.Delay = took[len(took)/2]
	}
	return t
}

func (c *checks) targets() (list []Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.pings {
		list = append(list, c.target(i))
	}
	return list
}

func words(list []netip.Addr) (text string) {
	for i, a := range list {
		if i > 0 {
			text += ", "
		}
		text += a.String()
	}
	return text
}

// indexOf is that of an interface, 0 when there is none.
func indexOf(name string) int {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return i.Index
}
