// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"

	"minne/internal/model/config"
	"minne/internal/subsystem/flows"
)

// ConnectionsView answers show connections.
type ConnectionsView struct {
	Used     int                 `json:"used"`
	Max      int                 `json:"max"`               // 0 when conntrack is not loaded
	Buckets  int                 `json:"buckets"`           // of conntrack's hash
	Machine  bool                `json:"machine"`           // this router sets the limit; else the machine's does
	Warning  string              `json:"warning,omitempty"` // there is no room, or soon will be none
	Trouble  flows.Trouble       `json:"trouble"`
	Timeouts []ConnectionTimeout `json:"timeouts"`
}

// ConnectionTimeout is after how long a kind of connection is forgotten, by the key of the configuration.
type ConnectionTimeout struct {
	Key     string `json:"key"`
	Seconds int    `json:"seconds"`
}

// connectionBytes is about what the kernel takes for a connection.
const connectionBytes = 400

// Connections prints how much room there is for connections.
func Connections(w io.Writer, v ConnectionsView) error {
	if v.Max == 0 {
		_, err := fmt.Fprintln(w, "No connection tracking: conntrack is not loaded, because there is no firewall")
		return err
	}
	fmt.Fprintf(w, "Connections: %s of %s (%s); about %s of memory now, %s when full; %s buckets\n", count(v.Used), count(v.Max),
		percent(uint64(v.Used), uint64(v.Max)), bytes(uint64(v.Used)*connectionBytes), bytes(uint64(v.Max)*connectionBytes), count(v.Buckets))
	if v.Warning != "" {
		fmt.Fprintf(w, "Warning: %s: minne show flows --by host --sort connections\n", v.Warning)
	}
	if v.Max > 4*v.Buckets {
		fmt.Fprintln(w, "Warning: too few buckets: each packet of the kernel's is looked for in long lists")
	}
	if !v.Machine {
		fmt.Fprintln(w, "The limit is that of the machine: this router, in a network namespace, does not set it")
	}
	fmt.Fprintf(w, "For want of room: %s connections ended early, %s packets dropped; invalid packets: %s\n\n",
		count(v.Trouble.EarlyDropped), count(v.Trouble.Dropped), count(v.Trouble.Invalid))
	t := table{head: []string{"connections.timeouts", ">Forgotten after"}}
	for _, o := range v.Timeouts {
		t.row(o.Key, config.Duration(time.Duration(o.Seconds)*time.Second).String())
	}
	return t.write(w)
}
