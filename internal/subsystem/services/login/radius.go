// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2866"
	"layeh.com/radius/rfc2869"
	"layeh.com/radius/rfc6911"

	"minne/internal/model/config"
)

// RADIUS: who a user is (RFC 2865), and what became of sessions (RFC 2866, RFC 2869). Requests carry a Message-Authenticator, and
// answers without a good one are refused (CVE-2024-3596: without it, who can change packets on their way can forge an answer).

const (
	answerWithin = 3 * time.Second  // of one server, with one repetition
	deadFor      = 30 * time.Second // a server that has not answered is asked last for so long
	mostRecords  = 20_000           // accounting that waits
	recordTries  = 20
	againMAC     = 5 * time.Minute // a host whose MAC address was refused is not asked about again
	mostUnknown  = 10_000          // hosts that were asked about
)

var errNoServer = refusal("Nobody can check your password at this moment. Try again later.")

// asker asks RADIUS servers.
type asker struct {
	l       *Login
	records chan record
	macs    chan hostID
	woken   chan struct{}

	mu    sync.Mutex
	dead  map[netip.Addr]time.Time // until when
	asked map[hostID]time.Time
	lost  int // records
}

// record is what is told of a session.
type record struct {
	settings Settings
	session  Session
	status   rfc2866.AcctStatusType
	cause    rfc2866.AcctTerminateCause
	at       time.Time
}

func newAsker(l *Login) *asker {
	return &asker{l: l, records: make(chan record, mostRecords), macs: make(chan hostID, 256), woken: make(chan struct{}, 1), dead: map[netip.Addr]time.Time{}, asked: map[hostID]time.Time{}}
}

// ask asks about a user, and takes the limits of the answer into the session.
func (r *asker) ask(ctx context.Context, s Settings, session *Session, user, password string) error {
	p := radius.New(radius.CodeAccessRequest, []byte(s.Secret))
	if err := rfc2865.UserName_SetString(p, user); err != nil {
		return errWrong
	}
	if s.Login.RADIUS.Method == "chap" {
		challenge := make([]byte, 16)
		fill(challenge)
		id := challenge[0]
		sum := md5.Sum(slices.Concat([]byte{id}, []byte(password), challenge)) // RFC 1994, section 4.1
		_ = rfc2865.CHAPChallenge_Set(p, challenge)
		_ = rfc2865.CHAPPassword_Set(p, append([]byte{id}, sum[:]...))
	} else if err := rfc2865.UserPassword_SetString(p, password); err != nil {
		return errWrong
	}
	r.about(p, session)
	answer, err := r.exchange(ctx, s, p, s.Login.RADIUS.Port)
	switch {
	case err != nil:
		return err
	case answer.Code != radius.CodeAccessAccept:
		return errWrong
	}
	now := r.l.clock()
	if t := rfc2865.SessionTimeout_Get(answer); t > 0 {
		session.Until = now.Add(time.Duration(t) * time.Second)
	}
	if t := rfc2865.IdleTimeout_Get(answer); t > 0 {
		session.Idle = Span(time.Duration(t) * time.Second)
	}
	if t := rfc2869.AcctInterimInterval_Get(answer); t >= 60 {
		session.Interim = Span(time.Duration(t) * time.Second)
	}
	if rate := s.Login.Rate; rate != nil {
		session.Rate = *rate // what the server does not say
		session.takeRate(answer)
	}
	session.Class, _ = rfc2865.Class_Gets(answer)
	return nil
}

// about says in a packet which host and router it is about.
func (r *asker) about(p *radius.Packet, s *Session) {
	_ = rfc2865.NASIdentifier_SetString(p, "minne-"+s.Login)
	_ = rfc2865.NASPortType_Set(p, rfc2865.NASPortType_Value_Ethernet)
	_ = rfc2865.CallingStationID_SetString(p, strings.ToUpper(strings.ReplaceAll(s.MAC.String(), ":", "-")))
	_ = rfc2865.CalledStationID_SetString(p, s.Login)
	for _, a := range s.Addresses {
		if a.Is4() {
			_ = rfc2865.FramedIPAddress_Set(p, a.AsSlice())
		} else if !a.IsLinkLocalUnicast() {
			_ = rfc6911.FramedIPv6Address_Add(p, a.AsSlice())
		}
	}
}

