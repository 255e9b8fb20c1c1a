// SPDX-License-Identifier: Apache-2.0

package flowexport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"minne/internal/base/sink"
	"minne/internal/model/config"
	"minne/internal/model/flowrecord"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// decoder reads IPFIX as RFC 7011 says, and knows nothing of our templates.
type decoder struct {
	templates map[uint16][]field
	next      uint32 // data records so far
	records   []map[string]uint64
}

type field struct {
	name   string // enterprise.id
	length int
}

func (d *decoder) message(b []byte) error {
	be := binary.BigEndian
	if len(b) < 16 || be.Uint16(b) != 10 || int(be.Uint16(b[2:])) != len(b) {
		return fmt.Errorf("header % x of %d bytes", b[:min(len(b), 16)], len(b))
	}
	if got := be.Uint32(b[8:]); got != d.next {
		return fmt.Errorf("sequence %d after %d records", got, d.next)
	}
	for b = b[16:]; len(b) > 0; {
		if len(b) < 4 || int(be.Uint16(b[2:])) > len(b) || be.Uint16(b[2:]) < 4 {
			return fmt.Errorf("set % x", b)
		}
		id, set := be.Uint16(b), b[4:be.Uint16(b[2:])]
		b = b[be.Uint16(b[2:]):]
		for id == 2 && len(set) >= 4 {
			name, count := be.Uint16(set), be.Uint16(set[2:])
			set = set[4:]
			var t []field
			for range count {
				f := field{fmt.Sprint("0.", be.Uint16(set)), int(be.Uint16(set[2:]))}
				if be.Uint16(set)&0x8000 != 0 {
					f.name = fmt.Sprint(be.Uint32(set[4:]), ".", be.Uint16(set)&0x7fff)
					set = set[4:]
				}
				set, t = set[4:], append(t, f)
			}
			d.templates[name] = t
		}
		if id < 256 {
			continue
		}
		size := 0
		for _, f := range d.templates[id] {
			size += f.length
		}
		if size == 0 {
			return fmt.Errorf("no template %d", id)
		}
		for ; len(set) >= size; d.next++ {
			r := map[string]uint64{}
			for _, f := range d.templates[id] {
				for _, c := range set[:f.length] { // of an IPv6 address the last 8 bytes
					r[f.name] = r[f.name]<<8 | uint64(c)
				}
				set = set[f.length:]
			}
			d.records = append(d.records, r)
		}
	}
	return nil
}

// read reads messages from a stream until there are so many records.
func (d *decoder) read(r io.Reader, records int) error {
	for len(d.records) < records {
		b := make([]byte, 16)
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		b = append(b, make([]byte, max(int(binary.BigEndian.Uint16(b[2:]))-16, 0))...)
		if _, err := io.ReadFull(r, b[16:]); err != nil {
			return err
		}
		if err := d.message(b); err != nil {
			return err
		}
	}
	return nil
}

// sample is n records of all kinds, each with other figures.
func sample(n int) (list []flowrecord.Record) {
	end := netip.MustParseAddrPort
	for i := range n {
		r := flowrecord.Record{From: time.UnixMilli(1e12 + int64(i)), To: time.UnixMilli(1e12 + 500 + int64(i)), Protocol: 6, Answered: true,
			Source: end("192.0.2.10:1000"), Called: end("198.51.100.9:443"), Reason: flowrecord.Reason(i % 5),
			Packets: [2]uint64{uint64(i) + 1, 2 * uint64(i)}, Bytes: [2]uint64{1 << 40, uint64(i) << 33},
			In: flowrecord.Way{Index: 3}, Out: flowrecord.Way{Index: 1 << 20}}
		if i%3 == 0 {
			r.Source, r.Called = end("[2001:db8:1::10]:1000"), end("[2001:db8:2::9]:443")
		}
		r.Seen, r.Destination = r.Source, r.Called
		if i%3 == 1 {
			r.Seen = end("203.0.113.1:40123")
		}
		list = append(list, r)
	}
	return list
}

