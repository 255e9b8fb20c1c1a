// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// wire sends and receives raw frames on a link.
type wire struct {
	t  testing.TB
	fd int
}

func newWire(t testing.TB, l netlink.Link) *wire {
	t.Helper()
	all := int(network16(unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20))
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network16(unix.ETH_P_ALL), Ifindex: l.Attrs().Index}))
	return &wire{t, fd}
}

func (w *wire) send(frame []byte) {
	w.t.Helper()
	if _, err := unix.Write(w.fd, frame); err != nil {
		w.t.Fatalf("sending %d bytes: %v", len(frame), err)
	}
}

// next returns the next frame that keep accepts, nil after wait.
func (w *wire) next(wait time.Duration, keep func([]byte) bool) []byte {
	w.t.Helper()
	deadline := time.Now().Add(wait)
	buf := make([]byte, 9000)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return nil
		}
		poll := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, int(left.Milliseconds())+1); n == 0 || err != nil {
			continue
		}
		n, _, err := unix.Recvfrom(w.fd, buf, unix.MSG_DONTWAIT)
		if err == nil && keep(buf[:n]) {
			return bytes.Clone(buf[:n])
		}
	}
}

// addressed keeps IP frames for a MAC, so that ARP, ND and MLD don't disturb.
func addressed(mac net.HardwareAddr) func([]byte) bool {
	return func(f []byte) bool {
		return len(f) > 14 && bytes.Equal(f[:6], mac) && (f[12] == 0x08 && f[13] == 0 || f[12] == 0x86 && f[13] == 0xdd)
	}
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// eventually waits until the fast path has heard of something.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
