// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/md5"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/vendors/mikrotik"
	"layeh.com/radius/vendors/wispr"

	"minne/internal/model/config"
	"minne/internal/subsystem/services/service"
)

// box is a service with a firewall and a meter that remember, and a clock that is set.
type box struct {
	*Login
	now      time.Time
	admitted map[netip.Addr]config.MAC
	sums     map[netip.Addr]Traffic
	joined   []Subscriber
}

func (b *box) Feed(_ string, all map[netip.Addr]config.MAC)   { b.admitted = all }
func (b *box) Refeed(string, map[netip.Addr]config.MAC) error { return nil }
func (b *box) ChangeFed(_ string, put map[netip.Addr]config.MAC, del []netip.Addr) error {
	for _, a := range del {
		delete(b.admitted, a)
	}
	for a, m := range put {
		b.admitted[a] = m
	}
	return nil
}

func (b *box) Join(_ context.Context, list []Subscriber) (int, error) {
	b.joined = list
	return 0, nil
}

type meter struct{ b *box }

func (meter) Watch(netip.Addr)                                       {}
func (meter) Forget(netip.Addr)                                      {}
func (m meter) Read(context.Context) (map[netip.Addr]Traffic, error) { return m.b.sums, nil }

// newBox is one with the store of a directory.
func newBox(t testing.TB, dir string, l config.Login) *box {
	t.Helper()
	b := &box{Login: New(service.Host{RunDir: dir, StateDir: dir, Config: filepath.Join(dir, "minne.yaml"), Log: slog.New(slog.DiscardHandler)}),
		now: time.Unix(1_700_000_000, 0), admitted: map[netip.Addr]config.MAC{}, sums: map[netip.Addr]Traffic{}}
	if b.broken != nil {
		t.Fatal(b.broken)
	}
	b.clock = func() time.Time { return b.now }
	b.UseFirewall(b, meter{b}, b)
	b.settings = Desired{"net": {Login: l, Secret: "campus"}}
	b.of = map[string]string{"lan": "net"}
	b.hosts.ifaces = []string{"lan"}
	return b
}

// enter and use begin sessions as the portal does.
func (b *box) enter(s *Session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begin(s)
}

func (b *box) use(s *Session, code string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byVoucher(s, code)
}

func (b *box) session(mac byte) *Session {
	return &Session{Login: "net", MAC: config.MAC{2, 0, 0, 0, 0, mac}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, mac})}, Idle: Span(time.Hour)}
}

