// SPDX-License-Identifier: Apache-2.0

// Package revisions keeps the configurations that a router has had, on disk, so
// that none is lost to a power cut and none is ever read half-written.
//
// Each revision is one file:
//
//	minne-revision 1 <sha256 of all that follows, hex>
//	{"number":7,"time":"…","user":"…","state":"confirmed", …}
//	version: 1
//	interfaces: …
//
// A revision carries its own state, and nothing else does: the running and the
// confirmed configuration and the deadline of a commit that waits for its
// confirmation all follow from the states of the newest files. So every step of
// a commit is the replacement of one file, and there is no second file that
// could disagree.
//
//	applying ──▶ awaiting ──▶ confirmed
//	    │            │
//	    └────────────┴──────▶ reverted
//
// A file is replaced by writing a temporary one, fsync, rename, fsync of the
// directory. A file that was damaged nevertheless (its checksum tells) counts as
// absent, which makes the revision before it the newest. A full disk leaves the
// old file in place.
//
// Secrets are kept as fingerprints only.
package revisions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// State says how far a revision got.
type State string

// The states of a revision.
const (
	Applying  State = "applying"  // being applied; found at start, the daemon was stopped in the middle
	Awaiting  State = "awaiting"  // in use until its deadline, then reverted unless confirmed
	Confirmed State = "confirmed" // the newest confirmed revision is what the router starts with
	Reverted  State = "reverted"  // failed, not confirmed in time, or rolled back before it was confirmed
)

// Revision is one configuration with its history.
type Revision struct {
	Number   int               `json:"number"`
	Time     time.Time         `json:"time"`
	User     string            `json:"user"`
	Comment  string            `json:"comment,omitempty"`
	State    State             `json:"state"`
	Reason   string            `json:"reason,omitempty"`   // why it was reverted
	Source   string            `json:"source,omitempty"`   // the file it came from, as the operator named it
	Secrets  map[string]string `json:"secrets,omitempty"`  // name → fingerprint of each secret in use
	Deadline *Deadline         `json:"deadline,omitempty"` // while applying or awaiting
	Config   string            `json:"-"`                  // the file's text
}

// Deadline is when an unconfirmed revision is reverted. Boottime counts, on the
// boot that BootID names; Wall is for people, because a wall clock may jump.
type Deadline struct {
	Wall     time.Time     `json:"wall"`
	BootID   string        `json:"boot_id"`
	Boottime time.Duration `json:"boottime"` // ns since boot, CLOCK_BOOTTIME
}

// magic opens every revision file; the number is the version of the format.
const magic = "minne-revision 1 "

// ErrDamaged is wrapped by the error for a file whose checksum does not match.
var ErrDamaged = errors.New("damaged")

// encode returns the revision as the content of its file.
func encode(r Revision) ([]byte, error) {
	meta, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("revision %d: encode: %w", r.Number, err)
	}
	body := append(append(meta, '\n'), r.Config...)
	sum := sha256.Sum256(body)
	return append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...), nil
}

// decode reads the content of a revision file. Anything but exactly what encode
// wrote is ErrDamaged.
func decode(file []byte) (Revision, error) {
	head, body, ok := bytes.Cut(file, []byte("\n"))
	sum, named := strings.CutPrefix(string(head), magic)
	if !ok || !named {
		return Revision{}, fmt.Errorf("%w: no %q line", ErrDamaged, strings.TrimSpace(magic))
	}
	if have := sha256.Sum256(body); hex.EncodeToString(have[:]) != sum {
		return Revision{}, fmt.Errorf("%w: checksum differs after %d bytes", ErrDamaged, len(file))
	}
	meta, text, ok := bytes.Cut(body, []byte("\n"))
	if !ok {
		return Revision{}, fmt.Errorf("%w: no line that describes the revision", ErrDamaged)
	}
	var r Revision
	if err := json.Unmarshal(meta, &r); err != nil {
		return Revision{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	r.Config = string(text)
	return r, nil
}
