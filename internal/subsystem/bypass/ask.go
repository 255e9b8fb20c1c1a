// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Netlink dumps (RFC 3549), as bytes. Integers are in host order, but for those of the packet filter.

var native = binary.NativeEndian

const (
	answerBytes   = 64 << 10 // the kernel puts at most 32 KiB into one read
	answerTimeout = 10       // seconds
	triesToList   = 10       // how often a list is read again that changed while it was read
)

// absent are the answers of a kernel that lacks what is asked for, or whose device has gone meanwhile.
var absent = []error{unix.EPROTONOSUPPORT, unix.EOPNOTSUPP, unix.EINVAL, unix.ENOENT, unix.ENODEV}

// missing says whether an error means that there is nothing to list.
func missing(err error) bool {
	return slices.ContainsFunc(absent, func(e error) bool { return errors.Is(err, e) })
}

// dump asks for a list and calls each with the body of every answer.
func dump(protocol int, kind uint16, body []byte, each func(body []byte)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: answerTimeout}); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	for range triesToList {
		var bodies [][]byte
		if err = list(fd, kind, unix.NLM_F_DUMP, body, func(b []byte) { bodies = append(bodies, slices.Clone(b)) }); err == nil {
			for _, b := range bodies {
				each(b)
			}
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return err
}

// list sends one request and calls each with the body of every answer. EINTR means that the list changed meanwhile.
func list(fd int, kind, flags uint16, body []byte, each func(body []byte)) error {
	request := native.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	request = native.AppendUint16(request, kind)
	request = native.AppendUint16(request, unix.NLM_F_REQUEST|flags)
	request = append(append(request, make([]byte, 8)...), body...)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buffer, changed := make([]byte, answerBytes), false
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.NLMSG_HDRLEN; {
			length := int(native.Uint32(rest))
			if length < unix.NLMSG_HDRLEN || length > len(rest) {
				return fmt.Errorf("the kernel's answer is cut short")
			}
			body := rest[unix.NLMSG_HDRLEN:length]
			changed = changed || native.Uint16(rest[6:])&unix.NLM_F_DUMP_INTR != 0
			switch native.Uint16(rest[4:]) {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if code := int32(native.Uint32(pad(body, 4))); code < 0 {
					return unix.Errno(-code)
				}
				if changed {
					return unix.EINTR
				}
				return nil
			default:
				each(body)
			}
			rest = rest[min((length+3)&^3, len(rest)):]
		}
		if flags&unix.NLM_F_DUMP == 0 && flags&unix.NLM_F_ACK == 0 {
			return nil
		}
	}
}

// attributes walks attributes, each with its kind, and ends early at a broken one.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	const typeMask = 0x3fff // NLA_TYPE_MASK
	return func(yield func(kind uint16, value []byte) bool) {
		for rest := b; len(rest) >= unix.SizeofNlAttr; {
			length := int(native.Uint16(rest))
			if length < unix.SizeofNlAttr || length > len(rest) || !yield(native.Uint16(rest[2:])&typeMask, rest[unix.SizeofNlAttr:length]) {
				return
			}
			rest = rest[min((length+3)&^3, len(rest)):]
		}
	}
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
