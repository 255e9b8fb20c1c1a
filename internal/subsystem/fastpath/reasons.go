// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"strings"
)

// Reason is why a packet was not forwarded by the fast path; the numbers are those of bpf/reasons.h.
type Reason uint32

// Forwarded is the reason of a packet that went its way.
const Forwarded = Reason(routerReasonREASON_NONE)

// wordsOfReason is what an operator is told of a reason; all of them are in reasonWords.
type wordsOfReason struct {
	name string // as in bpf/reasons.h
	text string
	hint string // what to look at when the number is high; "" when it is nothing to worry about
}

// Reasons are all reasons to drop or punt, drops first.
func Reasons() []Reason {
	var all []Reason
	for r := Forwarded + 1; r < Reason(routerReasonREASON_COUNT); r++ {
		if r != Reason(routerReasonREASON_LAST_DROP) {
			all = append(all, r)
		}
	}
	return all
}

// Drop says that packets with this reason end in the fast path; others go up to the kernel.
func (r Reason) Drop() bool {
	return r != Forwarded && r < Reason(routerReasonREASON_LAST_DROP)
}

// String is the reason's name, as show drops prints it.
func (r Reason) String() string {
	if w := r.words(); w.name != "" {
		return strings.ReplaceAll(strings.ToLower(w.name), "_", "-")
	}
	return fmt.Sprintf("reason-%d", uint32(r))
}

// Text says in one clause what the reason means.
func (r Reason) Text() string { return r.words().text }

// Hint says what an operator may look at; "" when the reason is part of ordinary life.
func (r Reason) Hint() string { return r.words().hint }

func (r Reason) words() wordsOfReason {
	if int(r) < len(reasonWords) {
		return reasonWords[r]
	}
	return wordsOfReason{}
}
