// SPDX-License-Identifier: Apache-2.0

package reach

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

const (
	dnsTries = 3
	dnsWait  = 2 * time.Second
)

// rootServers asks for the name servers of the root (RFC 1035, section 4.1: a header, and the name of no labels, type NS,
// class IN), with recursion desired: every server that serves hosts knows them, and nobody learns from the question
// what hosts are looking for.
var rootServers = []byte{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}

// rcodes are the answers that are none (RFC 1035, section 4.1.1).
var rcodes = map[byte]string{1: "format error", 2: "server failure", 3: "no such name", 4: "not implemented", 5: "refused"}

// DNS asks a DNS server by an interface, and returns how long the answer took.
func DNS(ctx context.Context, device string, server netip.Addr) (time.Duration, error) {
	dialer := net.Dialer{Timeout: dnsWait, Control: onDevice(device)}
	conn, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(server, 53).String())
	if err != nil {
		return 0, fmt.Errorf("ask the DNS server %s: %w", server, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	question := append([]byte(nil), rootServers...)
	if _, err := rand.Read(question[:2]); err != nil {
		return 0, err
	}
	answer := make([]byte, 1500)
	var last error
	for range dnsTries {
		sent := time.Now()
		if err := conn.SetReadDeadline(sent.Add(dnsWait)); err != nil {
			return 0, err
		}
		if _, err := conn.Write(question); err != nil {
			return 0, fmt.Errorf("ask the DNS server %s: %w", server, err)
		}
		for {
			n, err := conn.Read(answer)
			if err != nil {
				last = err
				break
			}
			if n < 12 || answer[2]&0x80 == 0 || binary.BigEndian.Uint16(answer) != binary.BigEndian.Uint16(question) {
				continue // no answer, or to somebody else
			}
			if code := answer[3] & 0x0f; code != 0 {
				text := rcodes[code]
				if text == "" {
					text = fmt.Sprintf("code %d", code)
				}
				return 0, fmt.Errorf("the server answers with an error: %s", text)
			}
			return time.Since(sent), nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	if errors.Is(last, os.ErrDeadlineExceeded) {
		return 0, ErrSilent
	}
	return 0, fmt.Errorf("ask the DNS server %s: %w", server, last)
}
