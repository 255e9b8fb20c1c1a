// SPDX-License-Identifier: Apache-2.0

package iperf

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a node in which each run of the client prints the next of these texts.
type answers []string

func (a *answers) Run(context.Context, ...string) (string, error) {
	text := (*a)[0]
	*a = (*a)[1:]
	if strings.Contains(text, `"error"`) {
		return text, errors.New("exit status 1")
	}
	return text, nil
}

const (
	refused = `{"end":{},"error":"error - unable to connect to server: Connection refused"}`
	busy    = `{"end":{},"error":"error - the server is busy running a test. try again later"}`
	done    = `{"end":{"sum_received":{"bits_per_second":98}}}`
	wrong   = `{"end":{},"error":"error - unrecognized option"}`
)

// TestServerBetweenClients: a server closes its socket between two clients; the next client waits for it.
func TestServerBetweenClients(t *testing.T) {
	for _, c := range []struct {
		name  string
		says  answers
		fails string
		left  int
	}{
		{"ready", answers{done}, "", 0},
		{"not yet", answers{refused, busy, done}, "", 0},
		{"never", answers{refused, refused, refused, refused, refused, refused, refused, refused, refused, refused, done}, "refused", 1},
		{"wrong", answers{wrong, done}, "unrecognized", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := Client{From: &c.says, Server: netip.MustParseAddr("192.0.2.1"), Seconds: 1, Grace: time.Second}
			got, err := client.Run(t.Context())
			if c.fails == "" && (err != nil || got.BitRate != 98) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%s: %+v, %v", c.name, got, err)
			}
			if len(c.says) != c.left {
				t.Errorf("%s: %d answers left, want %d", c.name, len(c.says), c.left)
			}
		})
	}
}

func TestRead(t *testing.T) {
	udp := `{"end":{"sum":{"bits_per_second":99,"lost_packets":100,"packets":1000},"sum_received":{"bits_per_second":500}}}`
	if got, err := read(udp, nil); err != nil || got != (Transfer{BitRate: 500, Loss: 0.1}) {
		t.Errorf("UDP: %+v, %v", got, err)
	}
	tcp := `{"end":{"sum_sent":{"bits_per_second":99,"retransmits":7},"sum_received":{"bits_per_second":98},"sum_received_bidir_reverse":{"bits_per_second":5}}}`
	if got, err := read(tcp, nil); err != nil || got != (Transfer{BitRate: 98, Back: 5, Retransmits: 7}) {
		t.Errorf("TCP: %+v, %v", got, err)
	}
	for _, c := range []struct {
		text  string
		ended error
		wrong string
	}{
		{`{"end":{},"error":"error - unable to connect to server: refused"}`, errors.New("exit status 1"), "iperf3: unable to connect"},
		{`{"end":{}}`, nil, "nothing arrived"},
		{tcp, errors.New("killed"), "killed"},
		{`usage`, errors.New("exit status 1"), "exit status 1"},
	} {
		if got, err := read(c.text, c.ended); err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %+v, %v; expected an error with %q", c.text, got, err, c.wrong)
		}
	}
}