// exchange asks the servers one after the other, those that have answered before first.
func (r *asker) exchange(ctx context.Context, s Settings, p *radius.Packet, port int) (*radius.Packet, error) {
	for _, server := range r.order(s.Login.RADIUS.Servers) {
		if p.Code == radius.CodeAccessRequest {
			if err := sign(p); err != nil {
				return nil, err
			}
		}
		one, end := context.WithTimeout(ctx, answerWithin)
		client := radius.Client{Retry: answerWithin / 2}
		answer, err := client.Exchange(one, p, netip.AddrPortFrom(server, uint16(port)).String())
		end()
		if err == nil && p.Code == radius.CodeAccessRequest && !signed(answer, p) {
			err = errors.New("its answer has no valid Message-Authenticator")
		}
		r.mu.Lock()
		if err == nil {
			delete(r.dead, server)
		} else {
			r.dead[server] = time.Now().Add(deadFor)
		}
		r.mu.Unlock()
		if err == nil {
			return answer, nil
		}
		r.l.log.Warn("a RADIUS server does not answer", "server", server, "error", err)
	}
	return nil, errNoServer
}

// order puts dead servers behind the others.
func (r *asker) order(servers []netip.Addr) []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	var live, dead []netip.Addr
	for _, s := range servers {
		if time.Now().Before(r.dead[s]) {
			dead = append(dead, s)
		} else {
			live = append(live, s)
		}
	}
	return append(live, dead...)
}

// down says which servers do not answer.
func (r *asker) down() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.SortedFunc(maps.Keys(r.dead), netip.Addr.Compare) {
		list = append(list, fmt.Sprintf("login: RADIUS server %s does not answer", s))
	}
	return list
}

// sign puts a Message-Authenticator into a request (RFC 3579, section 3.2).
func sign(p *radius.Packet) error {
	p.Del(rfc2869.MessageAuthenticator_Type)
	p.Set(rfc2869.MessageAuthenticator_Type, make([]byte, md5.Size))
	sum, err := authenticator(p)
	p.Set(rfc2869.MessageAuthenticator_Type, sum)
	return err
}

func authenticator(p *radius.Packet) ([]byte, error) {
	b, err := p.MarshalBinary()
	if err != nil {
		return nil, err
	}
	h := hmac.New(md5.New, p.Secret)
	h.Write(b)
	return h.Sum(nil), nil
}

// signed says whether an answer has the right one.
func signed(answer, request *radius.Packet) bool {
	given := slices.Clone(answer.Get(rfc2869.MessageAuthenticator_Type))
	if len(given) != md5.Size {
		return false
	}
	clear, own := *answer, answer.Authenticator
	clear.Authenticator = request.Authenticator
	clear.Set(rfc2869.MessageAuthenticator_Type, make([]byte, md5.Size))
	want, err := authenticator(&clear)
	answer.Authenticator = own
	return err == nil && hmac.Equal(want, given)
}

// causes are why sessions end, in the words of accounting.
func causeOf(why string) rfc2866.AcctTerminateCause {
	switch {
	case strings.Contains(why, "by the user"):
		return rfc2866.AcctTerminateCause_Value_UserRequest
	case strings.Contains(why, "idle"):
		return rfc2866.AcctTerminateCause_Value_IdleTimeout
	case strings.Contains(why, "used up"), strings.Contains(why, "time is up"):
		return rfc2866.AcctTerminateCause_Value_SessionTimeout
	case strings.Contains(why, "probes"):
		return rfc2866.AcctTerminateCause_Value_LostCarrier
	}
	return rfc2866.AcctTerminateCause_Value_AdminReset
}

// tell has a record sent. The caller holds the login's mu.
func (r *asker) tell(s *Session, status rfc2866.AcctStatusType, cause rfc2866.AcctTerminateCause) {
	settings := r.l.settings[s.Login]
	if settings.Login.RADIUS == nil || !settings.Login.RADIUS.Accounting.On() {
		return
	}
	copied := *s
	copied.Addresses = slices.Clone(s.Addresses)
	s.told = r.l.clock()
	select {
	case r.records <- record{settings, copied, status, cause, s.told}:
	default:
		r.mu.Lock()
		r.lost++
		r.mu.Unlock()
	}
}

func (r *asker) begins(s *Session) { r.tell(s, rfc2866.AcctStatusType_Value_Start, 0) }
func (r *asker) ends(s *Session, why string) {
	r.tell(s, rfc2866.AcctStatusType_Value_Stop, causeOf(why))
}

