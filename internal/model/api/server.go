// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// sudoHeader names who asked, when a peer that is root works for somebody else.
const sudoHeader = "Minne-Sudo-User"

// maxPath is the longest path that a unix socket can have, in bytes (sockaddr_un).
const maxPath = 107

// LongestAnswer is how long the daemon may take for an answer: an apply may wait for routing daemons to start,
// and for the former configuration to be put back.
const LongestAnswer = 10 * time.Minute

// Group may read through the socket, where the host has such a group.
const Group = "minne"

// Peer is who asks: the process at the other end of the socket, or somebody who has logged in over the network.
type Peer struct {
	UID    uint32
	User   string // name, of the sudo caller if there is one
	Role   Role   // of who is Remote; the socket's peers have that of their UID
	Remote bool
}

// NoUID is the UID of peers that have none here.
const NoUID = ^uint32(0)

// Role is what somebody may do.
type Role int

// The roles; each may do what those before it may.
const (
	Read    Role = iota // look
	Operate             // reset sessions, connections and counters, and change sets
	Admin               // everything
)

// String is the word for a role.
func (r Role) String() string { return [...]string{"read", "operate", "admin"}[r] }

// May is the role of a peer.
func (p Peer) May() Role {
	switch {
	case p.Remote:
		return p.Role
	case p.UID == 0:
		return Admin
	}
	return Read
}

type peerKey struct{}

// PeerOf returns who sent the request.
func PeerOf(ctx context.Context) Peer {
	p, _ := ctx.Value(peerKey{}).(Peer)
	return p
}

// Server answers requests on a unix socket.
type Server struct {
	mux        *http.ServeMux
	operations []operation
	log        *slog.Logger
}

// NewServer returns a server that answers nothing yet but that it is alive.
func NewServer(log *slog.Logger) *Server {
	s := &Server{mux: http.NewServeMux(), log: log}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, &Error{Kind: Missing, Message: fmt.Sprintf("this daemon answers no %s %s", r.Method, r.URL.Path)})
	})
	Serve(s, Alive, func(*http.Request, Empty) (Empty, error) { return Empty{}, nil })
	return s
}

// add lets the server answer an operation.
func (s *Server) add(o operation, serve http.HandlerFunc) {
	s.operations = append(s.operations, o)
	s.mux.HandleFunc(o.method+" "+o.path, serve)
}

// unbounded lets an answer take as long as it wants.
func unbounded(w http.ResponseWriter) error {
	connection := http.NewResponseController(w)
	return errors.Join(connection.SetReadDeadline(time.Time{}), connection.SetWriteDeadline(time.Time{}))
}

func decodeBody(w http.ResponseWriter, r *http.Request, q any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, MaxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil && !errors.Is(err, io.EOF) {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return fmt.Errorf("request is larger than %d MB", MaxBody>>20)
		}
		return fmt.Errorf("request is not what %s takes: %w", r.URL.Path, err)
	}
	return nil
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Kind: Failed, Message: err.Error()}
	}
	s.send(w, r, statusOf[e.Kind], Failure{e})
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.log.Debug("answer not sent", "path", r.URL.Path, "error", err) // the client went away
	}
}

// Listen opens the socket at path, replacing what a daemon that died left there.
// The caller has made sure that no other daemon lives.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("%s: longer than the %d bytes that a unix socket's path may have", path, maxPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// Nobody else can connect before the mode is set: the umask covers the time between.
	old := unix.Umask(0o177)
	l, err := net.Listen("unix", path)
	unix.Umask(old)
	if err != nil {
		return nil, err
	}
	if err := grantGroup(path); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// grantGroup lets the members of Group connect. A host without it is not at fault.
func grantGroup(path string) error {
	g, err := user.LookupGroup(Group)
	if err != nil {
		return nil
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("group %s: gid %q is no number", Group, g.Gid)
	}
	if err := os.Chown(path, 0, gid); err != nil {
		return err
	}
	return os.Chmod(path, 0o660)
}

// ServeFor answers one request of a peer that somebody else has let in.
func (s *Server) ServeFor(p Peer, w http.ResponseWriter, r *http.Request) {
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, p)))
}

// Serve answers until ctx ends, then gives running requests the grace time.
func (s *Server) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	srv := &http.Server{
		Handler:           s.withPeer(s.mux),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second, // clients are on this machine
		WriteTimeout:      LongestAnswer,
		IdleTimeout:       10 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ConnContext:       connPeer,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	answered := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(answered)
		end, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if srv.Shutdown(end) != nil {
			srv.Close()
		}
	})
	defer stop()
	if err := srv.Serve(newRoom(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-answered // Serve ends at the beginning of Shutdown, not at its end
	return nil
}

// connPeer keeps who opened the connection.
func connPeer(ctx context.Context, c net.Conn) context.Context {
	if g, ok := c.(*guest); ok {
		return context.WithValue(ctx, peerKey{}, g.peer)
	}
	return context.WithValue(ctx, peerKey{}, peerAt(c))
}

// peerAt asks the kernel who opened the connection.
func peerAt(c net.Conn) Peer {
	unknown := Peer{UID: NoUID, User: "unknown"}
	cred, err := credentials(c)
	if err != nil {
		return unknown
	}
	return Peer{UID: cred.Uid, User: userName(cred.Uid)}
}

// credentials are those of the process at the other end of a unix socket, when it connected or listened.
func credentials(c net.Conn) (cred *unix.Ucred, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("%T is no unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return cred, errors.Join(err, credErr)
}

// withPeer takes root's word for whom it works.
func (s *Server) withPeer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := PeerOf(r.Context())
		if name := r.Header.Get(sudoHeader); name != "" && p.UID == 0 {
			p.User = name
			r = r.WithContext(context.WithValue(r.Context(), peerKey{}, p))
		}
		next.ServeHTTP(w, r)
	})
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}
