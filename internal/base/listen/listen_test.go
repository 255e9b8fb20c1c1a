// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Both families are heard, and nothing after the end.
func TestOn(t *testing.T) {
	l, err := On(t.Context(), "lo", 0)
	if err == nil { // two sockets, and each took a free port: tried again with one that both can have
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		l, err = On(t.Context(), "lo", port)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		client, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(l.Addr().(*net.TCPAddr).Port)))
		if err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if from := server.RemoteAddr().(*net.TCPAddr).IP.String(); from != host {
			t.Errorf("%s was heard as %s", host, from)
		}
		server.Close()
		client.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := On(t.Context(), "nowhere", 0); !errors.Is(err, unix.ENODEV) {
		t.Errorf("an interface that is not there: %v", err)
	}
}
