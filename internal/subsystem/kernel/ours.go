// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"net/netip"

	"golang.org/x/sys/unix"

	"minne/internal/base/ipnet"
	"minne/internal/base/nlmsg"
)

// Addresses that Minne adds carry its mark in the kernel (IFA_PROTO, Linux 5.18),
// so that an interface that leaves the configuration loses its addresses and no
// others, whichever process put them there and however that one ended.

// addressProtocol is the mark; the kernel's own values end at 3. `ip -d address` shows it.
const addressProtocol = 0x4d

// ifaProto is IFA_PROTO of linux/if_addr.h.
const ifaProto = 11

// ifAddrMsgLen is the size of struct ifaddrmsg: family, prefix length, flags, scope, index.
const ifAddrMsgLen = 8

// dumpTries bounds how often a dump that changes interrupted is repeated.
const dumpTries = 10

// placed is an address on a link.
type placed struct {
	index  int
	prefix netip.Prefix // with host bits
}

// ourAddresses returns the addresses that carry the mark.
func ourAddresses() (map[placed]bool, error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	for range dumpTries {
		ours := make(map[placed]bool)
		intact, err := a.dump(context.Background(), unix.RTM_GETADDR, ifAddrMsgLen,
			func([]byte, *builder) {},
			func(m nlmsg.Message) error {
				if p, ok := decodeOurs(m.Body); ok {
					ours[p] = true
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
		if intact {
			return ours, nil
		}
	}
	return nil, unix.EBUSY
}

// decodeOurs reads an address message; ok tells whether it is one of ours.
func decodeOurs(body []byte) (p placed, ok bool) {
	if len(body) < ifAddrMsgLen {
		return placed{}, false
	}
	var local, peer []byte
	marked := false
	for kind, value := range nlmsg.Attributes(body[ifAddrMsgLen:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local = value
		case unix.IFA_ADDRESS:
			peer = value
		case ifaProto:
			marked = len(value) == 1 && value[0] == addressProtocol
		}
	}
	if local == nil {
		local = peer // IPv6 has IFA_LOCAL only with a peer
	}
	addr, valid := netip.AddrFromSlice(local)
	if !valid || !marked {
		return placed{}, false
	}
	return placed{int(native.Uint32(body[4:])), netip.PrefixFrom(addr, int(body[1]))}, true
}

// addOurs adds an address with the mark.
func addOurs(index int, p netip.Prefix) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	return a.request(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, ifAddrMsgLen, func(body []byte, w *builder) {
		body[0], body[1] = unix.AF_INET, uint8(p.Bits())
		flags := uint32(0)
		if p.Addr().Is6() {
			body[0], flags = unix.AF_INET6, unix.IFA_F_NODAD
		}
		native.PutUint32(body[4:], uint32(index))
		w.attr(unix.IFA_LOCAL, p.Addr().AsSlice())
		w.attr(unix.IFA_ADDRESS, p.Addr().AsSlice())
		if p.Addr().Is4() && p.Bits() < 31 {
			w.attr(unix.IFA_BROADCAST, ipnet.Last(p).AsSlice())
		}
		w.attr32(unix.IFA_FLAGS, flags)
		w.attr(ifaProto, []byte{addressProtocol})
	})
}
