// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// TestFollowBFD answers as FRR 8.4's bfdd does, goes away, comes back with another state, and says something that is nonsense.
func TestFollowBFD(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "bfdd.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	message := func(kind byte, text string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		return append(append(b, 0, 0, kind, 1), text...)
	}
	nonsense := message(4, "{")
	binary.BigEndian.PutUint32(nonsense, 1<<30)
	answers := [][]byte{
		bytes.Join([][]byte{message(1, `{"status":"ok"}`), message(4, `{"op":"add","peer-address":"10.0.0.2","detect-multiplier":3}`),
			message(4, `{"op":"status","ipv6":false,"peer-address":"10.0.0.2","local-interface":"e1","id":39485,"state":"up","uptime":1}`),
			message(4, `{"op":"status","peer-address":"2001:db8::2","state":"down"}`)}, nil),
		nonsense,
		message(4, `{"op":"status","peer-address":"10.0.0.2","state":"down"}`),
	}
	asked := make(chan []byte, len(answers))
	go func() {
		for _, a := range answers {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			question := make([]byte, 16)
			_, _ = io.ReadFull(conn, question)
			asked <- question
			_, _ = conn.Write(a)
			conn.Close()
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	var heard []string
	lost := 0
	followBFD(ctx, socket, func(s session) {
		heard = append(heard, s.Peer.String()+" "+s.State)
		if len(heard) == 3 {
			cancel()
		}
	}, func() { lost++ })
	want := []string{"10.0.0.2 up", "2001:db8::2 down", "10.0.0.2 down"}
	if len(heard) != 3 || heard[0] != want[0] || heard[1] != want[1] || heard[2] != want[2] {
		t.Errorf("heard %q, expected %q", heard, want)
	}
	if lost != 2 {
		t.Errorf("lost %d times, expected 2", lost)
	}
	if got, want := <-asked, append([]byte{0, 0, 0, 8, 0, 1, 4, 1}, bytes.Repeat([]byte{0xff}, 8)...); !bytes.Equal(got, want) {
		t.Errorf("asked % x, expected % x", got, want)
	}
}