// interim tells what a session has transferred when it is time.
func (r *asker) interim(s *Session, now time.Time) {
	settings := r.l.settings[s.Login]
	if settings.Login.RADIUS == nil {
		return
	}
	every := settings.Login.RADIUS.Interim.Std()
	if s.Interim > 0 {
		every = time.Duration(s.Interim)
	}
	if every > 0 && now.Sub(s.told) >= every {
		r.tell(s, rfc2866.AcctStatusType_Value_InterimUpdate, 0)
	}
}

// run sends records in their order, and asks about MAC addresses, until ctx ends.
func (r *asker) run(ctx context.Context) {
	go r.askMACs(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { r.hearChanges(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-r.records:
			for try := range recordTries {
				if _, err := r.exchange(ctx, one.settings, r.packet(one), one.settings.Login.RADIUS.Port+1); err == nil {
					break
				} else if try == recordTries-1 {
					r.l.log.Error("accounting of a session is lost", "user", one.session.User, "id", one.session.ID, "error", err)
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(min(time.Second<<try, time.Minute)):
				}
			}
		}
	}
}

// packet is a record as it is sent.
func (r *asker) packet(one record) *radius.Packet {
	p, s := radius.New(radius.CodeAccountingRequest, []byte(one.settings.Secret)), &one.session
	_ = rfc2866.AcctStatusType_Set(p, one.status)
	_ = rfc2866.AcctSessionID_SetString(p, s.ID)
	_ = rfc2865.UserName_SetString(p, s.User)
	r.about(p, s)
	_ = rfc2866.AcctDelayTime_Set(p, rfc2866.AcctDelayTime(r.l.clock().Sub(one.at)/time.Second))
	for _, c := range s.Class {
		_ = rfc2865.Class_Add(p, c)
	}
	if one.status == rfc2866.AcctStatusType_Value_Start {
		return p
	}
	_ = rfc2866.AcctSessionTime_Set(p, rfc2866.AcctSessionTime(one.at.Sub(s.Began)/time.Second))
	_ = rfc2866.AcctInputOctets_Set(p, rfc2866.AcctInputOctets(uint32(s.Traffic.Sent)))
	_ = rfc2869.AcctInputGigawords_Set(p, rfc2869.AcctInputGigawords(s.Traffic.Sent>>32))
	_ = rfc2866.AcctOutputOctets_Set(p, rfc2866.AcctOutputOctets(uint32(s.Traffic.Received)))
	_ = rfc2869.AcctOutputGigawords_Set(p, rfc2869.AcctOutputGigawords(s.Traffic.Received>>32))
	if one.status == rfc2866.AcctStatusType_Value_Stop {
		_ = rfc2866.AcctTerminateCause_Set(p, one.cause)
	}
	return p
}

// appeared has the servers asked about a host that is not known, where MAC addresses are users. The caller holds the login's mu.
func (r *asker) appeared(id hostID) {
	s := r.l.settings[id.login]
	if s.Login.RADIUS == nil || !s.Login.RADIUS.MAC.On() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.asked[id]) < againMAC {
		return
	}
	if len(r.asked) >= mostUnknown {
		clear(r.asked)
	}
	select {
	case r.macs <- id:
		r.asked[id] = now
	default:
	}
}

// askMACs asks about hosts one after the other.
func (r *asker) askMACs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-r.macs:
			l := r.l
			l.mu.Lock()
			settings, known := l.settings[id.login]
			l.mu.Unlock()
			if !known {
				continue
			}
			user := strings.ReplaceAll(id.mac.String(), ":", "")
			s := &Session{Login: id.login, MAC: id.mac, User: user, Kind: "mac", Idle: Span(settings.Login.Idle)}
			if err := r.ask(ctx, settings, s, user, user); err != nil {
				continue
			}
			l.mu.Lock()
			if l.sessions[id] == nil && l.settings[id.login].Login.RADIUS != nil {
				if err := l.begin(s); err != nil {
					l.log.Error("cannot admit a host by its MAC address", "mac", id.mac, "error", err)
				}
			}
			l.mu.Unlock()
		}
	}
}

// changesPort is that of RFC 5176.
const changesPort = 3799

