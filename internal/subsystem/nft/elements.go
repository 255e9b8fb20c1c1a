// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/ipnet"
)

// Elements of a set of addresses, which all are IPv4 or all IPv6, to be put in or taken out.
type Elements struct {
	Set      string
	Interval bool          // the set holds networks too (flags interval)
	Delete   bool          // take out; what is not there is no error
	Timeout  time.Duration // of what is put in; 0 for ever
	Prefixes []netip.Prefix
	Keys     [][]byte // in the place of Prefixes, of a set of another type: as the kernel has them, each part in whole words of 4 bytes
}

// messageBytes is how long the list of elements in one message may become; an attribute's length
// has 16 bits.
const messageBytes = 60_000

// destroySetElement is NFT_MSG_DESTROYSETELEM, since Linux 6.3.
const destroySetElement = 0x1e

// Change changes elements of sets of a table of family inet that this process owns, or nobody, in their
// order: all of them, or none.
func Change(table string, changes []Elements) error {
	var messages []message
	for _, c := range changes {
		for rest := c.Prefixes; len(rest) > 0; {
			var m message
			m, rest = c.message(table, rest)
			messages = append(messages, m)
		}
		for rest := c.Keys; len(rest) > 0; {
			var m message
			m, rest = c.keys(table, rest)
			messages = append(messages, m)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	if err := withOwner(table, func(o *owner) error { return o.run(transaction(messages...)) }); err != nil {
		return fmt.Errorf("change the sets of table %s in the kernel: %w", table, err)
	}
	return nil
}

// message is as many elements as fit into one, and the rest.
func (c *Elements) message(table string, prefixes []netip.Prefix) (m message, rest []netip.Prefix) {
	m, list := c.head(table)
	for len(prefixes) > 0 && len(m) < messageBytes {
		m = c.element(m, prefixes[0])
		prefixes = prefixes[1:]
	}
	m.close(list)
	return m.end(), prefixes
}

// keys is message for keys.
func (c *Elements) keys(table string, keys [][]byte) (m message, rest [][]byte) {
	m, list := c.head(table)
	for len(keys) > 0 && len(m) < messageBytes {
		m = c.key(m, keys[0], false)
		keys = keys[1:]
	}
	m.close(list)
	return m.end(), keys
}

// head begins a message with elements.
func (c *Elements) head(table string) (m message, list int) {
	kind, flags := uint16(unix.NFT_MSG_NEWSETELEM), uint16(unix.NLM_F_REQUEST|unix.NLM_F_CREATE)
	if c.Delete {
		kind, flags = destroySetElement, unix.NLM_F_REQUEST
	}
	m = newMessage(kindOf(kind), flags, unix.NFPROTO_INET)
	m = m.text(unix.NFTA_SET_ELEM_LIST_TABLE, table).text(unix.NFTA_SET_ELEM_LIST_SET, c.Set)
	return m.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
}

// element writes an address; of networks, where they begin and the first address behind them.
func (c *Elements) element(m message, p netip.Prefix) message {
	first := p.Masked().Addr()
	m = c.bound(m, first, false)
	if c.Interval {
		if behind := ipnet.Last(p).Next(); behind.IsValid() {
			m = c.bound(m, behind, true)
		}
	}
	return m
}

func (c *Elements) bound(m message, a netip.Addr, end bool) message {
	return c.key(m, a.AsSlice(), end)
}

func (c *Elements) key(m message, value []byte, end bool) message {
	m, element := m.nest(unix.NFTA_LIST_ELEM)
	if end {
		m = m.attribute(unix.NFTA_SET_ELEM_FLAGS, binary.BigEndian.AppendUint32(nil, unix.NFT_SET_ELEM_INTERVAL_END))
	}
	m, key := m.nest(unix.NFTA_SET_ELEM_KEY)
	m = m.attribute(unix.NFTA_DATA_VALUE, value)
	m.close(key)
	if c.Timeout > 0 && !end && !c.Delete {
		m = m.attribute(unix.NFTA_SET_ELEM_TIMEOUT, binary.BigEndian.AppendUint64(nil, uint64(max(1, c.Timeout.Milliseconds()))))
	}
	m.close(element)
	return m
}
