// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Severity is how bad a fault is.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // packets or sessions are lost now, or what is denied could pass
	Major    Severity = "major"    // it works, but not all of it, or not after a restart
	Minor    Severity = "minor"    // it works, but slower, or somebody should look at it
)

// words are how bad a fault is and which command says more, by how its key begins; the first that fits.
var words = []struct {
	begins   string
	severity Severity
	do       string
}{
	{"firewall", Critical, "minne show firewall"},
	{"daemon", Critical, "minne show log"},
	{"fast path", Minor, "minne show fast-path"},
	{"connections", Critical, "minne show connections"},
	{"room for connections", Major, "minne show connections"},
	{"DHCP", Minor, "minne show dhcp"},
	{"static routes", Minor, "minne show ip route"},
	{"policy routing", Minor, "ip rule"},
	{"time", Minor, "minne show ntp"},
	{"slot", Major, "minne show boot"},
	{"revision", Major, "minne revisions"},
	{"state directory", Major, "df"},
	{"optics", Major, "minne show optics"},
	{"power", Major, "minne show power"},
	{"temperature", Major, "minne show sensors"},
	{"fan", Major, "minne show sensors"},
	{"disk", Major, "minne show sensors"},
	{"", Major, "minne show log"},
}

// wordsOf are the severity of a fault with a key, and the command that says more.
func wordsOf(key string) (Severity, string) {
	for _, w := range words {
		if strings.HasPrefix(key, w.begins) {
			return w.severity, w.do
		}
	}
	return Major, ""
}

// idOf is a short name of a key, for commands and for programs that count alarms: 24 bits, so that of 100 faults
// two have the same with a chance of 1 in 3,000. Then both are acknowledged together.
func idOf(key string) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	sum := h.Sum32()
	return fmt.Sprintf("%06x", (sum>>24)^(sum&0xffffff)) // folded, as the authors of FNV have it
}
