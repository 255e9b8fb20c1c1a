// SPDX-License-Identifier: Apache-2.0

package flowexport

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"minne/internal/subsystem/services/service"
)

// Collector is what was sent to a collector since the daemon's start.
type Collector struct {
	Name     string `json:"name"`
	At       string `json:"at"`
	Format   string `json:"format"`  // protocol and transport
	Records  uint64 `json:"records"` // of the flow log
	Messages uint64 `json:"messages"`
	Waiting  int    `json:"waiting"` // records
	Lost     uint64 `json:"lost"`    // records that came while too many waited
}

// Observed is all collectors, by name.
type Observed struct {
	Collectors []Collector `json:"collectors"`
}

// Observe shows what was sent.
func (x *Exporter) Observe(context.Context) (Observed, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := []Collector{}
	for _, name := range slices.Sorted(maps.Keys(x.collectors)) {
		c := x.collectors[name]
		one := Collector{Name: name, At: c.at, Format: c.words, Records: c.records.Load(), Messages: c.messages.Load()}
		one.Waiting, one.Lost = c.queue.Figures()
		list = append(list, one)
	}
	return Observed{list}, nil
}

func table(v Observed) service.Table {
	t := service.Table{Head: []string{"Collector", "Address", "Format", ">Records", ">Messages", ">Waiting", ">Lost"}, Empty: "The flow log has no collectors."}
	for _, c := range v.Collectors {
		t.Rows = append(t.Rows, []string{c.Name, c.At, c.Format, strconv.FormatUint(c.Records, 10), strconv.FormatUint(c.Messages, 10),
			strconv.Itoa(c.Waiting), strconv.FormatUint(c.Lost, 10)})
	}
	return t
}