// A voucher has its time from the first use on, over restarts; its bytes are those of all its devices.
func TestVoucher(t *testing.T) {
	dir := t.TempDir()
	l := config.Login{Interfaces: []string{"lan"}, Users: []string{"vouchers"}}
	b := newBox(t, dir, l)
	made, err := b.AddVouchers(VouchersWanted{Count: 1, Seconds: 3600, Bytes: 1000, Devices: 2})
	if err != nil {
		t.Fatal(err)
	}
	code := made.Vouchers[0].Code
	for mac := byte(1); mac <= 2; mac++ {
		if err := b.use(b.session(mac), strings.ToLower(code)); err != nil {
			t.Fatal(err)
		}
	}
	var words refusal
	if err := b.use(b.session(3), code); !errors.As(err, &words) || !strings.Contains(string(words), "2 devices") {
		t.Errorf("a third device: %v", err)
	}
	if err := b.use(b.session(3), "AAAAA-AAAAA"); err != errWrong {
		t.Errorf("no code: %v", err)
	}
	if len(b.admitted) != 2 {
		t.Fatalf("admitted: %v", b.admitted)
	}
	b.sums[netip.MustParseAddr("192.0.2.1")] = Traffic{100, 200}
	b.count(t.Context())
	b.flush()
	if v := b.vouchers[digest(readCode(code))]; v.Used.sum() != 300 {
		t.Errorf("used: %+v", v.Used)
	}
	b.store.Close()

	b = newBox(t, dir, l)
	b.now = b.now.Add(time.Minute)
	if len(b.sessions) != 2 || len(b.admitted) != 2 {
		t.Fatalf("after a restart: %d sessions, admitted %v", len(b.sessions), b.admitted)
	}
	b.sums[netip.MustParseAddr("192.0.2.1")] = Traffic{10, 0} // the meter begins anew
	b.count(t.Context())
	b.flush()
	if s := b.sessions[hostID{"net", config.MAC{2, 0, 0, 0, 0, 1}}]; s.Traffic != (Traffic{110, 200}) {
		t.Errorf("counted over a restart: %+v", s.Traffic)
	}
	if v := b.vouchers[digest(readCode(code))]; v.Used.sum() != 310 {
		t.Errorf("used: %+v", v.Used)
	}
	b.sums[netip.MustParseAddr("192.0.2.1")] = Traffic{1000, 0}
	b.count(t.Context())
	if len(b.sessions) != 0 || len(b.admitted) != 0 { // both devices: they share the bytes
		t.Errorf("its bytes are used up, and there are %d sessions", len(b.sessions))
	}
	if err := b.use(b.session(4), code); !errors.As(err, &words) || !strings.Contains(string(words), "bytes are used up") {
		t.Errorf("a voucher that is used up: %v", err)
	}
	if len(b.having) != 0 {
		t.Errorf("users with sessions: %v", b.having)
	}
	made, err = b.AddVouchers(VouchersWanted{Count: 1, Seconds: 3600, Devices: 1})
	if err != nil {
		t.Fatal(err)
	}
	code = made.Vouchers[0].Code
	if err := b.use(b.session(1), code); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Hour)
	b.count(t.Context())
	if len(b.sessions) != 0 || len(b.admitted) != 0 {
		t.Errorf("its time is up, and there are %d sessions", len(b.sessions))
	}
	if err := b.use(b.session(4), code); !errors.As(err, &words) || !strings.Contains(string(words), "time is up") {
		t.Errorf("a voucher that is used up: %v", err)
	}
}

// A quota is that of all devices of a user, in a calendar month, over restarts.
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	start := func(b *box, at string) *box {
		if b != nil {
			b.store.Close()
		}
		b = newBox(t, dir, config.Login{Interfaces: []string{"lan"}})
		s := b.settings["net"]
		s.Quota = 1000
		b.settings["net"] = s
		var err error
		if b.now, err = time.ParseInLocation(time.DateTime, at, time.Local); err != nil {
			t.Fatal(err)
		}
		return b
	}
	user := func(b *box, mac byte) *Session {
		s := b.session(mac)
		s.User, s.Kind, s.Idle = "ada", "local", Span(1000*time.Hour)
		return s
	}
	b := start(nil, "2026-11-29 12:00:00")
	if err := errors.Join(b.enter(user(b, 1)), b.enter(user(b, 2))); err != nil {
		t.Fatal(err)
	}
	use := func(mac byte, n uint64) {
		b.sums[netip.AddrFrom4([4]byte{192, 0, 2, mac})] = Traffic{n, 0}
		b.count(t.Context())
	}
	use(1, 600)
	if v, _ := b.Users(t.Context()); len(v.Users) != 2 || *v.Users[1].BytesLeft != 400 {
		t.Errorf("%+v", v)
	}
	b.flush()
	b = start(b, "2026-11-30 12:00:00")
	use(2, 399)
	if len(b.sessions) != 2 {
		t.Fatalf("%d sessions within the quota", len(b.sessions))
	}
	use(2, 400)
	var words refusal
	if err := b.enter(user(b, 1)); len(b.sessions) != 0 || !errors.As(err, &words) || !strings.Contains(string(words), "quota") {
		t.Errorf("%d sessions beyond the quota, %v", len(b.sessions), err)
	}
	b = start(b, "1970-01-01 00:00:00") // a board whose clock is not set yet
	if err := b.enter(user(b, 1)); !errors.As(err, &words) {
		t.Errorf("with the clock set back: %v", err)
	}
	b.flush()
	b = start(b, "2026-12-01 00:00:01")
	if err := b.enter(user(b, 1)); err != nil {
		t.Errorf("in the next month: %v", err)
	}
	use(1, 1)
	b.flush()
	if b = start(b, "2026-12-31 23:00:00"); len(b.accounts) != 1 || b.accounts["net local ada"].Used.sum() != 1 {
		t.Errorf("%+v", b.accounts)
	}
}

