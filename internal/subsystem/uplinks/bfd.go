// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// BFD as FRR's bfdd tells it on its control socket: a message has a header of eight bytes in network byte order
// (length of what follows, an id, a type, a version) and a text in JSON. Whoever asks is told all sessions at once, and then
// each change, in the moment in which bgpd hears of it.

const (
	bfdNotify  = 4 // BMT_NOTIFY
	bfdVersion = 1 // BMV_VERSION_1
	bfdLongest = 64 << 10
	bfdAgain   = 500 * time.Millisecond // until the next try, when bfdd does not answer
)

// session is what bfdd says of one.
type session struct {
	Op    string     `json:"op"`
	Peer  netip.Addr `json:"peer-address"`
	State string     `json:"state"` // up, down, init, adm-down
}

// followBFD tells each session that bfdd tells, until ctx ends. lost is called when bfdd does not tell any more.
func followBFD(ctx context.Context, socket string, tell func(session), lost func()) {
	for ctx.Err() == nil {
		if err := hearBFD(ctx, socket, tell); err != nil && ctx.Err() == nil {
			lost()
		}
		select {
		case <-ctx.Done():
		case <-time.After(bfdAgain):
		}
	}
}

func hearBFD(ctx context.Context, socket string, tell func(session)) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	all := make([]byte, 8)
	binary.NativeEndian.PutUint64(all, ^uint64(0)) // BCM_NOTIFY_ALL
	if _, err := conn.Write(append(bfdHeader(len(all)), all...)); err != nil {
		return err
	}
	head := make([]byte, 8)
	for {
		if _, err := io.ReadFull(conn, head); err != nil {
			return err
		}
		length := binary.BigEndian.Uint32(head)
		if length > bfdLongest || head[7] != bfdVersion {
			return fmt.Errorf("bfdd: message of %d bytes and version %d", length, head[7])
		}
		text := make([]byte, length)
		if _, err := io.ReadFull(conn, text); err != nil {
			return err
		}
		if head[6] != bfdNotify {
			continue
		}
		var s session
		if err := json.Unmarshal(text, &s); err != nil {
			return errors.Join(errors.New("bfdd: a message that is no JSON"), err)
		}
		if s.Peer.IsValid() && (s.Op == "status" || s.Op == "delete") {
			tell(s)
		}
	}
}

func bfdHeader(length int) []byte {
	h := binary.BigEndian.AppendUint32(nil, uint32(length))
	return append(h, 0, 1, bfdNotify, bfdVersion)
}
