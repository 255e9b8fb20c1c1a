// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/testing/testimage"
)

// provider is who the router's WAN leads to: it leases one address, and keeps what comes from it.
type provider struct {
	host
	address netip.Addr // it leases this one
	self    netip.Addr
	came    chan []byte // UDP packets for hosts behind it
}

func provide(t *testing.T, port *testimage.Port) *provider {
	p := &provider{
		host:    host{t: t, port: port, name: "provider", mac: hostMAC(0)},
		address: netip.MustParseAddr("198.51.100.50"), self: netip.MustParseAddr("198.51.100.1"), came: make(chan []byte, 64),
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			frame := port.Receive(100 * time.Millisecond)
			if frame == nil || p.leased(frame) || p.neighbour(frame) || len(frame) < 42 || binary.BigEndian.Uint16(frame[12:]) != typeIPv4 || frame[23] != 17 {
				continue
			}
			switch binary.BigEndian.Uint16(frame[36:]) {
			case 67:
				p.lease(frame[42:])
				continue
			case 53:
				p.name(frame)
				continue
			}
			select {
			case p.came <- frame[14:]:
			default: // nobody looks
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return p
}

// leased tells whether a frame asks for who has the address that is leased: nobody, until the client takes it.
func (p *provider) leased(frame []byte) bool {
	return len(frame) >= 42 && binary.BigEndian.Uint16(frame[12:]) == typeARP && bytes.Equal(frame[38:42], p.address.AsSlice())
}

// lease answers a client's DHCPDISCOVER with an offer, and its DHCPREQUEST with an acknowledgement (RFC 2131, 4.3).
func (p *provider) lease(request []byte) {
	kind := option(request, 53)
	if len(kind) != 1 || kind[0] != 1 && kind[0] != 3 {
		return
	}
	reply := bytes.Clone(request[:240])
	reply[0] = 2
	copy(reply[16:], p.address.AsSlice())
	reply = append(reply, 53, 1, map[byte]byte{1: 2, 3: 5}[kind[0]])
	for code, value := range map[byte][]byte{1: {255, 255, 255, 0}, 3: p.self.AsSlice(), 6: p.self.AsSlice(), 51: {0, 0, 0x0e, 0x10}, 54: p.self.AsSlice()} {
		reply = append(append(reply, code, byte(len(value))), value...)
	}
	reply = append(reply, 255)
	p.datagram(packet.MAC(request[28:34]), p.self, netip.MustParseAddr("255.255.255.255"), 67, 68, reply)
}

// name answers a question for a name's IPv4 address with 203.0.113.77 (RFC 1035, 4.1), and any other with nothing.
func (p *provider) name(frame []byte) {
	question := frame[42:]
	end := 12
	for end < len(question) && question[end] != 0 {
		end += 1 + int(question[end])
	}
	if end += 5; end > len(question) {
		return
	}
	reply := bytes.Clone(question[:end])
	copy(reply[2:], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
	if binary.BigEndian.Uint16(question[end-4:]) == 1 {
		reply[7] = 1
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 77)
	}
	src, dst := netip.AddrFrom4([4]byte(frame[26:30])), netip.AddrFrom4([4]byte(frame[30:34]))
	p.datagram(packet.MAC(frame[6:12]), dst, src, 53, binary.BigEndian.Uint16(frame[34:]), reply)
}

// option is the value of an option of a DHCP message, nil where it has none.
func option(message []byte, code byte) []byte {
	for b := message[min(240, len(message)):]; len(b) >= 2 && b[0] != 255; {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		if n := int(b[1]); b[0] == code && len(b) >= 2+n {
			return b[2 : 2+n]
		}
		b = b[min(len(b), 2+int(b[1])):]
	}
	return nil
}

// datagram sends a UDP packet to a MAC address.
func (h host) datagram(to packet.MAC, src, dst netip.Addr, from, port uint16, payload []byte) {
	udp := binary.BigEndian.AppendUint16(nil, from)
	udp = binary.BigEndian.AppendUint16(udp, port)
	udp = binary.BigEndian.AppendUint16(udp, uint16(8+len(payload)))
	udp = append(append(udp, 0, 0), payload...)
	binary.BigEndian.PutUint16(udp[6:], packet.UpperChecksum(src, dst, 17, udp))
	h.send(packet.Ethernet{Dst: to, Src: h.mac, Type: typeIPv4}.Append(nil, packet.IPv4{TTL: 64, Protocol: 17, Src: src, Dst: dst}.Append(nil, udp)))
}

// ask sends DHCP messages of a kind until one of the kind that answers it comes back.
func (h host) ask(kind byte, options ...byte) (yours netip.Addr, answer []byte) {
	h.t.Helper()
	message := make([]byte, 240)
	message[0], message[1], message[2] = 1, 1, 6
	copy(message[4:], "mnne")
	copy(message[28:], h.mac[:])
	copy(message[236:], []byte{99, 130, 83, 99})
	message = append(append(append(message, 53, 1, kind), options...), 255)
	for limit := time.Now().Add(testimage.Patience); time.Now().Before(limit); {
		h.datagram(packet.MAC{255, 255, 255, 255, 255, 255}, netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255"), 68, 67, message)
		for again := time.Now().Add(3 * time.Second); time.Now().Before(again); {
			frame := h.port.Receive(time.Until(again))
			if frame == nil {
				break
			}
			if h.neighbour(frame) || len(frame) < 42+240 || frame[23] != 17 || binary.BigEndian.Uint16(frame[36:]) != 68 {
				continue
			}
			if answer := frame[42:]; bytes.Equal(option(answer, 53), []byte{map[byte]byte{1: 2, 3: 5}[kind]}) {
				return netip.AddrFrom4([4]byte(answer[16:20])), answer
			}
		}
	}
	h.t.Fatalf("%s: no DHCP server answered a message of kind %d", h.name, kind)
	return netip.Addr{}, nil
}

// TestFirstBoot answers the five questions by Enter: then hosts of the LAN get addresses
// and reach the Internet with the address that the provider has leased, and admin logs in
// with the password that was shown. A picture of the questions is kept.
func TestFirstBoot(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t), Ports: 2})
	wan := provide(t, m.Ports[0])
	lan := host{t: t, port: m.Ports[1], name: "lan", mac: hostMAC(1)}
	m.Expect(`Enter makes one, s opens a shell: `)
	m.Monitor("sendkey ret") // on the screen, too, where nobody answers
	m.Type("\n")
	m.Expect(`1\. Which port leads to the Internet \(WAN\)\? \[1\]`)
	time.Sleep(10 * time.Second) // for the screen; nothing depends on it
	ppm := filepath.Join(t.TempDir(), "screen.ppm")
	m.Screen(ppm)
	picture(t, ppm, "../../build/screen-setup.png")
	m.Type("\n")
	m.Expect(`2\. How does the WAN get its address\?`)
	m.Expect(`\[dhcp\]: `)
	m.Type("\n")
	m.Expect(`3\. Address of this router in the LAN\? \[192\.168\.77\.1/24\]: `)
	m.Type("\n")
	m.Expect(`4\. Name of this router\? \[minne\]: `)
	m.Type("attic\n")
	m.Expect(`5\. Login by SSH from the LAN\?`)
	m.Expect(`\[off\]: `)
	m.Type("\n")
	m.Expect(`attic is a router now`)
	password := m.Expect(`user admin, password\s+(\S+)\s`)[1]

	signIn(m, password)
	if out := m.Run("find /etc /var /run /root /tmp -xdev -type f | xargs grep -l " + password + "; logread | grep -c " + password + "; true"); strings.TrimSpace(out) != "0" {
		t.Errorf("the password is kept: %s", out)
	}

	offered, answer := lan.ask(1)
	router := netip.MustParseAddr("192.168.77.1")
	if !bytes.Equal(option(answer, 3), router.AsSlice()) || !bytes.Equal(option(answer, 6), router.AsSlice()) {
		t.Errorf("the LAN is offered the router %v and the DNS server %v", option(answer, 3), option(answer, 6))
	}
	mine, _ := lan.ask(3, append(append([]byte{54, 4}, router.AsSlice()...), append([]byte{50, 4}, offered.AsSlice()...)...)...)
	if !netip.MustParsePrefix("192.168.77.0/24").Contains(mine) || mine == router {
		t.Fatalf("a host of the LAN was given %v", mine)
	}
	if out := m.Run("for i in $(seq 60); do ip route | grep -q default && break; sleep 1; done; ip -color=never route"); !strings.Contains(out, "default via 198.51.100.1 ") {
		t.Fatalf("no default route of the lease:\n%s\n%s", out, m.Run("ip address; logread | tail -n 40"))
	}
	if out := m.Run("chronyc -h /run/minne/services/chronyd/var/chronyd.sock tracking 2>&1 || true; logread | grep chronyd"); strings.Contains(out, "Could not open") {
		t.Errorf("the time server's control socket:\n%s", out)
	}
	if out := m.Run("nslookup upgrades.example 2>&1"); !strings.Contains(out, "203.0.113.77") {
		t.Errorf("the router itself asks for a name:\n%s\n%s", out, m.Run("ls -l /etc/resolv.conf; cat /etc/resolv.conf /run/minne/resolv.conf; true"))
	}
	outside := netip.MustParseAddr("203.0.113.9")
	for limit := time.Now().Add(testimage.Patience); ; {
		lan.datagram(parseMAC(testimage.PortMAC(1)), mine, outside, 4000, 9, []byte("out"))
		lan.answer(200 * time.Millisecond)
		select {
		case got := <-wan.came:
			if netip.AddrFrom4([4]byte(got[16:20])) != outside {
				continue // a question of the router's own
			}
			if from := netip.AddrFrom4([4]byte(got[12:16])); from != wan.address {
				t.Errorf("a packet of %v comes out from %v, want %v", mine, from, wan.address)
			}
			m.Type("reboot\n")
			signIn(m, password)
			m.Run("! grep -q '\"failed\"' /run/minne/boot.json")
			return
		case <-time.After(time.Second):
		}
		if time.Now().After(limit) {
			t.Fatal("nothing of the LAN comes out to the provider\n" + m.Run("nft list ruleset; ip route; minne show fast-path"))
		}
	}
}

