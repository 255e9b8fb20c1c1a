// SPDX-License-Identifier: Apache-2.0

package automaton

// The lookup of an image in plain Go: what bpf/algo/d2fa.h does, without masks, because
// these words were written by this package.

// reader reads the D²FA of an image.
type reader struct{ words []uint32 }

// step is the state after a byte's class.
func (r reader) step(state uint32, class uint32) uint32 {
	if state == 0 {
		return 0
	}
	for {
		at := state & wordPlace
		switch state >> wordKind & 3 {
		case recordRow:
			return r.words[at+class]
		case recordList:
			for i := range uint32(listMost) {
				if r.words[at]>>(8*i)&0xff == class {
					return r.words[at+2+i]
				}
			}
			state = r.words[at+1]
		default:
			bitmap := r.words[at+1+2*(class/32)]
			if bitmap>>(class%32)&1 != 0 {
				before := ones(bitmap & (1<<(class%32) - 1))
				return r.words[at+r.words[at+2+2*(class/32)]+before]
			}
			state = r.words[at]
		}
	}
}

// found calls with what a state finds, or, with end, what it finds if the stream ends there.
func (r reader) found(state uint32, end bool, each func(uint32)) {
	flag := uint32(wordFinds)
	if end {
		flag = wordAtEnd
	}
	if state&flag == 0 {
		return
	}
	list := r.words[state&wordPlace-1]
	now, atEnd := r.words[list]&0xffff, r.words[list]>>16
	from, to := list+1, list+1+now
	if end {
		from, to = to, to+atEnd
	}
	for ; from < to; from++ {
		each(r.words[from])
	}
}
