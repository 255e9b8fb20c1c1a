// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/base/keyfile"
)

// Options of an installation.
type Options struct {
	Keys      []ed25519.PublicKey // whose systems are taken
	Downgrade bool                // take one that was built before the running one
	Without   []string            // sets of the running system that may be lost
	// Promised is called when all is written, before the new slot is to be booted: what
	// it keeps is what the trial compares with. Its error ends the installation.
	Promised func(to slot.System, target string) error
	Progress func(done, total int64) // bytes written; may be nil
}

// ErrTrial is returned while the running system itself is still on trial.
var ErrTrial = errors.New("the running system is on trial: wait until the upgrade is accepted (minne upgrade --status), or restart the router to fall back")

// Check says whether a system may replace the running one, without touching the medium.
func (m Medium) Check(s *Source, o Options) error {
	if m.Trial {
		if state, err := m.state(); err != nil || state.Slot != m.Booted {
			return ErrTrial
		}
	}
	if err := trusted(s.Trailer, o.Keys); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if s.Trailer.Arch != runtime.GOARCH {
		return fmt.Errorf("%s is for %s: this router is %s", s.Name, s.Trailer.Arch, runtime.GOARCH)
	}
	running, err := m.Holds(m.Booted, false)
	if err != nil {
		return nil // a damaged system is replaced by any
	}
	if lost := slices.DeleteFunc(running.Lacks(s.Trailer.System), func(name string) bool { return slices.Contains(o.Without, name) }); len(lost) > 0 {
		list := strings.Join(lost, ",")
		return fmt.Errorf("%s lacks what the running system has: %s: build it with ./dev image --with %s, or add --without %s to lose it",
			s.Name, list, strings.Join(running.Sets(), ","), list)
	}
	if s.Trailer.Built.Before(running.Built) && !o.Downgrade {
		return fmt.Errorf("%s is version %s, built %s; the running one is %s, built %s: add --downgrade to install an older version",
			s.Name, s.Trailer.Version, s.Trailer.Built.Format(time.DateTime), running.Version, running.Built.Format(time.DateTime))
	}
	return nil
}

func trusted(t slot.Trailer, keys []ed25519.PublicKey) error {
	if !t.HasSignature() {
		return errors.New("it is not signed: expected a signature by a key that this router trusts")
	}
	var names []string
	for _, key := range keys {
		if t.Signed(key) {
			return nil
		}
		names = append(names, keyfile.Fingerprint(key))
	}
	if len(names) == 0 {
		return fmt.Errorf("this router trusts no key yet: copy the signer's public key to %s", LocalKeysDir)
	}
	return fmt.Errorf("not signed by a trusted key (trusted: %s): nothing was written", strings.Join(names, ", "))
}

// Install writes a system to the slot that is not in use and has it tried at the
// next boot. It returns the slot. After an error the running system stays the one
// that boots; the other slot may be empty then.
func (m Medium) Install(ctx context.Context, s *Source, o Options) (target string, err error) {
	if err := m.Check(s, o); err != nil {
		return "", err
	}
	target = slot.Other(m.Booted)
	d, err := m.open(m.Slots[target])
	if err != nil {
		return "", fmt.Errorf("slot %s: %w", target, err)
	}
	size, err := d.Size()
	if err == nil && s.Trailer.Size > size-slot.TrailerSize {
		err = fmt.Errorf("%s has %d bytes, the slot holds %d: the medium is too small", s.Name, s.Trailer.Size, size-slot.TrailerSize)
	}
	if err == nil {
		err = m.setState(slot.State{Slot: m.Booted}) // nothing may boot the slot that is written
	}
	if err == nil {
		err = write(ctx, d, size, s, o.Progress)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return "", fmt.Errorf("slot %s: %w", target, err)
	}
	return target, m.tryNext(target, s.Trailer.System, o.Promised)
}

// tryNext has a slot tried at the next boot.
func (m Medium) tryNext(target string, to slot.System, promised func(slot.System, string) error) error {
	if promised != nil {
		if err := promised(to, target); err != nil {
			return err
		}
	}
	return m.setState(slot.State{Slot: m.Booted, Try: target})
}

// Undo has the other slot tried at the next boot, with the system that it holds.
func (m Medium) Undo(o Options) (target string, to slot.System, err error) {
	if m.Trial {
		if state, err := m.state(); err != nil || state.Slot != m.Booted {
			return "", to, ErrTrial
		}
	}
	target = slot.Other(m.Booted)
	t, err := m.Holds(target, true)
	if err != nil {
		return "", to, fmt.Errorf("no system to fall back to: %w", err)
	}
	return target, t.System, m.tryNext(target, t.System, o.Promised)
}

// chunk is how much is written at once, in bytes.
const chunk = 1 << 20

// write puts a system into a slot of size bytes: the old trailer goes first and the
// new one comes last, each when the medium has all that was before it.
func write(ctx context.Context, d Device, size int64, s *Source, progress func(done, total int64)) error {
	end := size - slot.TrailerSize
	if _, err := d.WriteAt(make([]byte, slot.TrailerSize), end); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	payload, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer payload.Close()
	if err := transfer(ctx, d, io.LimitReader(payload, s.Trailer.Size), s, progress); err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return err
	}
	if _, err := d.Size(); err != nil { // forgets what is cached
		return err
	}
	if err := s.Trailer.CheckPayload(io.NewSectionReader(d, 0, s.Trailer.Size)); err != nil {
		return fmt.Errorf("verify what was written: %w", err)
	}
	if _, err := d.WriteAt(s.Trailer.Raw(), end); err != nil {
		return err
	}
	return d.Sync()
}

func transfer(ctx context.Context, d Device, payload io.Reader, s *Source, progress func(done, total int64)) error {
	buffer, done := make([]byte, chunk), int64(0)
	for done < s.Trailer.Size {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(payload, buffer[:min(chunk, s.Trailer.Size-done)])
		if n > 0 {
			if _, err := d.WriteAt(buffer[:n], done); err != nil {
				return err
			}
			done += int64(n)
			if progress != nil {
				progress(done, s.Trailer.Size)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: after %d of %d bytes: %w", s.Name, done, s.Trailer.Size, err)
		}
		if done%(16*chunk) == 0 { // so that the end is no long wait, and routing not starved of I/O
			if err := d.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}
