// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/thread"
)

// The kernel lets nobody but its owner change a table, and the owner is the socket that has written it.
// That of nft(8) ends with nft. So nft loads a table into an empty network namespace, and what the kernel
// says of it there, the owner's socket writes here: no encoder of Minne's own, and still an owner.

// Load replaces a table of family inet by the one that nft(8) makes of a script, in one transaction, and
// returns its image. Its owner is that of the guards.
func Load(ctx context.Context, table, script string) (image Image, err error) {
	var messages []message
	err = elsewhere(func() error {
		if _, err := Run(ctx, script, "-f", "-"); err != nil {
			return err
		}
		d, err := describe(table)
		if err != nil {
			return err
		}
		if image, err = readImage(table); err != nil || image == nil {
			return cmp.Or(err, errors.New("the script creates no such table"))
		}
		image["table"] = imageOf(d.comment, ownerFlags)
		messages = []message{destroy(table), newTable(table, d.comment)}
		t, err := dial()
		if err != nil {
			return err
		}
		defer t.close()
		copied, err := t.copy(table)
		messages = append(messages, copied...)
		return err
	})
	if err == nil {
		err = withOwner(table, func(o *owner) error { return o.run(transaction(messages...)) })
	}
	if err != nil {
		return nil, fmt.Errorf("load table %s into the kernel: %w", table, err)
	}
	return image, nil
}

// elsewhere does something in an empty network namespace, which ends with it.
func elsewhere(do func() error) (err error) {
	thread.Alone(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = os.NewSyscallError("make a network namespace to load the table in", err)
			return
		}
		err = do()
	})
	return err
}

// What of the kernel's words about an object makes the same object: not its handle, place and use.
var (
	copyChain  = kindToCopy{unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN, []uint16{unix.NFTA_CHAIN_TABLE, unix.NFTA_CHAIN_NAME, unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, unix.NFTA_CHAIN_TYPE}}
	copyObject = kindToCopy{unix.NFT_MSG_GETOBJ, unix.NFT_MSG_NEWOBJ, []uint16{unix.NFTA_OBJ_TABLE, unix.NFTA_OBJ_NAME, unix.NFTA_OBJ_TYPE, unix.NFTA_OBJ_DATA}}
	copySet    = kindToCopy{unix.NFT_MSG_GETSET, unix.NFT_MSG_NEWSET, []uint16{unix.NFTA_SET_TABLE, unix.NFTA_SET_NAME, unix.NFTA_SET_FLAGS, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN,
		unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN, unix.NFTA_SET_POLICY, unix.NFTA_SET_DESC, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_GC_INTERVAL, unix.NFTA_SET_USERDATA, unix.NFTA_SET_OBJ_TYPE}}
	copyRule = kindToCopy{unix.NFT_MSG_GETRULE, unix.NFT_MSG_NEWRULE, []uint16{unix.NFTA_RULE_TABLE, unix.NFTA_RULE_CHAIN, unix.NFTA_RULE_USERDATA}}
)

type kindToCopy struct {
	get, make  uint16
	attributes []uint16
}

