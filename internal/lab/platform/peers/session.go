// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Inputs are the files that a peer reads.
type Inputs struct {
	Table string   // Routes, PatternList, or a file of keys that a filter has
	Sets  []string // keys or payload as internal/lab/algo/dataset writes them
	CPU   int      // to stay on; negative: any
	Hot   int      // keys that are looked up repeatedly; 0: 2048
	Huge  bool     // ask for huge pages for the table
}

// Set is what was answered to a set of keys, or to a payload.
type Set struct {
	Count    int    `json:"count"`
	Sum      uint32 `json:"sum"`      // of answers; a filter's: how many keys it says yes to
	Checksum string `json:"checksum"` // dataset.Checksum of the answers
}

// Variant is one way in which a set is asked for, as minne-procbench has them.
type Variant struct {
	Set    int    `json:"set"`
	Access string `json:"access"` // "hot" or "all"
	Order  string `json:"order"`
	Per    string `json:"per"` // "key" or "byte"
}

// Session is a peer with its table built, ready to be measured.
type Session struct {
	Peer         Peer      `json:"-"`
	BuildSeconds float64   `json:"build_seconds"`
	Bytes        int       `json:"bytes"` // of what lookups need
	Sets         []Set     `json:"sets"`
	Ways         []Variant `json:"ways"`

	command *exec.Cmd
	ask     io.WriteCloser
	answers *bufio.Reader
	said    strings.Builder // standard error
}

// Open starts a peer, which builds its table and answers every key once; that may take long. ctx ends it.
func Open(ctx context.Context, p Peer, in Inputs) (*Session, error) {
	var args []string
	if in.CPU >= 0 {
		args = append(args, "--cpu", strconv.Itoa(in.CPU))
	}
	if in.Hot > 0 {
		args = append(args, "--hot", strconv.Itoa(in.Hot))
	}
	if in.Huge {
		args = append(args, "--huge")
	}
	args = append(append(args, p.Algorithm, in.Table), in.Sets...)
	s := &Session{Peer: p, command: exec.CommandContext(ctx, p.program, args...)}
	s.command.Stderr = &s.said
	ask, err := s.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.ask, s.answers = ask, bufio.NewReader(out)
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("%v: %w", p, err)
	}
	if err := s.read(s); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if len(s.Sets) != len(in.Sets) || len(s.Ways) == 0 {
		return nil, errors.Join(fmt.Errorf("%v reported %d sets and %d variants, it was given %d sets", p, len(s.Sets), len(s.Ways), len(in.Sets)), s.stop())
	}
	return s, nil
}

// Round measures every way, about so long each, and returns ns per key or byte in the order of Ways. A peer that answers
// otherwise than before is an error.
func (s *Session) Round(each time.Duration) ([]float64, error) {
	if _, err := fmt.Fprintf(s.ask, "%g\n", each.Seconds()); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", s.Peer, err), s.stop())
	}
	var round struct {
		NS []float64 `json:"ns"`
	}
	if err := s.read(&round); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if len(round.NS) != len(s.Ways) {
		return nil, fmt.Errorf("%v measured %d variants, it announced %d", s.Peer, len(round.NS), len(s.Ways))
	}
	return round.NS, nil
}

// read reads a line of JSON.
func (s *Session) read(to any) error {
	line, err := s.answers.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, to)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", s.Peer, err)
	}
	return nil
}

// Close ends the peer.
func (s *Session) Close() error { return s.stop() }

func (s *Session) stop() error {
	s.ask.Close() // the program ends with its input; an error would be that it has already
	err := s.command.Wait()
	if err != nil && s.said.Len() > 0 {
		return fmt.Errorf("%v: %w: %s", s.Peer, err, strings.TrimSpace(s.said.String()))
	}
	return err
}
