// SPDX-License-Identifier: Apache-2.0

package fastpath

// PaperSession is a PPPoE session that the kernel does not have.
type PaperSession struct {
	Interface string // of the session
	Parent    string // that carries its frames
	ID        uint16
	Peer      [6]byte // MAC of the access concentrator
}

// Pretend has the fast path take sessions for real that the kernel does not have, and forward by their interfaces, for
// measuring the program where there is no PPP. It holds until the next Apply builds the tables anew; the links have to be told after it.
func (f *FastPath) Pretend(list ...PaperSession) {
	f.locked(func() {
		p := paperSettings{settingsReader: f.tables.read, forwarding: map[string]bool{}}
		for _, s := range list {
			p.forwarding[s.Interface] = true
			p.list = append(p.list, session{parent: s.Parent, id: s.ID, peer: s.Peer})
		}
		f.tables.read = p
	})
}

// paperSettings are the kernel's, and those of sessions on paper.
type paperSettings struct {
	settingsReader
	list       []session
	forwarding map[string]bool
}

func (p paperSettings) of(ifindex int, name string) settings {
	s := p.settingsReader.of(ifindex, name)
	if p.forwarding[name] {
		s.forwarding4, s.forwarding6 = true, true
	}
	return s
}

func (p paperSettings) sessions() []session { return append(p.settingsReader.sessions(), p.list...) }
