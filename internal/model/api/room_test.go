// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// as does something as another user: the kernel notes who connects for each thread.
func as(t *testing.T, uid int, do func() error) error {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := func(uid int) {
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); err != 0 {
			t.Fatalf("becoming user %d: %v", uid, err)
		}
	}
	set(uid)
	defer set(0)
	return do()
}

// open connects as a user and says the beginning of a request; the answer is what comes until the end.
func open(t *testing.T, socket string, uid int, say string) net.Conn {
	t.Helper()
	var fd int
	err := as(t, uid, func() (err error) {
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
	})
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), socket)
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_, _ = io.WriteString(c, say) // fails where the other end has closed it already
	return c
}

// TestSlowClientsLeaveRoomAsRoot has three users who open a hundred connections each and never end their
// question: each has his part, what is beyond is refused at once, and root gets in all the time.
func TestSlowClientsLeaveRoomAsRoot(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "minne-api-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(socket, 0o666)); err != nil {
		t.Fatal(err)
	}
	s := NewServer(slog.New(slog.DiscardHandler))
	var peer Peer
	Serve(s, GetStatus, func(r *http.Request, _ Empty) (Status, error) {
		peer = PeerOf(r.Context())
		return Status{PID: 7}, nil
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), l, time.Second) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})

	const users, each = 5, 100
	var held []net.Conn
	refused := 0
	for user := range users {
		for n := range each {
			c := open(t, socket, 60_000+user, "GET /v1/status HT")
			_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
			if n < roomOfUser && len(held) < roomOfOthers {
				held = append(held, c)
				continue
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("a connection beyond the room: %v, want a refusal", err)
			}
			text, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusLocked || !strings.Contains(string(text), "connections to the daemon") {
				t.Fatalf("a connection beyond the room: %s: %s", answer.Status, text)
			}
			refused++
			c.Close()
		}
	}
	if len(held) != roomOfOthers || refused != users*each-roomOfOthers {
		t.Errorf("%d connections are held, %d were refused; want %d and %d", len(held), refused, roomOfOthers, users*each-roomOfOthers)
	}
	if status, err := GetStatus.Ask(t.Context(), NewClient(socket), Empty{}); err != nil || status.PID != 7 || peer.UID != 0 {
		t.Errorf("root beside slow clients: %+v, %v", status, err)
	}
	for _, c := range held { // who does not end the question in time is hung up on
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a slow client stays connected for 30 s")
		}
	}
	c := open(t, socket, 60_000, "GET /v1/status HTTP/1.0\r\n\r\n")
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), `"pid":7`) || peer.UID != 60_000 {
		t.Errorf("a user with room again: %s, %v, peer %+v", text, err, peer)
	}
}
