// SPDX-License-Identifier: Apache-2.0

package invrf

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/testing/testns"
)

// TestMain is also the program that is started: it prints to which device its sockets are bound.
func TestMain(m *testing.M) {
	if os.Getenv("INVRF_SOCKETS") != "" {
		for _, s := range [][3]int{
			{unix.AF_INET, unix.SOCK_DGRAM, 0}, {unix.AF_INET6, unix.SOCK_STREAM, 0}, {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
			{unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
		} {
			fd, err := unix.Socket(s[0], s[1], s[2])
			device := -1
			if err == nil {
				device, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX)
			}
			fmt.Print(device, " ")
			if err != nil {
				fmt.Print(err)
			}
		}
		os.Exit(0)
	}
	testns.Main(m)
}

// TestOpen: the sockets of what is started in a group are bound to the device, also when it is another one than before. Any link
// stands in for a VRF here; test/uml has VRFs.
func TestOpen(t *testing.T) {
	name := fmt.Sprintf("test-%d", os.Getpid())
	t.Cleanup(func() {
		if err := Remove(name); err != nil {
			t.Error(err)
		}
		if err := Remove(name); err != nil {
			t.Errorf("one that is gone: %v", err)
		}
	})
	if out, err := exec.Command("ip", "link", "add", "red", "type", "veth", "peer", "name", "blue").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, device := range []string{"red", "blue"} {
		group, err := Open(name, device)
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), "INVRF_SOCKETS=1")
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
		out, err := c.CombinedOutput()
		group.Close()
		link, wrong := net.InterfaceByName(device)
		if wrong != nil {
			t.Fatal(wrong)
		}
		if want := fmt.Sprintf("%d %[1]d %[1]d 0 ", link.Index); err != nil || string(out) != want {
			t.Errorf("%s: %v: %q, want %q", device, err, out, want)
		}
	}
	if _, err := Open(name, "green"); err == nil || !strings.Contains(err.Error(), "green") {
		t.Errorf("a VRF that is not there: %v", err)
	}
}
