// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/mapped"
)

// PPPoE sessions: the program on the port below takes their header off, and puts it on (bpf/pppoe.h). The kernel says
// which sessions there are, but not which interface each is: that is clear where the configuration has one session on an
// interface and the kernel, too. What Minne's pppd agrees on leaves packets as they are (no compression of any kind).

// session is a PPPoE session as the kernel tells of it.
type session struct {
	parent string  // interface that carries its frames
	id     uint16  // RFC 2516 section 4
	peer   [6]byte // MAC of the access concentrator
}

// kernelSessions are the PPPoE sessions of this thread's network namespace. A kernel without PPPoE has none.
const kernelSessions = "/proc/thread-self/net/pppoe"

func (p *procSettings) sessions() []session {
	f, err := os.Open(kernelSessions)
	if err != nil {
		return nil
	}
	defer f.Close()
	return readSessions(f)
}

// readSessions reads the kernel's list (pppoe_seq_show): the id as its two bytes of a frame make a number here, MAC
// and device.
func readSessions(r io.Reader) (list []session) {
	lines := bufio.NewScanner(r)
	lines.Scan() // the heading
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			continue
		}
		id, err := strconv.ParseUint(fields[0], 16, 16)
		mac, wrong := net.ParseMAC(fields[1])
		peer, ok := macOf(mac)
		if err != nil || wrong != nil || !ok {
			continue
		}
		list = append(list, session{parent: fields[2], id: network16(uint16(id)), peer: peer})
	}
	return list
}

// sessionEntries are the sizes of maps that hang on whether a session has the fast path.
func (s shape) sessionEntries() map[string]uint32 {
	if s.sessions {
		return nil
	}
	return map[string]uint32{routerMapSessions: none}
}

// hasSessions says whether a PPPoE session should have the fast path.
func (d Desired) hasSessions() bool {
	for _, i := range d.Interfaces {
		if i.Session != "" && i.FastPath {
			return true
		}
	}
	return false
}

// takeSessions asks the kernel which sessions the desired interfaces are.
func (t *tables) takeSessions() {
	byParent := map[string][]session{}
	if t.prog.shape.sessions {
		for _, s := range t.read.sessions() {
			byParent[s.parent] = append(byParent[s.parent], s)
		}
	}
	for _, l := range t.links {
		l.session, l.below = nil, 0
		parent := t.desired.Interfaces[l.Name].Session
		if found := byParent[parent]; parent != "" && l.Kind == "ppp" && l.Up && len(found) == 1 {
			l.session, l.below = &found[0], t.indexOf(parent)
		}
	}
}

// renderSessions writes which sessions frames belong to. What stands there may be in use: it is taken away before
// it becomes another.
func (t *tables) renderSessions() {
	if !t.prog.shape.sessions {
		return
	}
	want := map[int]*device{}
	for _, l := range t.links {
		if l.session != nil && t.prog.interfaces.load(2*l.Index)>>48&ifKnown != 0 {
			want[l.below] = l
		}
	}
	for index := range t.links {
		if index >= maxIfindex {
			continue
		}
		var first, second uint64
		if l := want[index]; l != nil {
			first, second = macWord(l.session.peer, network16(l.session.id)), pair(uint32(l.Index), 0)
		}
		if t.prog.sessionsAt.load(2*index) == first && t.prog.sessionsAt.load(2*index+1) == second {
			continue
		}
		t.prog.sessionsAt.store(2*index+1, 0)
		if second != 0 {
			mapped.WaitForReaders()
			t.prog.sessionsAt.store(2*index, first)
			t.prog.sessionsAt.store(2*index+1, second)
		}
	}
}

// noSession says whether an interface should be a PPPoE session with the fast path, and is none.
func (f *FastPath) noSession(name string, d DesiredPort) bool {
	l := f.tables.links[f.tables.indexOf(name)]
	return d.Session != "" && (l == nil || l.session == nil || f.tables.bridgeBelow(l.Index) != nil)
}

// sessionWord is the part of an adjacency that says in which session packets leave, and whether frames
// in several buffers may.
func (w egress) sessionWord() uint64 {
	var b [8]byte
	if w.session != nil {
		binary.NativeEndian.PutUint16(b[:], network16(w.session.id))
		binary.NativeEndian.PutUint16(b[2:], 1)
	}
	if w.scatters {
		binary.NativeEndian.PutUint16(b[4:], 1)
	}
	return binary.NativeEndian.Uint64(b[:])
}

// farEndOf is who is at the other end of a link without Ethernet: of a session the access concentrator.
func (t *tables) farEndOf(ifindex int) (state uint16, mac [6]byte) {
	if l := t.links[ifindex]; l != nil && l.session != nil {
		return rib.NeighNoARP, l.session.peer
	}
	return 0, mac
}