// wanted says whether some server may change sessions.
func (r *asker) wanted() bool {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	for _, s := range r.l.settings {
		if s.Login.RADIUS != nil && s.Login.RADIUS.Changes.On() {
			return true
		}
	}
	return false
}

// hearChanges listens while servers may end sessions, and change when they end. The firewall lets in nobody but the servers.
func (r *asker) hearChanges(ctx context.Context) {
	var end context.CancelFunc
	for {
		switch on := r.wanted(); {
		case on && end == nil:
			var listening context.Context
			listening, end = context.WithCancel(ctx)
			if err := r.listen(listening); err != nil {
				r.l.log.Error("cannot listen for RADIUS changes", "error", err)
				end()
				end = nil
			}
		case !on && end != nil:
			end()
			end = nil
		}
		select {
		case <-ctx.Done():
			if end != nil {
				end()
			}
			return
		case <-r.woken:
		}
	}
}

// listen answers servers until ctx ends.
func (r *asker) listen(ctx context.Context) error {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", fmt.Sprintf(":%d", changesPort))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	server := radius.PacketServer{Handler: radius.HandlerFunc(r.change), SecretSource: r, ErrorLog: quiet}
	go func() { _ = server.Serve(conn) }()
	return nil
}

// again has it looked at whether servers may change sessions.
func (r *asker) again() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// RADIUSSecret is the secret of a server that may change sessions; nil for others.
func (r *asker) RADIUSSecret(_ context.Context, from net.Addr) ([]byte, error) {
	if _, s := r.serverOf(from); s != nil {
		return []byte(s.Secret), nil
	}
	return nil, errors.New("not one of the servers")
}

// serverOf is the login that a server belongs to, and may change.
func (r *asker) serverOf(from net.Addr) (string, *Settings) {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return "", nil
	}
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	for name, s := range r.l.settings {
		if s.Login.RADIUS != nil && s.Login.RADIUS.Changes.On() && slices.Contains(s.Login.RADIUS.Servers, at.Addr().Unmap()) {
			return name, &s
		}
	}
	return "", nil
}

// change answers a request.
func (r *asker) change(w radius.ResponseWriter, q *radius.Request) {
	yes, no := radius.CodeDisconnectACK, radius.CodeDisconnectNAK
	switch q.Code {
	case radius.CodeDisconnectRequest:
	case radius.CodeCoARequest:
		yes, no = radius.CodeCoAACK, radius.CodeCoANAK
	default:
		return
	}
	login, _ := r.serverOf(q.RemoteAddr)
	l := r.l
	l.mu.Lock()
	answer := no
	var over []ending
	for id, s := range l.sessions {
		if id.login != login || !meant(q.Packet, s) {
			continue
		}
		answer = yes
		if q.Code == radius.CodeDisconnectRequest {
			over = append(over, ending{id, "ended by the RADIUS server"})
			continue
		}
		if t, err := rfc2865.SessionTimeout_Lookup(q.Packet); err == nil {
			s.Until = l.clock().Add(time.Duration(t) * time.Second)
		}
		if t, err := rfc2865.IdleTimeout_Lookup(q.Packet); err == nil {
			s.Idle = Span(time.Duration(t) * time.Second)
		}
		s.takeRate(q.Packet)
		l.unsaved[id] = true
	}
	l.endAll(over)
	l.mu.Unlock()
	l.wakeRates()
	if answer == yes {
		l.flush()
	}
	_ = w.Write(q.Response(answer))
}

// meant says whether a request names a session: everything that it names must be the session's, and it must name something.
func meant(p *radius.Packet, s *Session) bool {
	some, all := false, true
	is := func(is bool) { some, all = true, all && is }
	if id := rfc2866.AcctSessionID_GetString(p); id != "" {
		is(id == s.ID)
	}
	if user := rfc2865.UserName_GetString(p); user != "" {
		is(user == s.User && (s.Kind == "radius" || s.Kind == "mac"))
	}
	if station := rfc2865.CallingStationID_GetString(p); station != "" {
		var mac config.MAC
		is(mac.UnmarshalText([]byte(strings.ToLower(strings.ReplaceAll(station, "-", ":")))) == nil && mac == s.MAC)
	}
	if a, ok := netip.AddrFromSlice(rfc2865.FramedIPAddress_Get(p)); ok {
		is(slices.Contains(s.Addresses, a.Unmap()))
	}
	return some && all
}