// The devices of a user share one speed, and keep it over a restart; other users have their own, by names that fit.
func TestRate(t *testing.T) {
	dir := t.TempDir()
	l := config.Login{Interfaces: []string{"lan"}, Rate: &config.LoginRate{Down: 2e6, Up: 1e6}}
	b := newBox(t, dir, l)
	long := strings.Repeat("x", longestUse)
	for mac, user := range []string{"ada", "ada", "bob", long, long + "y"} {
		s := b.session(byte(mac + 1))
		s.User, s.Kind = user, "local"
		if err := b.enter(s); err != nil {
			t.Fatal(err)
		}
	}
	was := b.subscribers()
	names := map[string]int{}
	for _, s := range was {
		names[s.Name] = len(s.MACs)
		if len(s.Name) > config.LongestSubscriber || s.Rate != *l.Rate || s.Interface != "lan" {
			t.Errorf("%+v", s)
		}
	}
	if len(was) != 4 || len(names) != 4 || len(was[0].MACs) != 2 || !strings.HasPrefix(was[0].Name, "net/ada~") {
		t.Errorf("%+v", was)
	}
	b.store.Close()
	if b = newBox(t, dir, l); len(b.joined) != 4 || b.joined[0].Name != was[0].Name || b.joined[0].Rate != *l.Rate {
		t.Errorf("before the first commit of a new daemon: %+v", b.joined)
	}
	b.mu.Lock()
	l.Rate = nil
	b.settings["net"] = Settings{Login: l}
	if list := b.subscribers(); len(list) != 0 {
		t.Errorf("without a rate: %+v", list)
	}
	b.mu.Unlock()
}

// A host that is admitted gets its other addresses, and no address of somebody else.
func TestAddresses(t *testing.T) {
	b := newBox(t, t.TempDir(), config.Login{Interfaces: []string{"lan"}})
	one, two := b.session(1), b.session(2)
	if err := errors.Join(b.enter(one), b.enter(two)); err != nil {
		t.Fatal(err)
	}
	six := netip.MustParseAddr("2001:db8::1")
	b.learned("lan", six, one.MAC)
	b.learned("lan", six, two.MAC)
	b.learned("lan", one.Addresses[0], two.MAC)
	b.learned("wan", netip.MustParseAddr("2001:db8::2"), one.MAC)
	b.learned("lan", netip.MustParseAddr("2001:db8::3"), config.MAC{9})
	if len(b.admitted) != 3 || b.admitted[six] != one.MAC || b.admitted[one.Addresses[0]] != one.MAC {
		t.Errorf("admitted: %v", b.admitted)
	}
	if b.counters.Conflicts != 2 {
		t.Errorf("%d conflicts", b.counters.Conflicts)
	}
	for n := range mostAddresses + 8 {
		b.learned("lan", netip.AddrFrom16([16]byte{0x20, 1, 15: byte(n)}), one.MAC)
	}
	if len(one.Addresses) != mostAddresses || len(b.admitted) != mostAddresses+1 {
		t.Errorf("%d addresses, %d admitted", len(one.Addresses), len(b.admitted))
	}
}

// Three failed logins within a minute lock, for the time of lockout.
func TestLockout(t *testing.T) {
	l := config.Login{Attempts: 3, Lockout: config.Duration(15 * time.Minute)}
	b := newBox(t, t.TempDir(), l)
	keys := keysOf("net", config.MAC{1}, "ada")
	for _, after := range []time.Duration{0, 50 * time.Second, 50 * time.Second} {
		b.now = b.now.Add(after)
		b.failed(&l, keys)
	}
	if wait := b.locked(keys); wait > 0 {
		t.Errorf("locked after three in 100 seconds: %v", wait)
	}
	b.now = b.now.Add(5 * time.Second)
	b.failed(&l, keys)
	if wait := b.locked(keysOf("net", config.MAC{2}, "ada")); wait != 15*time.Minute {
		t.Errorf("the account has to wait %v", wait)
	}
	if wait := b.locked(keysOf("net", config.MAC{2}, "bob")); wait > 0 {
		t.Errorf("others have to wait %v", wait)
	}
	b.now = b.now.Add(15 * time.Minute)
	if wait := b.locked(keys); wait > 0 {
		t.Errorf("still locked: %v", wait)
	}
}

