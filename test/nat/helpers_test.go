// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const helped = `firewall:
  helpers: [%s]
  policies:
    - {from: dmz, to: wan, rules: [permit tcp any any ftp, "permit udp any any tftp,sip"]}
    - {from: wan, to: dmz, rules: [permit tcp any any ftp]}
nat:
  - {from: dmz, to: wan, masquerade: true, families: [ipv4, ipv6]}
  - {from: wan, forward: {protocol: tcp, port: 21, target: 10.3.0.17}}
`

// FTP through masquerade and through a port forward, in both modes. The rules
// permit port 21 alone.
func TestFTP(t *testing.T) { tryFTP(t, newBed(t)) }

func tryFTP(t *testing.T, b *bed) {
	b.apply(fmt.Sprintf(helped, "ftp"))
	b.ftp(&b.outside)
	b.ftp(&b.inside)
	passive, active := []string{"--disable-epsv"}, []string{"--ftp-port", "-", "--disable-eprt"}
	for _, c := range []struct {
		name    string
		on      *host
		url     string
		options []string
	}{
		{"masquerade, passive", &b.inside, "ftp://203.0.113.9/", passive},
		{"masquerade, extended passive", &b.inside, "ftp://203.0.113.9/", nil},
		{"masquerade, active", &b.inside, "ftp://203.0.113.9/", active},
		{"masquerade, extended active", &b.inside, "ftp://203.0.113.9/", []string{"--ftp-port", "-"}},
		{"forward, passive", &b.outside, "ftp://203.0.113.1/", passive},
		{"forward, extended passive", &b.outside, "ftp://203.0.113.1/", nil},
		{"forward, active", &b.outside, "ftp://203.0.113.1/", active},
		{"IPv6, passive", &b.inside, "ftp://[2001:db8:ff::9]/", nil},
		{"IPv6, active", &b.inside, "ftp://[2001:db8:ff::9]/", []string{"--ftp-port", "-"}},
	} {
		if got, err := b.fetch(c.on, "", c.url+"file", c.options...); err != nil || got != fileText {
			t.Errorf("%s: %q, %v\n%v", c.name, got, err, flows(t, 6))
		}
	}
	b.apply(strings.Replace(helped, "helpers: [%s]", "icmp-limit: 50", 1))
	b.unanswered(&b.inside, "ftp://203.0.113.9/file", active...)
}

const fileText = "the file\n"

// ftp serves one file on a host: what of RFC 959 and RFC 2428 a client needs to fetch it.
func (b *bed) ftp(on *host) {
	l := b.listen(on, ":21")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go (&session{b: b, on: on, c: c}).serve()
		}
	}()
}

// session is one control connection.
type session struct {
	b    *bed
	on   *host
	c    net.Conn
	data func() (net.Conn, error) // makes the data connection
}

var active = regexp.MustCompile(`^PORT (\d+),(\d+),(\d+),(\d+),(\d+),(\d+)|^EPRT \|[12]\|([^|]+)\|(\d+)\|`)

func (s *session) serve() {
	defer s.c.Close()
	_ = s.c.SetDeadline(time.Now().Add(10 * time.Second))
	s.say("220 ready")
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := s.c.Read(one); err != nil {
			return
		}
		if one[0] != '\n' {
			line = append(line, one[0])
			continue
		}
		s.answer(strings.TrimSpace(string(line)))
		line = nil
	}
}

func (s *session) say(words string) { fmt.Fprintf(s.c, "%s\r\n", words) }

func (s *session) answer(line string) {
	verb, _, _ := strings.Cut(line, " ")
	switch verb {
	case "USER":
		s.say("230 logged in")
	case "PWD":
		s.say(`257 "/"`)
	case "EPSV", "PASV":
		s.passive(verb)
	case "PORT", "EPRT":
		m := active.FindStringSubmatch(line)
		if m == nil {
			s.say("501 what?")
			return
		}
		address, port := m[7], m[8]
		if verb == "PORT" {
			high, _ := strconv.Atoi(m[5])
			low, _ := strconv.Atoi(m[6])
			address, port = strings.Join(m[1:5], "."), strconv.Itoa(high*256+low)
		}
		s.data = func() (c net.Conn, err error) {
			s.on.do(s.b.t, func() { c, err = net.DialTimeout("tcp", net.JoinHostPort(address, port), 3*time.Second) })
			return c, err
		}
		s.say("200 good")
	case "TYPE", "CWD":
		s.say("200 good")
	case "SIZE":
		s.say(fmt.Sprint("213 ", len(fileText)))
	case "RETR":
		s.send()
	case "QUIT":
		s.say("221 bye")
	default:
		s.say("502 unknown")
	}
}

// passive opens a port for the data connection, and says where.
func (s *session) passive(verb string) {
	own := s.c.LocalAddr().(*net.TCPAddr)
	l := s.b.listen(s.on, net.JoinHostPort(own.IP.String(), "0"))
	s.data = l.Accept
	port := l.Addr().(*net.TCPAddr).Port
	if verb == "EPSV" {
		s.say(fmt.Sprintf("229 Extended passive mode (|||%d|)", port))
		return
	}
	s.say(fmt.Sprintf("227 Passive mode (%s,%d,%d)", strings.ReplaceAll(own.IP.String(), ".", ","), port>>8, port&255))
}

func (s *session) send() {
	s.say("150 coming")
	data, err := s.data()
	if err != nil {
		s.say("425 no data connection")
		return
	}
	fmt.Fprint(data, fileText)
	data.Close()
	s.say("226 sent")
}

// TFTP answers from a port of its own.
func TestTFTP(t *testing.T) { tryTFTP(t, newBed(t)) }

func tryTFTP(t *testing.T, b *bed) {
	b.apply(fmt.Sprintf(helped, "tftp"))
	door := b.udp(&b.outside, "203.0.113.9:69")
	go func() {
		request := make([]byte, 600)
		for {
			n, from, err := door.ReadFromUDP(request)
			if err != nil {
				return
			}
			if n > 2 && request[1] == 1 { // a request to read; a retransmitted one is answered anew
				data := b.udp(&b.outside, "203.0.113.9:0")
				_, _ = data.WriteToUDP(append([]byte{0, 3, 0, 1}, fileText...), from)
			}
		}
	}()
	if got, err := b.fetch(&b.inside, "", "tftp://203.0.113.9/file"); err != nil || got != fileText {
		t.Errorf("%q, %v\n%v", got, err, flows(t, 17))
	}
}

// A call by SIP: the addresses in the invitation are translated, and the voice that
// answers reaches the phone inside.
func TestSIP(t *testing.T) { trySIP(t, newBed(t)) }

func trySIP(t *testing.T, b *bed) {
	b.apply(fmt.Sprintf(helped, "sip"))
	phone, voice := b.udp(&b.inside, "10.3.0.17:5060"), b.udp(&b.inside, "10.3.0.17:4000")
	far, farVoice := b.udp(&b.outside, "203.0.113.9:5060"), b.udp(&b.outside, "203.0.113.9:6000")
	const session = "v=0\r\no=- 1 1 IN IP4 10.3.0.17\r\ns=-\r\nc=IN IP4 10.3.0.17\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
	invite := "INVITE sip:bob@203.0.113.9 SIP/2.0\r\nVia: SIP/2.0/UDP 10.3.0.17:5060;branch=z9hG4bK1\r\nFrom: <sip:alice@10.3.0.17>;tag=1\r\nTo: <sip:bob@203.0.113.9>\r\n" +
		"Call-ID: 1@10.3.0.17\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@10.3.0.17:5060>\r\nMax-Forwards: 70\r\nContent-Type: application/sdp\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(session), session)
	_, err := phone.WriteTo([]byte(invite), &net.UDPAddr{IP: net.ParseIP("203.0.113.9"), Port: 5060})
	must(t, err)
	got, _ := receive(t, far)
	_, body, _ := bytes.Cut(got, []byte("\r\n\r\n"))
	media := regexp.MustCompile(`c=IN IP4 203\.0\.113\.1\r\n[^m]*m=audio (\d+) `).FindSubmatch(body)
	length := regexp.MustCompile(`Content-Length: (\d+)`).FindSubmatch(got)
	if media == nil || bytes.Contains(body, []byte("10.3.0.17")) || !bytes.Contains(got, []byte("Via: SIP/2.0/UDP 203.0.113.1:")) {
		t.Fatalf("the invitation arrives as\n%s", got)
	}
	if length == nil || string(length[1]) != strconv.Itoa(len(body)) {
		t.Errorf("a body of %d bytes with %s", len(body), length)
	}
	port, _ := strconv.Atoi(string(media[1]))
	_, err = farVoice.WriteTo([]byte("hello"), &net.UDPAddr{IP: net.ParseIP("203.0.113.1"), Port: port})
	must(t, err)
	if got, from := receive(t, voice); string(got) != "hello" || from != "203.0.113.9:6000" {
		t.Errorf("the voice arrives as %q from %s", got, from)
	}
}

// receive reads one datagram.
func receive(t *testing.T, c *net.UDPConn) ([]byte, string) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	buffer := make([]byte, 4096)
	n, from, err := c.ReadFromUDP(buffer)
	if err != nil {
		t.Fatalf("nothing arrives: %v\n%v", err, flows(t, 17))
	}
	return buffer[:n], from.String()
}
