// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// tableUserdata is NFTA_TABLE_USERDATA.
const tableUserdata = 6

// commentOf finds the comment in what nft(8) keeps with a table or rule: entries of a byte for the
// type, one for the length, and the value. The comment is type 0, with a zero behind it.
func commentOf(userdata []byte) string {
	for len(userdata) >= 2 && len(userdata) >= 2+int(userdata[1]) {
		length := int(userdata[1])
		if userdata[0] == 0 && length > 0 {
			return string(userdata[2 : 1+length])
		}
		userdata = userdata[2+length:]
	}
	return ""
}

// Comment returns the comment of a table of family inet, and whether there is such a table.
func Comment(table string) (comment string, there bool, err error) {
	d, err := describe(table)
	return d.comment, d.there, err
}

// description is what the kernel says of a table itself.
type description struct {
	there   bool
	comment string
	flags   uint32
	owner   uint32 // port of the socket that owns it, 0 for none
}

// describe asks for the description of a table of family inet.
func describe(table string) (d description, err error) {
	t, err := dial()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return description{}, nil // a kernel without a packet filter has no table
	}
	if err != nil {
		return description{}, err
	}
	defer t.close()
	ask := newMessage(kindOf(unix.NFT_MSG_GETTABLE), unix.NLM_F_REQUEST|unix.NLM_F_ACK, unix.NFPROTO_INET)
	if err := t.send(ask.text(unix.NFTA_TABLE_NAME, table).end()); err != nil {
		return description{}, fmt.Errorf("ask for table %s: %w", table, err)
	}
	err = t.answers(func(_ uint16, body []byte) {
		d.there = true
		for kind, value := range nlmsg.Attributes(body) {
			switch {
			case kind == tableUserdata:
				d.comment = commentOf(value)
			case kind == unix.NFTA_TABLE_FLAGS && len(value) == 4:
				d.flags = binary.BigEndian.Uint32(value)
			case kind == tableOwnedBy && len(value) == 4:
				d.owner = binary.BigEndian.Uint32(value)
			}
		}
	})
	if slices.ContainsFunc([]error{unix.ENOENT, unix.EINVAL, unix.EOPNOTSUPP}, func(e error) bool { return err == e }) {
		return description{}, nil // no such table, or a kernel without tables
	}
	if err != nil {
		return description{}, fmt.Errorf("ask for table %s: %w", table, err)
	}
	return d, nil
}

// Count is what the counters of rules say.
type Count struct{ Packets, Bytes uint64 }

// triesToList is how often a list is read again that changed while it was read.
const triesToList = 10

// Counters returns what the rules of a table of family inet have counted, by their comments; those
// with the same are added.
func Counters(table string) (counts map[string]Count, err error) {
	for range triesToList {
		if counts, err = counters(table); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the counters of table %s: %w", table, err)
	}
	return counts, nil
}

func counters(table string) (map[string]Count, error) {
	t, err := dial()
	if err != nil {
		return nil, err
	}
	defer t.close()
	ask := newMessage(kindOf(unix.NFT_MSG_GETRULE), unix.NLM_F_REQUEST|unix.NLM_F_DUMP, unix.NFPROTO_INET)
	if err := t.send(ask.text(unix.NFTA_RULE_TABLE, table).end()); err != nil {
		return nil, err
	}
	counts := map[string]Count{}
	return counts, t.answers(func(_ uint16, rule []byte) {
		comment, count := "", Count{}
		for kind, value := range nlmsg.Attributes(rule) {
			switch kind {
			case unix.NFTA_RULE_USERDATA:
				comment = commentOf(value)
			case unix.NFTA_RULE_EXPRESSIONS:
				for _, expression := range nlmsg.Attributes(value) {
					count.add(expression)
				}
			}
		}
		sum := counts[comment]
		counts[comment] = Count{sum.Packets + count.Packets, sum.Bytes + count.Bytes}
	})
}

// add adds an expression of a rule, if it is a counter.
func (c *Count) add(expression []byte) {
	name := ""
	for kind, value := range nlmsg.Attributes(expression) {
		switch {
		case kind == unix.NFTA_EXPR_NAME:
			name = string(value)
		case kind == unix.NFTA_EXPR_DATA && name == "counter\x00":
			for kind, value := range nlmsg.Attributes(value) {
				if len(value) != 8 {
					continue
				}
				switch n := binary.BigEndian.Uint64(value); kind {
				case unix.NFTA_COUNTER_PACKETS:
					c.Packets += n
				case unix.NFTA_COUNTER_BYTES:
					c.Bytes += n
				}
			}
		}
	}
}
