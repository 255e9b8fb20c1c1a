// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

var native = binary.NativeEndian

const triesToList = 10 // how often a list is read again that changed while it was read

// absent are the answers of a kernel that lacks what is asked for, or whose device has gone meanwhile.
var absent = []error{unix.EPROTONOSUPPORT, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOENT, unix.ENODEV}

// missing says whether an error means that there is nothing to list.
func missing(err error) bool {
	return slices.ContainsFunc(absent, func(e error) bool { return errors.Is(err, e) })
}

// dump asks for a list and calls each with the body of every answer, after all have come.
func dump(protocol int, kind uint16, body []byte, each func(body []byte)) error {
	s, err := nlmsg.Dial(protocol)
	if err != nil {
		return err
	}
	defer s.Close()
	for range triesToList {
		var bodies [][]byte
		intact, err := s.Ask(context.Background(), kind, unix.NLM_F_DUMP, body, func(m nlmsg.Message) error {
			bodies = append(bodies, slices.Clone(m.Body))
			return nil
		})
		if err != nil {
			return err
		}
		if intact {
			for _, b := range bodies {
				each(b)
			}
			return nil
		}
	}
	return unix.EINTR // the list changed each time
}

// pad returns b with at least so many bytes.
func pad(b []byte, length int) []byte {
	if len(b) >= length {
		return b
	}
	return append(slices.Clone(b), make([]byte, length-len(b))...)
}

func number(b []byte) uint32 { return native.Uint32(pad(b, 4)) }

// text is a string that ends with a zero.
func text(b []byte) string { return unix.ByteSliceToString(b) }
