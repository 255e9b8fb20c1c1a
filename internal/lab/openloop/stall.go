// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// held is for how long the device was kept from working by what is not the device:
// other processes on its processors, and other tenants of the hypervisor. A frame
// that is lost meanwhile says something of the machine and nothing of the device.
type held struct {
	waited time.Duration // its receive threads were ready and did not run
	woken  uint64        // times they had slept before
	stolen time.Duration // of its processors, in steps of 10 ms
}

// deviceHeld reads the counters; what the kernel doesn't tell is 0.
func (r *Rig) deviceHeld() (h held) {
	for _, pid := range r.threads {
		proc := fmt.Sprintf("/proc/%d/", pid)
		if f := strings.Fields(text(proc + "schedstat")); len(f) > 1 { // time on a CPU, time in its queue, both ns
			h.waited += time.Duration(number(f[1]))
		}
		_, after, _ := strings.Cut(text(proc+"status"), "\nvoluntary_ctxt_switches:")
		if f := strings.Fields(after); len(f) > 0 {
			h.woken += number(f[0])
		}
	}
	stat := text("/proc/stat")
	for _, cpu := range r.place.device {
		_, line, _ := strings.Cut(stat, fmt.Sprintf("\ncpu%d ", cpu))
		if f := strings.Fields(line); len(f) > 7 { // proc_stat(5): the eighth is steal
			h.stolen += time.Duration(number(f[7])) * tick
		}
	}
	return h
}

func text(name string) string {
	b, _ := os.ReadFile(name) // a thread may have ended
	return string(b)
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64) // the kernel wrote it
	return n
}

// wakeUp is how long a thread may wait for an idle processor to begin with it: that
// is the device's own time.
const wakeUp = 10 * time.Microsecond

// since returns what has been added since an earlier reading.
func (h held) since(before held) time.Duration {
	waited := h.waited - before.waited - wakeUp*time.Duration(h.woken-before.woken)
	return max(0, waited) + h.stolen - before.stolen
}

// excuse says why a loss of frames that were sent at a rate is not the device's; empty
// when it is, or when more was lost than the time explains.
func excuse(lost uint64, rate float64, away time.Duration) string {
	if lost == 0 || away <= 0 || float64(lost) > rate*away.Seconds() {
		return ""
	}
	return fmt.Sprintf("the machine took the device's processor away for %v, which explains the loss of %d frames", away, lost)
}