// copy reads a table as the messages that make all that is in it: chains before the elements that lead to
// them, sets and their elements before the rules that use them.
func (t talk) copy(table string) (messages []message, err error) {
	read := func(k kindToCopy, also func(object []byte, m message) message) {
		if err != nil {
			return
		}
		err = t.list(k.get, table, "", func(object []byte) {
			m := add(k.make)
			for kind, value := range nlmsg.Attributes(object) {
				if slices.Contains(k.attributes, kind) {
					m = m.attribute(kind, value)
				}
			}
			messages = append(messages, also(object, m).end())
		})
	}
	asIs := func(_ []byte, m message) message { return m }
	read(copyChain, asIs)
	read(copyObject, asIs)
	sets := map[string]bool{} // whether they hold intervals, by name
	var order []string
	read(copySet, func(set []byte, m message) message {
		name, flags := setHead(set)
		order = append(order, name)
		sets[name] = flags&unix.NFT_SET_INTERVAL != 0
		return m.attribute(unix.NFTA_SET_ID, be32(uint32(len(order))))
	})
	for _, set := range order {
		var elements [][]byte
		if err == nil {
			elements, err = t.elements(table, set)
		}
		if sets[set] { // the kernel wants them by address, and the end of one before the next begins there
			slices.SortFunc(elements, func(a, b []byte) int {
				ka, enda := keyOf(a)
				kb, endb := keyOf(b)
				return cmp.Or(bytes.Compare(ka, kb), map[bool]int{enda: -1, endb: 1, enda == endb: 0}[true])
			})
		}
		for len(elements) > 0 {
			m := add(unix.NFT_MSG_NEWSETELEM).text(unix.NFTA_SET_ELEM_LIST_TABLE, table).text(unix.NFTA_SET_ELEM_LIST_SET, set)
			m, list := m.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
			for len(elements) > 0 && len(m) < messageBytes {
				m = m.attribute(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, elements[0])
				elements = elements[1:]
			}
			m.close(list)
			messages = append(messages, m.end())
		}
	}
	read(copyRule, func(body []byte, m message) message {
		m, at := m.nest(unix.NFTA_RULE_EXPRESSIONS)
		for kind, list := range nlmsg.Attributes(body) {
			if kind == unix.NFTA_RULE_EXPRESSIONS {
				for _, expression := range nlmsg.Attributes(list) {
					m = append(m, copyExpression(expression)...)
				}
			}
		}
		m.close(at)
		return m
	})
	return messages, err
}

// onlyIfSet are attributes that the kernel lists of an expression in any case, and refuses where nobody has set them: the
// timeout of what puts elements into a set without timeouts, flags of what writes into a TCP option.
var onlyIfSet = map[string]uint16{"dynset": unix.NFTA_DYNSET_TIMEOUT, "exthdr": unix.NFTA_EXTHDR_FLAGS}

// copyExpression makes an expression of a rule again.
func copyExpression(expression []byte) rule {
	name := ""
	var body message
	for kind, value := range nlmsg.Attributes(expression) {
		switch kind {
		case unix.NFTA_EXPR_NAME:
			name = unix.ByteSliceToString(value)
		case unix.NFTA_EXPR_DATA:
			for kind, value := range nlmsg.Attributes(value) {
				if kind != onlyIfSet[name] || !bytes.Equal(value, make([]byte, len(value))) {
					body = body.attribute(kind, value)
				}
			}
		}
	}
	return rule{}.expression(name, body)
}

// setHead is the name of a set, and its flags.
func setHead(set []byte) (name string, flags uint32) {
	for kind, value := range nlmsg.Attributes(set) {
		switch kind {
		case unix.NFTA_SET_NAME:
			name = unix.ByteSliceToString(value)
		case unix.NFTA_SET_FLAGS:
			flags = binary.BigEndian.Uint32(value)
		}
	}
	return name, flags
}

// elements reads those of a set.
func (t talk) elements(table, set string) (list [][]byte, err error) {
	err = t.list(unix.NFT_MSG_GETSETELEM, table, set, func(some []byte) {
		for kind, elements := range nlmsg.Attributes(some) {
			if kind == unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				for _, element := range nlmsg.Attributes(elements) {
					list = append(list, bytes.Clone(element))
				}
			}
		}
	})
	return list, err
}

// keyOf is the key of an element, and whether it is the first behind an interval.
func keyOf(element []byte) (key []byte, end bool) {
	for kind, value := range nlmsg.Attributes(element) {
		switch {
		case kind == unix.NFTA_SET_ELEM_FLAGS && len(value) == 4:
			end = binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case kind == unix.NFTA_SET_ELEM_KEY:
			for _, data := range nlmsg.Attributes(value) {
				key = data
			}
		}
	}
	return key, end
}