// The law of probes keeps its floor and its bound.
func TestInterval(t *testing.T) {
	for n, want := range map[int]time.Duration{0: time.Minute, 15_000: time.Minute, 30_000: 2 * time.Minute} {
		if got := interval(n); got != want {
			t.Errorf("%d hosts: %v", n, got)
		}
	}
}

// campus is a RADIUS server that knows ada.
type campus struct {
	mu      sync.Mutex
	records []string
	forge   bool // its answers have no Message-Authenticator
}

func (c *campus) ServeRADIUS(w radius.ResponseWriter, r *radius.Request) {
	if r.Code == radius.CodeAccountingRequest {
		c.mu.Lock()
		c.records = append(c.records, strings.Join([]string{rfc2866.AcctStatusType_Get(r.Packet).String(), rfc2865.UserName_GetString(r.Packet), rfc2865.Class_GetString(r.Packet), rfc2866.AcctTerminateCause_Get(r.Packet).String()}, " "))
		c.mu.Unlock()
		_ = w.Write(r.Response(radius.CodeAccountingResponse))
		return
	}
	sum := slices.Clone(r.Get(rfc2869.MessageAuthenticator_Type))
	r.Set(rfc2869.MessageAuthenticator_Type, make([]byte, md5.Size))
	want, _ := authenticator(r.Packet)
	pap := rfc2865.UserPassword_GetString(r.Packet) == "secret"
	chap := false
	if p := rfc2865.CHAPPassword_Get(r.Packet); len(p) == 17 {
		h := md5.Sum(slices.Concat(p[:1], []byte("secret"), rfc2865.CHAPChallenge_Get(r.Packet)))
		chap = slices.Equal(h[:], p[1:])
	}
	code := radius.CodeAccessReject
	if slices.Equal(sum, want) && rfc2865.UserName_GetString(r.Packet) == "ada" && (pap || chap) {
		code = radius.CodeAccessAccept
	}
	answer := r.Response(code)
	_ = rfc2865.SessionTimeout_Set(answer, 600)
	_ = rfc2865.Class_SetString(answer, "staff")
	_ = wispr.WISPrBandwidthMaxDown_Set(answer, 8_000_000)
	if !c.forge {
		signedAnswer := *answer
		signedAnswer.Authenticator = r.Authenticator
		signedAnswer.Set(rfc2869.MessageAuthenticator_Type, make([]byte, md5.Size))
		mac, _ := authenticator(&signedAnswer)
		answer.Set(rfc2869.MessageAuthenticator_Type, mac)
	}
	_ = w.Write(answer)
}

// twoPorts are sockets at a port and the next one.
func twoPorts(t *testing.T) (list []net.PacketConn) {
	t.Helper()
	for range 100 {
		first, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := first.LocalAddr().(*net.UDPAddr).AddrPort()
		second, err := net.ListenPacket("udp", netip.AddrPortFrom(at.Addr(), at.Port()+1).String())
		if err == nil {
			return []net.PacketConn{first, second}
		}
		first.Close()
	}
	t.Fatal("no two ports beside each other are free")
	return nil
}