// leave puts a file on the FAT partition of a machine that is off, as any PC can.
func leave(t *testing.T, disk, name, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	fat(t, disk, "mcopy", file, "::"+name)
}

// fat runs a program of mtools on the FAT partition of a disk.
func fat(t *testing.T, disk, program string, args ...string) string {
	t.Helper()
	at := fmt.Sprintf("%s@@%d", disk, partitions(t, disk)["minne-esp"].start)
	out, err := exec.Command(program, append([]string{"-i", at}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return string(out)
}

// TestAnswers sets routers up by files on the FAT partition: nobody touches a console.
func TestAnswers(t *testing.T) {
	t.Run("answers.yaml", func(t *testing.T) {
		disk := testimage.Copy(t)
		leave(t, disk, "answers.yaml", "wan: \""+testimage.PortMAC(0)+"\"\nwan-address: 198.51.100.2/24\nwan-gateway: 198.51.100.1\nwan-dns: [198.51.100.1]\nlan: 192.0.2.1/24\nhostname: edge\n")
		m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
		m.Expect(`user admin, password\s+(\S+)\s`)
		m.Expect(`forwarding since`)
		wan := host{t: t, port: m.Ports[0], name: "wan", mac: hostMAC(0)}
		lan := host{t: t, port: m.Ports[1], name: "lan", mac: hostMAC(1)}
		if open := knock(t, wan, "198.51.100.9", "198.51.100.2", testimage.PortMAC(0), []int{22, 53, 80, 443}); len(open) > 0 {
			t.Errorf("open from the WAN: %v", open)
		}
		if open := knock(t, lan, "192.0.2.10", "192.0.2.1", testimage.PortMAC(1), []int{22, 53}); len(open) != 1 || open[0] != 53 {
			t.Errorf("open from the LAN: %v, want 53", open)
		}
	})
	t.Run("minne.yaml", func(t *testing.T) {
		disk := testimage.Copy(t)
		leave(t, disk, "minne.yaml", plain)
		m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
		m.Expect(`forwarding since`)
		forwards(t, m)
	})
	t.Run("wrong", func(t *testing.T) {
		disk := testimage.Copy(t)
		leave(t, disk, "answers.yaml", "wan: eth9\nlann: 192.0.2.1/24\n")
		m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
		m.Expect(`answers\.yaml:2`)
		shell(m)
		if out := m.Run("cat /proc/sys/net/ipv4/ip_forward; ls /var/lib/minne/revisions 2>/dev/null; true"); strings.TrimSpace(out) != "0" {
			t.Errorf("answers that are wrong made a router: %s", out)
		}
	})
}

// TestRemoteHands holds a key at boot: the archive is on the stick's FAT partition, which
// any PC reads.
func TestRemoteHands(t *testing.T) {
	disk := configured(t)
	m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2})
	m.Expect(`hold t to write a tech-support archive`)
	held, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for range 100 { // as long as a person holds it, and ends by itself
			select {
			case <-held:
				return
			case <-time.After(100 * time.Millisecond):
				m.Type("t")
			}
		}
	}()
	let := sync.OnceFunc(func() { close(held); <-ended })
	defer let()
	name := m.Expect(`(minne-\S+\.tar\.gz) on the partition MINNE`)[1]
	let()
	m.Off()
	fat(t, disk, "mcopy", "::"+name, filepath.Join(t.TempDir(), "archive"))
	t.Log(fat(t, disk, "mdir", "-b"))
}

// TestPluggedLater has a router whose LAN is a card that is not there at boot: what is
// missing is completed when it is plugged in.
func TestPluggedLater(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), Ports: 1,
		Extra: []string{"-device", "pcie-root-port,id=empty,slot=1", "-netdev", "hubport,id=later,hubid=1"}})
	m.Expect(`this is missing of it:\s+.*lan`)
	login(m)
	m.Monitor("device_add e1000e,netdev=later,bus=empty,mac=" + testimage.PortMAC(1))
	m.Run("until ip -br address show lan 2>/dev/null | grep -q 192.0.2.1/24; do sleep 1; done")
	m.Run("until minne show boot --json | grep -q '\"forwarding\": [1-9]'; do sleep 1; done")
	m.Run("minne show interfaces | grep -w lan")
}
