// SPDX-License-Identifier: Apache-2.0

package responsiveness

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"

	"minne/internal/lab/histogram"
)

const (
	probeBytes = 8 // when it was sent, ns since the window began
	probeGap   = 10 * time.Millisecond
	stragglers = 500 * time.Millisecond // waited for after the last
)

// probe sends small datagrams from the host with one connection, and records how long their answers take.
func (b *Bed) probe(ctx context.Context, span time.Duration, trips *histogram.Histogram) error {
	var conn *net.UDPConn
	err := b.network.Node("one").Do(func() (err error) {
		conn, err = net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: echoPort})
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	begin := time.Now()
	if err := conn.SetReadDeadline(begin.Add(span + stragglers)); err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() {
		var answer [probeBytes]byte
		for {
			n, err := conn.Read(answer[:])
			if err != nil {
				received <- err
				return
			}
			if n == probeBytes {
				trips.Record(time.Since(begin) - time.Duration(binary.BigEndian.Uint64(answer[:])))
			}
		}
	}()
	tick := time.NewTicker(probeGap)
	defer tick.Stop()
	for sent := time.Duration(0); sent < span; sent = time.Since(begin) {
		if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, uint64(sent))); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			conn.Close()
			<-received
			return ctx.Err()
		}
	}
	if err := <-received; !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if trips.Count() == 0 {
		return errors.New("no answer came back: is there a route?")
	}
	return nil
}
