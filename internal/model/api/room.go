// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// How many connections may be open at once: of one user, and of all who are not root. Root has
// room of its own, and gets in whatever the others do.
const (
	roomOfUser   = 16
	roomOfOthers = 64
	roomOfRoot   = 256
)

// room is a listener that knows who connects, and lets nobody have more than his part.
type room struct {
	net.Listener

	mu     sync.Mutex
	users  map[uint32]int // open connections by uid
	others int            // of all but root
}

func newRoom(l net.Listener) *room { return &room{Listener: l, users: map[uint32]int{}} }

// Accept returns the next connection that there is room for. Others are told so and closed.
func (r *room) Accept() (net.Conn, error) {
	for {
		c, err := r.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := peerAt(c)
		if full := r.enter(peer.UID); full != "" {
			refuse(c, &Error{Kind: Locked, Message: full})
			continue
		}
		return &guest{Conn: c, peer: peer, leave: sync.OnceFunc(func() { r.leave(peer.UID) })}, nil
	}
}

// enter counts a connection, or says why there is no room for it.
func (r *room) enter(uid uint32) (full string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch mine := r.users[uid]; {
	case uid == 0 && mine >= roomOfRoot:
		return fmt.Sprintf("root has %d connections to the daemon, which is all that there may be: close some", mine)
	case uid != 0 && mine >= roomOfUser:
		return fmt.Sprintf("you have %d connections to the daemon, which is all that a user may have: close some", mine)
	case uid != 0 && r.others >= roomOfOthers:
		return fmt.Sprintf("users have %d connections to the daemon, which is all that there may be: try again, or as root (sudo)", r.others)
	}
	r.users[uid]++
	if uid != 0 {
		r.others++
	}
	return ""
}

func (r *room) leave(uid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users[uid]--; r.users[uid] == 0 {
		delete(r.users, uid)
	}
	if uid != 0 {
		r.others--
	}
}

// refuse answers what was not asked yet, without waiting for anybody.
func refuse(c net.Conn, why *Error) {
	defer c.Close()
	body, err := json.Marshal(Failure{why})
	if err != nil {
		return
	}
	status := statusOf[why.Kind]
	head := "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) +
		"\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write(append([]byte(head), body...)) // a short answer fits into the socket's buffer
}

// guest is a connection that counts until it is closed.
type guest struct {
	net.Conn
	peer  Peer
	leave func()
}

func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}
