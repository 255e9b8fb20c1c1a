// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// The packet filter tells everybody who asks (the netlink group NFNLGRP_NFTABLES) what each
// transaction has changed, and at its end who made it. That is how Minne learns of other hands in its
// own tables, and of tables of others that stand in the way of its packets.

// Transaction is what one transaction has changed, whoever made it: Minne's own are told too.
type Transaction struct {
	Tables  []Touched
	PID     uint32 // of the thread that made it, as the first PID namespace counts
	Program string // its name, 15 bytes at most
	Lost    bool   // the kernel had to drop notifications: anything may have changed
}

// Touched is a table of which something has changed.
type Touched struct {
	Family   byte // NFPROTO_…
	Name     string
	Elements bool // nothing but elements of sets
}

// By says who made a transaction, for messages.
func (t *Transaction) By() string {
	switch {
	case t.Lost:
		return "an unknown process"
	case t.Program == "":
		return fmt.Sprintf("process %d", t.PID)
	}
	return fmt.Sprintf("%s (process %d)", t.Program, t.PID)
}

// Touches says whether a transaction may have changed a table.
func (t *Transaction) Touches(family byte, table string) bool {
	return t.Lost || slices.ContainsFunc(t.Tables, func(o Touched) bool { return o.Family == family && o.Name == table })
}

// ownTables are the tables that Minne makes: the rules, the guard behind them, the source address
// checks, the filter of the boot. Another one whose name only begins so is somebody else's.
var ownTables = []string{"minne_policy", "minne_guard", "minne_antispoof", "minne-boot"}

// OwnTable says whether a table is one of Minne's.
func OwnTable(family byte, name string) bool {
	return family == unix.NFPROTO_INET && slices.Contains(ownTables, name)
}

// watchRoom is how many bytes of notifications may wait. A transaction of 100,000 elements is some
// 30 MB of them; beyond the room they are lost, which costs one look at everything.
const watchRoom = 8 << 20

// Watch is a socket that hears of transactions in the network namespace in which it was opened.
type Watch struct {
	file *os.File

	// Of the transaction that is being told.
	tables []Touched
}

// NewWatch hears of all transactions from here on; Run tells them.
func NewWatch() (*Watch, error) {
	file, err := nlmsg.Listen(unix.NETLINK_NETFILTER, watchRoom, nil, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return nil, fmt.Errorf("watch for changes of the packet filter: %w", err)
	}
	return &Watch{file: file}, nil
}

// Close ends Run.
func (w *Watch) Close() { _ = w.file.Close() }

// Run calls tell with each transaction, one after the other, until ctx ends, and closes the socket.
func (w *Watch) Run(ctx context.Context, tell func(Transaction)) error {
	defer w.Close()
	defer context.AfterFunc(ctx, w.Close)()
	buffer := make([]byte, 1<<16) // the kernel puts no more than 8 KiB into one
	for {
		n, err := w.file.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			w.tables = nil
			tell(Transaction{Lost: true})
		case err != nil:
			return fmt.Errorf("watch for changes of the packet filter: %w", err)
		default:
			w.read(buffer[:n], tell)
		}
	}
}

// read takes in notifications. The last of a transaction is the new generation.
func (w *Watch) read(messages []byte, tell func(Transaction)) {
	for rest := messages; len(rest) > 0; {
		m, after, err := nlmsg.Next(rest)
		if err != nil || len(m.Body) < 4 {
			return
		}
		kind, family, list := m.Type, m.Body[0], m.Body[4:]
		switch kind {
		case kindOf(unix.NFT_MSG_NEWGEN):
			t := Transaction{Tables: w.tables}
			for kind, value := range nlmsg.Attributes(list) {
				switch {
				case kind == unix.NFTA_GEN_PROC_PID && len(value) == 4:
					t.PID = binary.BigEndian.Uint32(value)
				case kind == unix.NFTA_GEN_PROC_NAME:
					t.Program = unix.ByteSliceToString(value)
				}
			}
			w.tables = nil
			tell(t)
		default:
			w.touch(family, list, kind == kindOf(unix.NFT_MSG_NEWSETELEM) || kind == kindOf(unix.NFT_MSG_DELSETELEM))
		}
		rest = after
	}
}

// touch notes a table. Of all objects, the first attribute is the name of their table, so that
// 100,000 elements cost no more than a look at each.
func (w *Watch) touch(family byte, list []byte, elements bool) {
	if len(list) < 5 || binary.NativeEndian.Uint16(list[2:])&^unix.NLA_F_NESTED != unix.NFTA_TABLE_NAME {
		return
	}
	name := list[4:max(4, min(int(binary.NativeEndian.Uint16(list)), len(list)))]
	if len(name) > 0 && name[len(name)-1] == 0 {
		name = name[:len(name)-1]
	}
	for i := range w.tables {
		if t := &w.tables[i]; t.Family == family && t.Name == string(name) {
			t.Elements = t.Elements && elements
			return
		}
	}
	w.tables = append(w.tables, Touched{Family: family, Name: string(name), Elements: elements})
}
