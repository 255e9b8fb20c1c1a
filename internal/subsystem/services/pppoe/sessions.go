// SPDX-License-Identifier: Apache-2.0

package pppoe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// Observed is the sessions of a router.
type Observed struct {
	Sessions []Session `json:"sessions"`
}

// Session is one that is up, or is dialed.
type Session struct {
	Interface    string        `json:"interface"`
	Up           bool          `json:"up"`
	Address      string        `json:"address,omitempty"`
	Peer         string        `json:"peer,omitempty"` // the provider's address
	Since        time.Time     `json:"since,omitzero"`
	ID           int           `json:"id,omitempty"`           // of the session (RFC 2516 section 4)
	Concentrator string        `json:"concentrator,omitempty"` // its MAC address
	DNS          []netip.Addr  `json:"dns,omitempty"`          // the provider's servers
	Error        string        `json:"error,omitempty"`        // what ended the last attempt, while there is no session
	Client       program.State `json:"client"`
}

// Observe says which sessions there are.
func (c *Client) Observe(context.Context) (o Observed, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Sessions = []Session{}
	for _, name := range slices.Sorted(maps.Keys(c.desired)) {
		s := Session{Interface: name, Client: c.State(name)}
		if values, err := c.Read(name, "session"); err == nil && s.Client.Running {
			s.read(values)
		} else if text, err := os.ReadFile(filepath.Join(program.Dir(c.runDir, prefix+name), "output")); err == nil {
			s.Error = lastError(string(text), s.Client.Running)
		}
		o.Sessions = append(o.Sessions, s)
	}
	return o, nil
}

// ReportServers passes on the DNS servers of the sessions that are up, also of those that a daemon before left.
func (c *Client) ReportServers() error {
	var list []service.Server
	for _, name := range c.Known() {
		var s Session
		if values, err := c.Read(name, "session"); err == nil {
			s.read(values)
		}
		for _, a := range s.DNS {
			list = append(list, service.Server{Interface: name, Address: a})
		}
	}
	return c.servers("pppoe", list)
}

// read takes what the script wrote.
func (s *Session) read(values map[string]string) {
	s.Address = values["address"]
	s.Up = s.Address != ""
	s.Peer = values["peer"]
	s.Concentrator = values["concentrator"]
	s.ID, _ = strconv.Atoi(values["id"])
	for _, word := range strings.Fields(values["dns"]) {
		if a, err := netip.ParseAddr(word); err == nil && a.Is4() && a.IsGlobalUnicast() && !slices.Contains(s.DNS, a) {
			s.DNS = append(s.DNS, a)
		}
	}
	if seconds, err := strconv.ParseInt(values["since"], 10, 64); err == nil {
		s.Since = time.Unix(seconds, 0)
	}
}

// failures are words of pppd that say why there is no session, with what they mean.
var failures = []struct{ word, meaning string }{
	{"authentication failed", "authentication failed: user or password is wrong"},
	{"Timeout waiting for PADO", "no access concentrator answers"},
	{"Timeout waiting for PADS", "the access concentrator gives no session"},
	{"No response to", "the provider answers no echo"},
	{"LCP: timeout", "the provider does not answer LCP"},
	{"Modem hangup", "the provider ended the session"},
	{"LCP terminated by peer", "the provider ended the session"},
}

// lastError is the last of what pppd printed that says why there is no session; of a pppd that ended, its last line if no other. Providers' words are a stranger's.
func lastError(output string, running bool) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	told := ""
	for _, line := range slices.Backward(lines) {
		for _, f := range failures {
			if !strings.Contains(line, f.word) {
				continue
			}
			if f.word != "Modem hangup" { // pppd says it after every other reason
				return f.meaning
			}
			told = f.meaning
		}
	}
	if told == "" && !running {
		told = lines[len(lines)-1] // as a kernel without PPP
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, told)
}

// States are the states of the programs.
func (c *Client) States() (list []program.State) {
	o, _ := c.Observe(context.Background()) // it never fails
	for _, s := range o.Sessions {
		list = append(list, s.Client)
	}
	return list
}

// Down says which sessions are not there.
func (c *Client) Down() (list []string) {
	o, _ := c.Observe(context.Background()) // it never fails
	for _, s := range o.Sessions {
		if s.Up {
			continue
		}
		why := s.Error
		why = cmp.Or(why, "dialing")
		list = append(list, fmt.Sprintf("PPPoE session of %s: %s", s.Interface, why))
	}
	return list
}

func table(o Observed) service.Table {
	t := service.Table{Head: []string{"INTERFACE", "!STATE", "ADDRESS", "PEER", "SINCE", "ID", "CONCENTRATOR", "~LAST ERROR"}, Empty: "No interface is a PPPoE session."}
	for _, s := range o.Sessions {
		state, since, id := "down", "", ""
		if s.Up {
			state, since = "up", s.Since.Format(time.DateTime)
		}
		if s.ID != 0 {
			id = strconv.Itoa(s.ID)
		}
		t.Rows = append(t.Rows, []string{s.Interface, state, s.Address, s.Peer, since, id, s.Concentrator, s.Error})
	}
	return t
}
