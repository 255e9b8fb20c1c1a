// SPDX-License-Identifier: Apache-2.0

package slot

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// StateSize is the length of the boot state: a GRUB environment block on the
// partition labelled minne-state.
//
// GRUB reads and writes it with load_env and save_env, which want a file: the
// partition is a tar archive of one file named "state", whose content begins at
// StateOffset. The router uses LoadState and StoreState, which leave the rest of
// the archive alone. All that is ever in the block fits into its first sector of
// 512 bytes; the rest is filling. So a write changes one sector, which a power cut
// leaves either old or new.
const (
	StateSize   = 1024
	StateOffset = 512
)

const (
	stateHead   = "# GRUB Environment Block\n"
	stateSector = 512
)

// State says which slot to boot. A name is "a" or "b", or empty.
type State struct {
	Slot   string // the good one, booted when nothing else is said
	Try    string // booted once: GRUB clears this before it boots it
	Failed string // the last one that was tried or damaged, and fallen back from
	Starts string // of the good one that did not get well, so far: see StartsLimit
	Why    string // Failed is: NeverWell, else it was tried or damaged
}

// words are what Starts may be.
var words = []string{"", "1", "2", StartsLimit, StartsTry, StartsHelp}

// What GRUB counts: a start adds one, and a router that gets well makes it none again. The fourth start is the other
// slot's. Besides numbers there are words.
const (
	StartsLimit = "3"    // so many starts in a row may fail
	StartsTry   = "try"  // a trial: it has its own way back
	StartsHelp  = "help" // both slots failed: the router is to be helped
)

// NeverWell is why a slot failed whose starts did not get well.
const NeverWell = "starts"

// Other returns the name of the other slot.
func Other(name string) string {
	if name == "a" {
		return "b"
	}
	return "a"
}

// Encode returns the state as its 1024 bytes.
func (s State) Encode() ([]byte, error) {
	var text strings.Builder
	text.WriteString(stateHead)
	if !slices.Contains(words, s.Starts) || s.Why != "" && s.Why != NeverWell {
		return nil, fmt.Errorf("boot state: starts=%q, why=%q", s.Starts, s.Why)
	}
	for _, kv := range [][2]string{{"slot", s.Slot}, {"try", s.Try}, {"failed", s.Failed}} {
		if v := kv[1]; v != "" && v != "a" && v != "b" {
			return nil, fmt.Errorf("boot state: %s=%q: expected a or b", kv[0], v)
		}
		fmt.Fprintf(&text, "%s=%s\n", kv[0], kv[1])
	}
	fmt.Fprintf(&text, "starts=%s\nwhy=%s\n", s.Starts, s.Why)
	return append([]byte(text.String()), bytes.Repeat([]byte("#"), StateSize-text.Len())...), nil
}

// ParseState reads a boot state. Words that it does not know are left out: they
// are lost with the next write.
func ParseState(block []byte) (State, error) {
	if len(block) < StateSize || !bytes.HasPrefix(block, []byte(stateHead)) {
		return State{}, fmt.Errorf("boot state: no %q block of %d bytes", strings.TrimSpace(stateHead), StateSize)
	}
	var s State
	for line := range strings.Lines(string(block[len(stateHead):stateSector])) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch isSlot := value == "a" || value == "b"; {
		case key == "slot" && isSlot:
			s.Slot = value
		case key == "try" && isSlot:
			s.Try = value
		case key == "failed" && isSlot:
			s.Failed = value
		case key == "starts" && slices.Contains(words, value):
			s.Starts = value
		case key == "why" && value == NeverWell:
			s.Why = value
		}
	}
	return s, nil
}

// LoadState reads the boot state from its partition.
func LoadState(partition io.ReaderAt) (State, error) {
	block := make([]byte, StateSize)
	if _, err := partition.ReadAt(block, StateOffset); err != nil {
		return State{}, fmt.Errorf("boot state: %w", err)
	}
	return ParseState(block)
}

// Durable is where a boot state can be stored.
type Durable interface {
	io.WriterAt
	Sync() error // returns when the medium has all that was written
}

// StoreState writes the boot state to its partition and waits until the medium has it.
func StoreState(partition Durable, s State) error {
	block, err := s.Encode()
	if err != nil {
		return err
	}
	if _, err := partition.WriteAt(block[:stateSector], StateOffset); err != nil {
		return fmt.Errorf("boot state: %w", err)
	}
	if err := partition.Sync(); err != nil {
		return fmt.Errorf("boot state: %w", err)
	}
	return nil
}