func (d *decoder) compare(t *testing.T, list []flowrecord.Record) {
	t.Helper()
	if len(d.records) != len(list) {
		t.Fatalf("%d records, expected %d", len(d.records), len(list))
	}
	for i, got := range d.records {
		if len(list) > 10000 && i%97 != 0 { // maps take long
			continue
		}
		r := &list[i]
		want := map[string]uint64{"0.152": uint64(r.From.UnixMilli()), "0.153": uint64(r.To.UnixMilli()), "0.7": 1000, "0.11": 443, "0.4": 6, "0.10": 3, "0.14": 1 << 20,
			"0.1": r.Bytes[0], "0.2": r.Packets[0], "29305.1": r.Bytes[1], "29305.2": r.Packets[1], "0.239": 1,
			"0.136": map[flowrecord.Reason]uint64{flowrecord.Lasts: 2, flowrecord.Closed: 3, flowrecord.Reset: 3, flowrecord.Deleted: 4, flowrecord.Expired: 1}[r.Reason],
			"0.234": 0}
		switch i % 3 {
		case 0:
			want["0.27"], want["0.28"] = 0x10, 9
		case 1:
			want["0.225"], want["0.227"], want["0.226"], want["0.228"] = 203<<24|113<<8|1, 40123, 198<<24|51<<16|100<<8|9, 443
			if r.Reason != flowrecord.Lasts {
				want["0.230"] = 5
			}
			fallthrough
		case 2:
			want["0.8"], want["0.12"] = 192<<24|2<<8|10, 198<<24|51<<16|100<<8|9
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("record %d\ngot  %v\nwant %v", i, got, want)
		}
	}
}

// certificate signs itself, for 127.0.0.1, and is good for both ends.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...))
}

// Over TCP and TLS a collector gets every record, in messages with the right numbers; when the connection ends, the next one begins with the
// templates. A collector with another certificate gets nothing.
func TestStreams(t *testing.T) {
	own, ca := certificate(t)
	_, stranger := certificate(t)
	for _, transport := range []string{"tcp", "tls"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			if transport == "tls" {
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM([]byte(ca))
				listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
			}
			x := &Exporter{feed: flowrecord.NewFeed(), collectors: map[string]*collector{}}
			s := Settings{sink.Server{At: netip.MustParseAddrPort(listener.Addr().String()), Transport: transport, CA: ca, Certificate: ca, Name: "127.0.0.1"}, "ipfix", 0}
			x.collector("a", s) // which makes the queue
			ctx, end := context.WithCancelCause(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					_ = x.work(ctx, "a", s, func() {}) // it is tried again, as by package resident
				}
			}()
			for range 2 {
				// Told when the exporter has noticed that the last connection ended: what it writes before is lost with it.
				conn, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				list := sample(5000)
				x.feed.Tell(list)
				d := decoder{templates: map[uint16][]field{}}
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				if err := d.read(conn, len(list)); err != nil {
					t.Fatal(err)
				}
				d.compare(t, list)
				for until := time.Now().Add(time.Minute); x.sending() && time.Now().Before(until); {
					time.Sleep(time.Millisecond)
				}
				conn.Close()
			}
			if got, _ := x.Observe(ctx); got.Collectors[0].Records != 10000 || got.Collectors[0].Lost != 0 {
				t.Errorf("%+v", got)
			}
			end(resident.ErrRemoved)
			<-ended
			if transport == "tls" {
				s.CA = stranger
				go func() {
					for { // one that was begun before the collector was removed may come first
						conn, err := listener.Accept()
						if err != nil {
							return
						}
						_, _ = conn.Read(make([]byte, 1)) // the handshake fails
						conn.Close()
					}
				}()
				if err := x.work(t.Context(), "other", s, func() {}); err == nil || !strings.Contains(err.Error(), "certificate") {
					t.Errorf("a stranger's certificate: %v", err)
				}
			}
		})
	}
}

