// SPDX-License-Identifier: Apache-2.0

// Package api is what the daemon and its clients say to each other: JSON over
// HTTP on the instance's unix socket. It holds the types of requests and
// answers, the client, and the server's plumbing (who asks, how errors travel,
// how large and how slow a request may be). What an answer says is the business
// of the router package.
//
// What can be asked is said once, in values of Operation; docs/reference/openapi.json lists all of them.
//
// The socket's mode is the right to read (root and the group minne); writing
// needs uid 0, which the kernel tells about the peer.
package api

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"minne/internal/base/health"
	"minne/internal/base/plan"
	"minne/internal/model/revisions"
)

// MaxBody bounds a request, in bytes: a configuration and what it is wrapped in, or half a million
// elements of a set.
const MaxBody = 24 << 20

// Empty is a request or answer that says nothing.
type Empty struct{}

// Commit asks to apply, or to preview, a configuration.
type Commit struct {
	Config  string        `json:"config"`            // text of the file
	Source  string        `json:"source,omitempty"`  // its name, for messages
	Confirm time.Duration `json:"confirm,omitempty"` // ns; 0: confirmed at once
	Comment string        `json:"comment,omitempty"`
	Session string        `json:"session,omitempty"` // SSH_CONNECTION of who asks (sshd(8)), "" for none
}

// RestoreQuestion asks to apply a configuration together with files beside it, which share its fate.
type RestoreQuestion struct {
	Commit
	Files     []RestoredFile    `json:"files"`
	Revisions []RestoredHistory `json:"revisions,omitempty"` // for the history, once it is confirmed
}

// RestoredFile is a file beside the configuration. It may hold secrets.
type RestoredFile struct {
	Name string `json:"name"` // path there
	Mode uint32 `json:"mode"`
	Text []byte `json:"text"`
}

// RestoredHistory is a revision of the router that the backup was made of.
type RestoredHistory struct {
	revisions.Revision
	Text string `json:"text"`
}

// RollbackQuestion asks to go back to a revision; 0 is the one before the running one.
type RollbackQuestion struct {
	Revision int `json:"revision,omitempty"`
}

// StopQuestion asks the daemon to end. What it set up keeps working unless All.
type StopQuestion struct {
	All bool `json:"all,omitempty"`
}

// RevisionQuestion asks for a stored configuration.
type RevisionQuestion struct {
	Number string `json:"number" doc:"of the revision, or running for the one in use"`
}

// RevisionNumber asks for a revision by its number, 0 for the running one.
func RevisionNumber(n int) RevisionQuestion {
	if n == 0 {
		return RevisionQuestion{"running"}
	}
	return RevisionQuestion{strconv.Itoa(n)}
}

// Outcome is what became of a request that succeeded.
type Outcome string

// The outcomes.
const (
	Unchanged  Outcome = "unchanged"   // nothing to do, nothing done
	Planned    Outcome = "planned"     // a preview
	Applied    Outcome = "applied"     // in use and confirmed
	Awaiting   Outcome = "awaiting"    // in use until the deadline
	Repaired   Outcome = "repaired"    // the running revision again, as something else had changed the system
	Confirmed  Outcome = "confirmed"   // an awaiting revision was confirmed
	RolledBack Outcome = "rolled-back" // an earlier revision is in use again
)

// Result is the answer to a request that may change the router.
type Result struct {
	Outcome  Outcome       `json:"outcome"`
	Revision int           `json:"revision,omitempty"` // in use afterwards
	Deadline *time.Time    `json:"deadline,omitempty"` // of a revision that waits for its confirmation
	Changes  []plan.Change `json:"changes"`
	Warnings []string      `json:"warnings,omitempty"`
	Session  string        `json:"session,omitempty"` // why the firewall ends the login of who asks; "" when it does not
}

// Revision is a stored revision; Config only when a single one was asked for.
type Revision struct {
	revisions.Revision
	Running bool   `json:"running,omitempty"`
	Text    string `json:"config,omitempty"`
}

// Revisions are the stored revisions, the oldest first.
type Revisions struct {
	Revisions []Revision `json:"revisions"`
}

// Status is the daemon's own state.
type Status struct {
	State     State     `json:"state"`
	Instance  string    `json:"instance"`
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	Running   int       `json:"running,omitempty"`   // revision in use
	Confirmed int       `json:"confirmed,omitempty"` // revision the router starts with
	Awaiting  *Awaited  `json:"awaiting,omitempty"`
	Degraded  []string  `json:"degraded,omitempty"` // what of the running revision could not be put in place, and why
	// What is wrong beside that, told by whoever watches a part of the router; and what others
	// had changed and the router put back: the last times, and how often in all.
	Faults   []health.Fault  `json:"faults,omitempty"`
	Repairs  []health.Repair `json:"repairs,omitempty"`
	Repaired uint64          `json:"repaired,omitempty"`
	Tasks    []TaskStatus    `json:"tasks"`
	// How much the daemon has changed since its start. Neither number moves
	// when what is applied is in place already.
	KernelWrites    uint64 `json:"kernel_writes"`    // netlink, settings, nftables
	RoutingCommands uint64 `json:"routing_commands"` // FRR configuration
}

// State is how a router is in one word.
type State string

// The states.
const (
	Healthy      State = "healthy"      // all is as the running revision wants it
	Degraded     State = "degraded"     // something is not
	Starting     State = "starting"     // the daemon is not through with its start: nothing is promised yet
	Unconfigured State = "unconfigured" // no revision is in use: nothing is forwarded
)

// Overall sums a status up.
func (s Status) Overall() State {
	switch {
	case s.Troubles() > 0:
		return Degraded
	case slices.ContainsFunc(s.Tasks, func(t TaskStatus) bool { return !t.Ready }):
		return Starting
	case s.Running == 0:
		return Unconfigured
	}
	return Healthy
}

// Unsaid returns the lines of what is not in place that no fault says: who watches a part writes the same
// into the book of health, and there it goes when it is over.
func Unsaid(degraded []string, faults []health.Fault) []string {
	return slices.DeleteFunc(slices.Clone(degraded), func(line string) bool {
		return slices.ContainsFunc(faults, func(f health.Fault) bool {
			name, isPort := strings.CutPrefix(f.Key, "port ")
			return strings.HasSuffix(line, f.Text) || // the links that are present may be others by now
				isPort && strings.HasPrefix(strings.TrimPrefix(line, "step kernel: "), "interface "+name+": ")
		})
	})
}

// Troubles counts what is wrong.
func (s Status) Troubles() int {
	n := len(s.Degraded) + len(s.Faults)
	for _, t := range s.Tasks {
		if t.Error != "" {
			n++
		}
	}
	return n
}

// Awaited is a commit that waits for its confirmation.
type Awaited struct {
	Revision int       `json:"revision"`
	User     string    `json:"user"`
	Deadline time.Time `json:"deadline"`
	Left     string    `json:"left"`
}

// TaskStatus is one long-running piece of the daemon.
type TaskStatus struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	Error string `json:"error,omitempty"` // why it last stopped
}
