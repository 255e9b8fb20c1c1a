// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"fmt"
	"strings"
)

// WrongError says that a device forwards wrongly. A fast device that forwards wrong
// frames has no speed at all, so there is no figure beside this error: methods and
// searches stop at it.
type WrongError struct {
	Device string
	Result Result
}

func (e *WrongError) Error() string {
	who := e.Device
	who = cmp.Or(who, "the device")
	r := e.Result
	parts := faults(r.BadTTL, r.BadHeader, r.BadMAC, r.Corrupted)
	text := fmt.Sprintf("%s forwards wrongly: of %d frames received %s", who, r.Received, strings.Join(parts, ", "))
	var streams []string
	for _, s := range r.Streams {
		if found := faults(s.BadTTL, s.BadHeader, s.BadMAC, s.Corrupted); len(found) > 0 {
			streams = append(streams, fmt.Sprintf("stream %d (%s): %s", s.ID, s.Name, strings.Join(found, ", ")))
		}
	}
	if len(streams) > 0 {
		text += "; " + strings.Join(streams, "; ")
	}
	return text + ". No figure is given for such a device"
}

// faults says in words what is wrong with how many frames.
func faults(ttl, header, mac, payload uint64) (out []string) {
	for _, f := range []struct {
		n    uint64
		what string
	}{
		{ttl, "had a TTL (hop limit) that is not one less for every router"},
		{header, "had a wrong IP header (checksum or length)"},
		{mac, "had a MAC address that is not the sink's"},
		{payload, "had a payload or transport checksum that differs from what was sent"},
	} {
		if f.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", f.n, f.what))
		}
	}
	return out
}

// wrong returns a *WrongError when something is wrong with the frames of a result.
func wrong(r Result) error {
	if r.BadTTL+r.BadHeader+r.BadMAC+r.Corrupted == 0 {
		return nil
	}
	return &WrongError{Device: r.Device, Result: r}
}
