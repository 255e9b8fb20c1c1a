// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/policy"
)

func TestKernelClock(t *testing.T) {
	c, err := newKernelClock()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.bootID()) != 36 || c.sinceBoot() <= 0 {
		t.Errorf("boot %q since %s", c.bootID(), c.sinceBoot())
	}
	fired := make(chan string, 3)
	stop, err := c.at(c.sinceBoot()+time.Hour, func() { fired <- "stopped" })
	if err != nil {
		t.Fatal(err)
	}
	stop()
	for _, at := range []time.Duration{0, c.sinceBoot() + 10*time.Millisecond} { // one of them long past
		if _, err := c.at(at, func() { fired <- "due" }); err != nil {
			t.Fatal(err)
		}
		if got := <-fired; got != "due" {
			t.Errorf("timer %s fired", got)
		}
	}
}

func TestJournal(t *testing.T) {
	var out bytes.Buffer
	j := NewJournal(&out)
	log := slog.New(slog.NewTextHandler(j, nil))
	if tail := j.Tail(0); len(tail) != 0 {
		t.Errorf("tail of nothing: %q", tail)
	}
	for i := range journalLines + 5 {
		log.Info("line", "n", i)
	}
	if got := len(j.Tail(0)); got != journalLines {
		t.Errorf("%d lines kept, want %d", got, journalLines)
	}
	tail := j.Tail(2)
	if len(tail) != 2 || !bytes.HasSuffix([]byte(tail[1]), fmt.Appendf(nil, "n=%d", journalLines+4)) {
		t.Errorf("tail: %q", tail)
	}
	if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != journalLines+5 {
		t.Errorf("%d lines passed on", lines)
	}
}

func TestMender(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	m := newMender(slog.New(slog.NewTextHandler(t.Output(), nil)))
	m.pause = time.Microsecond
	m.reapply = func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("no such port")
		}
		cancel()
		return nil
	}
	m.wake()
	m.wake()
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if tries != 3 {
		t.Errorf("tried %d times, want 3", tries)
	}
}

func TestFingerprints(t *testing.T) {
	dir := t.TempDir()
	f, err := newFingerprinter(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "secrets.yaml")
	secrets := func(text string) config.Secrets {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := config.LoadSecrets(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	cfg := &config.Config{Routing: config.Routing{
		BGP: &config.BGP{Peers: map[string]*config.BGPPeer{"a": {Password: "isp"}, "b": {}}},
		OSPF: &config.OSPF{Areas: map[config.AreaID]*config.OSPFArea{0: {Interfaces: map[string]*config.OSPFInterface{
			"lan": {Auth: &config.OSPFAuth{Secret: "campus"}}, "wan": nil}}}},
	}}
	first := f.of(Input{Config: cfg, Secrets: secrets("isp: hush\ncampus: whisper\nunused: x\n")})
	if len(first) != 2 || first["isp"] == "" || first["isp"] == first["campus"] {
		t.Errorf("fingerprints %v", first)
	}
	again, err := newFingerprinter(dir)
	if err != nil {
		t.Fatal(err)
	}
	second := again.of(Input{Config: cfg, Secrets: secrets("isp: hush\ncampus: shout\n")})
	if second["isp"] != first["isp"] || second["campus"] == first["campus"] {
		t.Errorf("fingerprints %v, then %v", first, second)
	}
	elsewhere, err := newFingerprinter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if third := elsewhere.of(Input{Config: cfg, Secrets: secrets("isp: hush\n")}); third["isp"] == first["isp"] {
		t.Error("two routers have the same fingerprint of a secret")
	}
}

// The text is the same, the hash of the password is another: that is another configuration, which is
// committed, can be confirmed and is no repair.
func TestAnotherPasswordIsAnotherConfiguration(t *testing.T) {
	b := newBench(t)
	f, err := newFingerprinter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b.fingerprint = f.of
	secrets := func(text string) func(string, string, bool, policy.Reach) (Input, error) {
		known, err := config.ParseSecrets("secrets.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return func(_, text string, _ bool, _ policy.Reach) (Input, error) {
			cfg := &config.Config{System: config.System{Hostname: text, Admin: config.Admin{Password: "admin"}}}
			return Input{Config: cfg, Secrets: known}, nil
		}
	}
	b.read = secrets("admin: $6$salt$first\n")
	b.apply("r1", 0)
	b.read = secrets("admin: $6$salt$second\n")
	if r := b.apply("r1", time.Minute); r.Outcome != api.Awaiting || r.Revision != 2 {
		t.Errorf("another hash: %+v, want revision 2 that awaits its confirmation", r)
	}
}
