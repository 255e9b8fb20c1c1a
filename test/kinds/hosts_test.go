// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// host is a network namespace at the far end of one of the router's ports.
type host struct {
	ns   netns.NsHandle
	link string
}

// newHost makes a namespace and a veth from port, in this namespace, to link inside.
func newHost(t *testing.T, port, link string) host {
	t.Helper()
	h := host{link: link}
	a := netlink.NewLinkAttrs()
	a.Name = port
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: link}); err != nil {
		t.Fatal(err)
	}
	far, err := netlink.LinkByName(link)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if h.ns, err = netns.New(); err != nil {
		t.Fatal(err)
	}
	if err := netns.Set(here); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetNsFd(far, int(h.ns)); err != nil {
		t.Fatal(err)
	}
	h.do(t, func() {
		// A veth passes on offloads that a cable can't: tags beside the frame and
		// checksums not yet computed. XDP sees only the frame. GRO makes the veth
		// take frames that XDP redirects to it.
		ethtool(t, link, 0x26, 0) // ETHTOOL_SFLAGS: no VLAN offloads
		ethtool(t, link, 0x17, 0) // ETHTOOL_STXCSUM
		ethtool(t, link, 0x2c, 1) // ETHTOOL_SGRO
		up(t, link)
	})
	return h
}

// do runs f with the calling thread inside the host's namespace.
func (h host) do(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if err := netns.Set(h.ns); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(here); err != nil {
			panic(err) // the thread must not be used by others
		}
	}()
	f()
}

func up(t *testing.T, name string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err != nil {
		t.Fatalf("link %s up: %v", name, err)
	}
}

func addAddress(t *testing.T, name, address string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	a, err := netlink.ParseAddr(address)
	if err != nil {
		t.Fatal(err)
	}
	a.Flags = unix.IFA_F_NODAD
	if err := netlink.AddrAdd(l, a); err != nil {
		t.Fatalf("address %s on %s: %v", address, name, err)
	}
}

func ethtool(t *testing.T, name string, command, value uint32) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	argument := struct{ command, value uint32 }{command, value}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		rest [16]byte
	}{data: unsafe.Pointer(&argument)}
	copy(request.name[:], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatalf("ethtool %#x on %s: %v", command, name, errno)
	}
}

// wire sends and captures whole frames at a host's end of the cable.
type wire struct{ fd int }

func (h host) wire(t *testing.T) wire {
	t.Helper()
	var w wire
	h.do(t, func() {
		link, err := netlink.LinkByName(h.link)
		if err != nil {
			t.Fatal(err)
		}
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
			t.Fatal(err)
		}
		all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
		if err := unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index}); err != nil {
			t.Fatal(err)
		}
		second := unix.Timeval{Sec: 1}
		if err := unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { unix.Close(w.fd) })
	return w
}

func (w wire) send(t *testing.T, frame []byte) {
	t.Helper()
	if _, err := unix.Write(w.fd, frame); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// receive returns the next frame that arrives and that wanted accepts, as it was on the wire; nil after two seconds.
func (w wire) receive(t *testing.T, wanted func([]byte) bool) []byte {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		frame, aux := make([]byte, 2048), make([]byte, 256)
		n, auxLen, _, from, err := unix.Recvmsg(w.fd, frame, aux, 0)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if whole := withTag(t, frame[:n], aux[:auxLen]); wanted(whole) {
			return whole
		}
	}
	return nil
}

// withTag puts the outer tag, which the kernel takes off before sockets see a frame, back in.
func withTag(t *testing.T, frame, aux []byte) []byte {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(aux)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
			continue
		}
		// struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
		status := binary.NativeEndian.Uint32(m.Data)
		if status&unix.TP_STATUS_VLAN_VALID == 0 {
			continue
		}
		tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(m.Data[18:]))
		tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(m.Data[16:]))
		return append(append(append([]byte(nil), frame[:12]...), tag...), frame[12:]...)
	}
	return frame
}