// RADIUS knows users by PAP and CHAP; an answer that may be forged admits nobody; sessions are told of, and ended by the server.
func TestRADIUS(t *testing.T) {
	server := &campus{}
	port := 0
	for _, conn := range twoPorts(t) {
		t.Cleanup(func() { conn.Close() })
		if port == 0 {
			port = conn.LocalAddr().(*net.UDPAddr).Port
		}
		s := radius.PacketServer{Handler: server, SecretSource: radius.StaticSecretSource([]byte("campus"))}
		go s.Serve(conn)
	}
	on := config.OnOff(true)
	l := config.Login{Interfaces: []string{"lan"}, Users: []string{"radius"}, Rate: &config.LoginRate{Down: 2e6, Up: 1e6}, RADIUS: &config.LoginRADIUS{Servers: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: port, Method: "pap", Accounting: &on, Changes: &on}}
	b := newBox(t, t.TempDir(), l)
	settings := b.settings["net"]
	for _, method := range []string{"pap", "chap"} {
		l.RADIUS.Method = method
		if err := b.radius.ask(t.Context(), settings, b.session(1), "ada", "wrong"); err != errWrong {
			t.Errorf("%s, a wrong password: %v", method, err)
		}
		if err := b.radius.ask(t.Context(), settings, b.session(1), "ada", "secret"); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	server.forge = true
	if err := b.radius.ask(t.Context(), settings, b.session(1), "ada", "secret"); err != errNoServer {
		t.Errorf("an answer without Message-Authenticator: %v", err)
	}
	server.forge = false
	s := b.session(1)
	s.User, s.Kind = "ada", "radius"
	if err := b.radius.ask(t.Context(), settings, s, "ada", "secret"); err != nil || !s.Until.Equal(b.now.Add(10*time.Minute)) || string(s.Class[0]) != "staff" {
		t.Errorf("limits: %+v %v", s, err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case one := <-b.radius.records:
				if _, err := b.radius.exchange(ctx, one.settings, b.radius.packet(one), port+1); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}
	}()
	if err := b.enter(s); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	if list := b.subscribers(); len(list) != 1 || list[0].Rate != (config.LoginRate{Down: 8e6, Up: 1e6}) {
		t.Errorf("a speed by RADIUS: %+v", list)
	}
	b.mu.Unlock()

	ask := func(q *radius.Packet) radius.Code {
		w := &written{}
		b.radius.change(w, &radius.Request{Packet: q, RemoteAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}})
		return w.code
	}
	coa := radius.New(radius.CodeCoARequest, []byte("campus"))
	_ = rfc2865.UserName_SetString(coa, "ada")
	_ = rfc2865.SessionTimeout_Set(coa, 60)
	if code := ask(coa); code != radius.CodeCoAACK || !s.Until.Equal(b.now.Add(time.Minute)) {
		t.Errorf("CoA: %v, until %v", code, s.Until)
	}
	_ = mikrotik.MikrotikRateLimit_SetString(coa, "3M/500k 6M/1M")
	ask(coa)
	b.mu.Lock()
	if list := b.subscribers(); list[0].Rate != (config.LoginRate{Down: 5e5, Up: 3e6}) {
		t.Errorf("a speed by CoA: %+v", list)
	}
	b.mu.Unlock()
	other := radius.New(radius.CodeDisconnectRequest, []byte("campus"))
	if code := ask(other); code != radius.CodeDisconnectNAK {
		t.Errorf("a request that names nobody: %v", code)
	}
	_ = rfc2865.UserName_SetString(other, "ada")
	_ = rfc2865.CallingStationID_SetString(other, "02-00-00-00-00-02")
	if code := ask(other); code != radius.CodeDisconnectNAK {
		t.Errorf("another host: %v", code)
	}
	_ = rfc2865.CallingStationID_SetString(other, "02-00-00-00-00-01")
	if code := ask(other); code != radius.CodeDisconnectACK || len(b.admitted) != 0 {
		t.Errorf("Disconnect: %v, admitted %v", code, b.admitted)
	}
	want := []string{"Start ada staff ", "Stop ada staff "}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		server.mu.Lock()
		got := slices.Clone(server.records)
		server.mu.Unlock()
		if len(got) == 2 && strings.HasPrefix(got[0], want[0]) && strings.HasPrefix(got[1], want[1]) && strings.HasSuffix(got[1], "Admin-Reset") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("accounting: %q", got)
		}
	}
}

type written struct{ code radius.Code }

func (w *written) Write(p *radius.Packet) error {
	w.code = p.Code
	return nil
}