// A collector that is removed from the configuration while nobody answers is forgotten, with what waited for it.
func TestRemoved(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(listener.Addr().String())
	listener.Close()
	r := Service.New(service.Host{Log: slog.New(slog.DiscardHandler), Flows: flowrecord.NewFeed()})
	x := r.Task.(*Exporter)
	want := map[string]Settings{}
	for _, name := range []string{"a", "b"} {
		want[name] = Settings{sink.Server{At: at, Transport: "tcp"}, "ipfix", 0}
	}
	if err := x.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); len(x.Down()) != 2; time.Sleep(time.Millisecond) { // refused, and waiting for the next try
		if time.Now().After(until) {
			t.Fatalf("%v", x.Down())
		}
	}
	delete(want, "a")
	if err := x.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, _ := x.Observe(t.Context()); len(got.Collectors) != 1 || got.Collectors[0].Name != "b" {
		t.Errorf("there are %+v", got)
	}
	if err := x.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A collector that does not answer holds up nobody: what does not fit is lost, and counted; what fits is sent when it answers.
func TestFullQueue(t *testing.T) {
	x := &Exporter{feed: flowrecord.NewFeed(), collectors: map[string]*collector{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := Settings{sink.Server{At: netip.MustParseAddrPort(listener.Addr().String()), Transport: "tcp"}, "ipfix", 0}
	x.collector("a", s)
	list := sample(waiting)
	x.feed.Tell(list)
	x.feed.Tell(list[:7])
	if got, _ := x.Observe(t.Context()); got.Collectors[0].Waiting != waiting || got.Collectors[0].Lost != 7 {
		t.Errorf("%+v", got)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = x.work(ctx, "a", s, func() {}) // ends with ctx
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d := decoder{templates: map[uint16][]field{}}
	if err := d.read(conn, waiting); err != nil {
		t.Fatal(err)
	}
	d.compare(t, list)
	end()
	<-ended
}

// Over UDP the templates come again, and no datagram is longer than a line carries.
func TestTemplatesAgain(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	x := &Exporter{feed: flowrecord.NewFeed(), collectors: map[string]*collector{}}
	s := Settings{sink.Server{At: netip.MustParseAddrPort(conn.LocalAddr().String()), Transport: "udp"}, "ipfix", 10 * time.Millisecond}
	x.collector("a", s)
	list := sample(40)
	x.feed.Tell(list)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = x.work(ctx, "a", s, func() {}) // ends with ctx
	}()
	d, again := decoder{templates: map[uint16][]field{}}, 0
	for b := make([]byte, 4096); again < 3 || len(d.records) < len(list); {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		n, _, err := conn.ReadFrom(b)
		if err != nil || n > mostMessage {
			t.Fatal(n, err)
		}
		if binary.BigEndian.Uint16(b[16:]) == 2 {
			again++
		}
		if err := d.message(b[:n]); err != nil {
			t.Fatal(err)
		}
	}
	d.compare(t, list)
	end()
	<-ended
}

func TestRender(t *testing.T) {
	cfg, err := config.Parse("test.yaml", []byte(`version: 1
interfaces: {lan: {zone: lan, addresses: [192.0.2.1/24]}}
flow-log: {collectors: {a: {address: 192.0.2.20}, b: {address: 192.0.2.21, protocol: netflow9}, c: {address: "2001:db8::1", transport: tls, name: c.example.net}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	all, err := Render(cfg, config.Secrets{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "flows to a (192.0.2.20:4739, ipfix over udp)", "b": "flows to b (192.0.2.21:2055, netflow9 over udp)",
		"c": "flows to c ([2001:db8::1]:4740, ipfix over tls)"} {
		if got := fact(name, all[name]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if all["a"].Templates != time.Minute || all["c"].Name != "c.example.net" || len(openings(cfg)) != 3 {
		t.Errorf("%+v", all)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, protocol := range []string{"ipfix", "netflow9"} {
		b.Run(protocol, func(b *testing.B) {
			bytes := 0
			e := newEncoder(protocol == "netflow9", func(m []byte) error { bytes += len(m); return nil })
			list := sample(1000)
			b.ReportAllocs()
			for i := range b.N {
				_ = e.add(&list[i%len(list)])
			}
			b.ReportMetric(float64(bytes)/float64(b.N), "bytes/record")
		})
	}
}
