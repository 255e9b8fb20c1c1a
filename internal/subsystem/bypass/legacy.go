// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// iptables-legacy and ip6tables-legacy, whose rules nftables does not show and nobody announces
// (net/ipv4/netfilter/ip_tables.c). The kernel says which tables there are, and gives their rules
// through getsockopt. A table whose chains are empty and accept does nothing.

// Numbers of linux/netfilter_ipv4/ip_tables.h.
const (
	legacyInfo    = 64 // IPT_SO_GET_INFO
	legacyEntries = 65 // IPT_SO_GET_ENTRIES

	legacyNameLength = 32
	legacyHooks      = 5
	legacyAccept     = -2 // -NF_ACCEPT - 1
)

// legacyFamily is what differs between the families.
type legacyFamily struct {
	which   int
	names   string // file with the names of the tables
	command string
	domain  int
	level   int
	match   int // bytes of struct ipt_ip or ip6t_ip6, with which an entry begins
}

var legacyFamilies = []legacyFamily{
	{IPv4, "/proc/net/ip_tables_names", "iptables", unix.AF_INET, unix.SOL_IP, 84},
	{IPv6, "/proc/net/ip6_tables_names", "ip6tables", unix.AF_INET6, unix.SOL_IPV6, 136},
}

// legacyTable is struct ipt_getinfo.
type legacyTable struct {
	Name      [legacyNameLength]byte
	Hooks     uint32              // bits
	Entry     [legacyHooks]uint32 // where each chain begins, bytes
	Underflow [legacyHooks]uint32 // and where its policy stands, behind its rules
	Entries   uint32
	Size      uint32
}

// readLegacy finds tables of iptables-legacy that do something to forwarded packets.
func readLegacy() (State, error) {
	var s State
	for _, f := range legacyFamilies {
		names, err := os.ReadFile(f.names)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return State{}, err
		}
		for _, name := range strings.Fields(string(names)) {
			words, err := f.read(name)
			if err != nil && !missing(err) {
				return State{}, fmt.Errorf("%s table %s: %w", f.command, name, err)
			}
			if words != "" {
				s.family(f.which, Filter, words)
			}
		}
	}
	return s, nil
}

// read says what a table does to forwarded packets; "" for nothing.
func (f legacyFamily) read(name string) (string, error) {
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var table legacyTable
	copy(table.Name[:legacyNameLength-1], name)
	if err := f.get(fd, legacyInfo, unsafe.Slice((*byte)(unsafe.Pointer(&table)), unsafe.Sizeof(table))); err != nil {
		return "", err
	}
	// struct ipt_get_entries: name and size, then the entries, aligned to eight bytes.
	const head = legacyNameLength + 4 + 4
	b := make([]byte, head+int(table.Size))
	copy(b, table.Name[:])
	native.PutUint32(b[legacyNameLength:], table.Size)
	if err := f.get(fd, legacyEntries, b); err != nil {
		return "", err
	}
	return f.words(name, &table, b[head:]), nil
}

func (f legacyFamily) get(fd, option int, b []byte) error {
	length := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(f.level), uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// words looks at the chains that forwarded packets cross.
func (f legacyFamily) words(name string, t *legacyTable, entries []byte) string {
	for _, hook := range []uint32{hookPrerouting, hookForward, hookPostrouting} {
		if t.Hooks&(1<<hook) == 0 {
			continue
		}
		chain := fmt.Sprintf("%s-legacy table %s, chain %s", f.command, name, strings.ToUpper(hookNames[hook]))
		if t.Entry[hook] != t.Underflow[hook] {
			return chain + ", has rules"
		}
		// struct ipt_entry: the match, a word, where the target begins; in the target (struct
		// xt_standard_target) the verdict stands behind a head of 32 bytes.
		at := int(t.Underflow[hook])
		if at+f.match+8 > len(entries) {
			return chain + ", can't be read"
		}
		at += int(native.Uint16(entries[at+f.match+4:])) + legacyNameLength
		if at+4 > len(entries) {
			return chain + ", can't be read"
		}
		if int32(native.Uint32(entries[at:])) != legacyAccept {
			return chain + ", policy drop"
		}
	}
	return ""
}
